package admin_test

import (
	"context"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/recorder"
	"github.com/stint-dev/stint/internal/rules"
)

// What a policy with conditions allows is counted under the policy of the key. No policy
// decides the check of a blocked key.
func TestPolicyUsageCountsOnlyItsOwnDecisions(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		key, err := keys.Parser{}.Key("ip:192.0.2.1")
		if err != nil {
			t.Fatal(err)
		}
		secret := func() []byte { return make([]byte, 32) }
		r := recorder.NewRecorder(recorder.Options{Secret: secret, Node: "a"})
		flusher := recorder.NewFlusher(recorder.FlusherOptions{
			Recorder: r, Sink: f.store.Offences, Node: "a", Secret: secret,
			Escalations: func() map[int64]offences.EscalationPolicy { return nil }, Exempt: func(string) bool { return false }, Now: func() time.Time { return noon.Add(20 * time.Minute) },
		})
		record := func(at time.Time, policy int64, outcome gate.Outcome, isAdditional bool) {
			r.Record(&gate.Decision{
				Check: gate.Check{Key: key, Cost: 1}, Policy: &rules.Policy{ID: policy, Mode: rules.Enforce}, Outcome: outcome, Answer: gate.Answer{At: at}, IsAdditional: isAdditional,
			})
		}
		record(noon, 7, gate.Allowed, true)
		record(noon, 8, gate.Allowed, false)
		record(noon.Add(10*time.Minute), 8, gate.Blocked, false)
		if err := flusher.Flush(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
		d := &admin.Detection{Store: f.store.Offences}
		for policy, want := range map[int64]admin.PolicyUse{7: {Keys: 1}, 8: {Keys: 1, Last: noon}, 9: {}} {
			got, err := admin.ReadPolicyUse(t.Context(), d, policy, noon.Add(-time.Hour), noon.Add(time.Hour))
			if err != nil || got.Keys != want.Keys || !got.Last.Equal(want.Last) || got.IsUsed() != (policy != 9) || got.Checks() > 0 != (policy == 8) {
				t.Errorf("of policy %d: got %+v, %v", policy, got, err)
			}
		}
	})
}
