package policies_test

import (
	"testing"

	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/test/storetest"
)

func TestApplyPoliciesUsesOneRevision(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "a", "token:a*", "1/s"), etag.New)
		storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "b", "token:b*", "1/s"), etag.New)
		storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "gone", "token:c*", "1/s"), etag.New)
		revision := storetest.ChangesSince(t, f, 0).Revision

		// a and b swap their patterns, c gets the pattern of the deleted policy.
		after, err := f.Policies.ApplyPolicies(ctx, storetest.Operator, []rules.PolicyChange{
			{Name: "a", Policy: storetest.NewPolicy(t, "a", "token:b*", "1/s"), Expect: storetest.TagOf(t, f.Policies, "a")},
			{Name: "b", Policy: storetest.NewPolicy(t, "b", "token:a*", "1/s"), Expect: storetest.TagOf(t, f.Policies, "b")},
			{Name: "c", Policy: storetest.NewPolicy(t, "c", "token:c*", "2/s")},
			{Name: "gone", Expect: storetest.TagOf(t, f.Policies, "gone")},
		})
		if err != nil {
			t.Fatal(err)
		}
		if after[0].Version != 2 || after[1].Version != 2 || after[2].Version != 1 || after[3] != nil {
			t.Fatalf("got %+v", after)
		}
		for _, p := range after[:3] {
			if p.Revision != revision+1 {
				t.Errorf("%s has revision %d, want %d for all", p.Name, p.Revision, revision+1)
			}
		}
		all, err := f.Policies.Policies(ctx)
		if err != nil || len(all) != 4 { // default too
			t.Fatalf("got %v, %v", all, err)
		}
	})
}

func TestApplyPoliciesIsAllOrNothing(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "a", "token:a*", "1/s"), etag.New)
		revision := storetest.ChangesSince(t, f, 0).Revision
		good := rules.PolicyChange{Name: "new", Policy: storetest.NewPolicy(t, "new", "token:n*", "1/s")}
		for name, c := range map[string]struct {
			bad  rules.PolicyChange
			code fault.Code
		}{
			"another version":        {rules.PolicyChange{Name: "a", Policy: storetest.NewPolicy(t, "a", "token:a*", "9/s"), Expect: etag.Of(7)}, fault.Outdated},
			"no version":             {rules.PolicyChange{Name: "a", Policy: storetest.NewPolicy(t, "a", "token:a*", "9/s")}, fault.NeedVersion},
			"an unknown name":        {rules.PolicyChange{Name: "nobody", Expect: etag.Any}, fault.NotFound},
			"a pattern of another":   {rules.PolicyChange{Name: "b", Policy: storetest.NewPolicy(t, "b", "token:a*", "9/s")}, fault.Conflict},
			"a pattern twice":        {rules.PolicyChange{Name: "b", Policy: storetest.NewPolicy(t, "b", "token:n*", "9/s")}, fault.Conflict},
			"one name twice":         {good, fault.Invalid},
			"a version of no policy": {rules.PolicyChange{Name: "b", Policy: storetest.NewPolicy(t, "b", "token:b*", "9/s"), Expect: etag.Of(7)}, fault.NotFound},
		} {
			_, err := f.Policies.ApplyPolicies(ctx, storetest.Operator, []rules.PolicyChange{good, c.bad})
			if !fault.Is(err, c.code) {
				t.Errorf("%s: got %v, want a fault %s", name, err, c.code)
			}
		}
		if got := storetest.ChangesSince(t, f, 0).Revision; got != revision {
			t.Errorf("the revision moved from %d to %d", revision, got)
		}
		if _, err := f.Policies.FindPolicyByName(ctx, "new"); !fault.Is(err, fault.NotFound) {
			t.Errorf("FindPolicyByName(new): got %v, want NotFound: half of the change was applied", err)
		}
	})
}

func TestApplyPoliciesWithEqualPolicyChangesNothing(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "a", "token:a*", "1/s"), etag.New)
		revision := storetest.ChangesSince(t, f, 0).Revision
		after, err := f.Policies.ApplyPolicies(t.Context(), storetest.Operator, []rules.PolicyChange{{Name: "a", Policy: storetest.NewPolicy(t, "a", "token:a*", "1/s"), Expect: storetest.TagOf(t, f.Policies, "a")}})
		if err != nil || len(after) != 1 || after[0].Version != 1 {
			t.Fatalf("got %+v, %v", after, err)
		}
		if got := storetest.ChangesSince(t, f, 0).Revision; got != revision {
			t.Errorf("the revision moved from %d to %d", revision, got)
		}
	})
}
