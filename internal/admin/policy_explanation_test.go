package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/test/keytest"
)

// policyWith returns a valid policy that counts by the timestamp log.
func policyWith(t *testing.T, name, match string, texts ...string) *rules.Policy {
	t.Helper()
	stack, err := rules.ParseStack(texts)
	if err != nil {
		t.Fatal(err)
	}
	return &rules.Policy{
		Name: name, Match: []keys.Pattern{keytest.Pattern(t, match)}, Rules: stack,
		Mode: rules.Enforce, OnFailure: rules.FailLocal, Algorithm: algorithms.TimestampLog,
	}
}

func TestDraftIsExplainedBesideTheActivePolicy(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		policies := f.policies()
		saved, err := policies.Put(t.Context(), ann, policyWith(t, "login", "login:*", "5/1m"), etag.New, "")
		if err != nil {
			t.Fatal(err)
		}
		draft := policyWith(t, "login", "login:*", "2/10s", "30/1h")
		x, err := policies.Explain(t.Context(), draft)
		if err != nil {
			t.Fatal(err)
		}
		if x.Active == nil || x.Active.Version != saved.Version || len(x.Changes) != 1 || x.Changes[0].Field != "rules" {
			t.Errorf("got the active policy %+v and the changes %+v", x.Active, x.Changes)
		}
		if x.Limits != "At most 2 in any 10 seconds and 30 in any hour." || !strings.HasPrefix(x.Details, "At full speed the hour's 30 are used up after 2 minutes") {
			t.Errorf("got %q and %q", x.Limits, x.Details)
		}
		if len(x.UsedUp) != 2 || x.UsedUp[0].After != 0 || x.UsedUp[1].After != 140*time.Second {
			t.Errorf("got %+v", x.UsedUp)
		}
		if x.ResetsCounts != "" || x.ConfirmReason != "" || x.Advice != "" {
			t.Errorf("got %+v", x)
		}
		if now, err := policies.FindPolicyByName(t.Context(), "login"); err != nil || now.Version != saved.Version {
			t.Errorf("explaining changed the policy to %+v, %v", now, err)
		}

		counter := policyWith(t, "login", "login:*", "0/1s")
		counter.Algorithm = algorithms.TokenBucket
		if x, err = policies.Explain(t.Context(), counter); err != nil {
			t.Fatal(err)
		}
		if x.ResetsCounts == "" || !strings.Contains(x.ConfirmReason, "refuses every request of login:*") || x.Limits != "No request is allowed." || len(x.UsedUp) != 0 {
			t.Errorf("got %+v", x)
		}

		if x, err = policies.Explain(t.Context(), policyWith(t, "bulk", "bulk:*", "60000/1h")); err != nil {
			t.Fatal(err)
		}
		if x.Active != nil || x.Advice == "" || len(x.Changes) == 0 || x.ResetsCounts != "" {
			t.Errorf("Explain of a new policy: got %+v", x)
		}
	})
}

func TestVersionsOfAPolicyAreCompared(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		policies := f.policies()
		newest := etag.New
		for _, rule := range []string{"5/1m", "6/1m", "7/1m"} {
			put, err := policies.Put(t.Context(), ann, policyWith(t, "login", "login:*", rule), newest, "")
			if err != nil {
				t.Fatal(err)
			}
			newest = rules.TagOf(put)
		}
		for _, test := range []struct{ from, to, wantFrom, wantTo int64 }{{-1, 0, 2, 3}, {1, 0, 1, 3}, {0, 1, 0, 1}, {-1, 1, 0, 1}} {
			d, err := policies.Diff(t.Context(), "login", test.from, test.to)
			if err != nil || d.From != test.wantFrom || d.To != test.wantTo || len(d.Fields) == 0 {
				t.Errorf("Diff from %d to %d: got %+v, %v; want %d to %d", test.from, test.to, d, err, test.wantFrom, test.wantTo)
			}
		}
		for _, version := range []int64{-1, 4} {
			if _, err := policies.Rollback(t.Context(), ann, "login", version, newest, ""); err == nil {
				t.Errorf("Rollback to version %d returned no error", version)
			}
		}
		want, err := policies.PolicyVersions(t.Context(), "login")
		if err != nil {
			t.Fatal(err)
		}
		restored, err := policies.Rollback(t.Context(), ann, "login", 0, newest, "")
		if err != nil || restored.Version != 4 || len(rules.Diff(restored, want[1])) != 0 {
			t.Errorf("Rollback by one version: got %+v, %v", restored, err)
		}
	})
}
