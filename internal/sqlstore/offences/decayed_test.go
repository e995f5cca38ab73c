package offences_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/storetest"
)

// A state is deleted when its level has decayed to 0 and its key has not offended for 30 days, and
// under a policy without an escalation after a year.
func TestDeleteOlderRemovesDecayedEscalationStates(t *testing.T) {
	const day = 24 * time.Hour
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		escalation := storetest.Escalation()
		escalation.DecayAfter = 20 * day
		n := newCounting(t, f.Offences, f.Clock, "a", escalation)
		start := f.Clock.Now()
		offend := func(times int, keys ...string) {
			for _, key := range keys {
				n.limited(key, times)
			}
			n.flush()
		}
		all := []string{"k:never", "k:once", "k:twice", "k:held", "k:permanent", "k:expired"}
		offend(10, all[1:]...)
		// An operator moves the ends of blocks, which the states do not know.
		for key, until := range map[string]time.Time{"k:held": start.Add(50 * day), "k:permanent": {}} {
			id := ofKey(automaticBlocks(t, f.Store), key)[0].ID
			if _, err := f.Entries.Update(t.Context(), storetest.Operator, blocks.Block, id, wire.EntryPatch{ExpiresAt: wire.To(wire.At(until))}); err != nil {
				t.Fatal(err)
			}
		}
		f.Clock.Advance(time.Hour)
		offend(10, "k:twice")
		offend(1, "k:never")
		// This one was permanent, has ended, and is past its retention.
		f.Exec(t, "UPDATE escalations SET ended_at = 9223372036854775807, block_id = 'gone' WHERE key = 'k:expired'")
		left := func(days int, policy rules.Policy, want ...string) {
			t.Helper()
			if _, err := f.Offences.DeleteOlder(t.Context(), start.Add(time.Duration(days)*day+2*time.Hour), offences.Retention{}, offences.DecaysOf([]*rules.Policy{&policy})); err != nil {
				t.Fatal(err)
			}
			states, err := f.Offences.EscalationStates(t.Context(), all)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range states {
				got = append(got, s.Key)
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("after %d days: %s, want %s", days, strings.Join(got, " "), strings.Join(want, " "))
			}
		}
		left(29, *n.policy, all...)
		left(30, *n.policy, "k:twice", "k:held", "k:permanent")
		left(39, *n.policy, "k:twice", "k:held", "k:permanent")
		left(40, *n.policy, "k:held", "k:permanent")
		left(69, *n.policy, "k:held", "k:permanent")
		left(70, *n.policy, "k:permanent")
		without := *n.policy
		without.Escalation = nil
		left(364, without, "k:permanent")
		left(365, without)
	})
}
