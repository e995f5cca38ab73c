package recorder

import (
	"fmt"
	"testing"

	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
)

func TestReportsBeyondTheLimitAreOffences(t *testing.T) {
	r := testRecorder(Options{})
	k := key(t, "token:abc")
	report := func(k keys.Key, outcome gate.Outcome, shadow *gate.Shadow) {
		d := &gate.Decision{Check: gate.Check{Key: k, Cost: 1}, Outcome: outcome, Answer: gate.Answer{At: noon, Rule: 0}, IsAdditional: true, Reported: "login_failed", Shadow: shadow}
		if shadow == nil {
			d.Policy = policy
		}
		r.Record(d)
	}
	report(k, gate.Allowed, nil)
	report(k, gate.Limited, nil)
	report(key(t, "token:other"), gate.Allowed, nil)
	report(k, gate.Allowed, &gate.Shadow{Outcome: gate.Limited, Policy: shadowPolicy, Answer: gate.Answer{At: noon, Rule: 0}})
	b := drained(r)
	got := map[offences.Kind]string{}
	for _, o := range b.Offences {
		got[o.Kind] = fmt.Sprint(o.Policy, " ", o.Key, " ", o.RefusedBy, " ", o.Count)
	}
	if len(got) != 2 || got[offences.Limited] != "7 token:abc 1/1s 1" || got[offences.Shadow] != "8 token:abc 5/1m 1" {
		t.Errorf("got %v", got)
	}
	for _, c := range b.Totals {
		if c.Allowed != 0 || c.ShadowAllowed != 0 {
			t.Errorf("reports count as checks: %+v", c)
		}
	}
	seen := map[int64]int64{}
	for _, d := range b.Distinct {
		n, err := offences.CountDistinct([][]byte{d.Sketch})
		if err != nil {
			t.Fatal(err)
		}
		seen[d.Policy] = n
	}
	if seen[7] != 2 || seen[8] != 1 {
		t.Errorf("the policies have seen %v keys, want 2 and 1", seen)
	}
}
