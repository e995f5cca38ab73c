package policies_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/storetest"
)

func TestPutPolicyStoresEveryField(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		p := storetest.NewPolicy(t, "api", "token:*", "5/10s", "0/1ms")
		p.Match = append(p.Match, keytest.Pattern(t, "ip:2001:db8::1/128"), keytest.Pattern(t, `host:a\*b`))
		p.OnFailure = rules.FailDeny
		p.Mode = rules.Shadow
		p.Escalation = &rules.Escalation{
			Threshold: 50, Window: 10 * time.Minute, Duration: time.Hour, Factor: 2.5, MaxDuration: 366 * 24 * time.Hour, DecayAfter: 36 * time.Hour,
		}
		made := storetest.PutPolicy(t, f.Policies, p, etag.New)
		read, err := f.Policies.FindPolicyByName(t.Context(), "api")
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []*rules.Policy{made, read} {
			if got.ID == 0 || got.Version != 1 || got.Generation != 1 || got.UpdatedBy != "ann" || got.Revision != 2 ||
				!got.Created.Equal(f.Clock.Now()) || !got.Updated.Equal(f.Clock.Now()) {
				t.Errorf("got %+v", got)
			}
			if !got.Rules.Equal(p.Rules) || got.OnFailure != p.OnFailure || got.Mode != p.Mode || *got.Escalation != *p.Escalation {
				t.Errorf("got %+v", got)
			}
			for i, m := range p.Match {
				if got.Match[i].String() != m.String() {
					t.Errorf("match %d is %q, want %q", i, got.Match[i], m)
				}
			}
		}
	})
}

func TestPutPolicyChecksAndIncrementsVersion(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		_, err := f.Policies.PutPolicy(ctx, storetest.Operator, storetest.NewPolicy(t, "api", "token:*", "1/s"), etag.Of(7))
		storetest.WantFault(t, err, fault.NotFound)
		first := storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "api", "token:*", "1/s"), etag.New)
		_, err = f.Policies.PutPolicy(ctx, storetest.Operator, storetest.NewPolicy(t, "api", "token:*", "2/s"), etag.New)
		storetest.WantFault(t, err, fault.NeedVersion)
		_, err = f.Policies.PutPolicy(ctx, storetest.Operator, storetest.NewPolicy(t, "api", "token:*", "2/s"), etag.Of(7))
		storetest.WantFault(t, err, fault.Outdated)
		same := storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "api", "token:*", "1/s"), storetest.TagOf(t, f.Policies, "api"))
		if same.Version != 1 || same.Revision != first.Revision {
			t.Fatalf("putting an equal policy: got %+v, want no new version", same)
		}
		second := storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "api", "token:*", "2/s"), storetest.TagOf(t, f.Policies, "api"))
		third := storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "api", "token:*", "3/s"), etag.Any)
		if second.Version != 2 || third.Version != 3 || third.ID != first.ID || third.Generation != 1 {
			t.Fatalf("got %+v, then %+v", second, third)
		}
		versions, err := f.Policies.PolicyVersions(ctx, "api")
		if err != nil || len(versions) != 3 || versions[0].Version != 3 || versions[2].Rules.String() != "1/1s" {
			t.Fatalf("versions %v, %v", versions, err)
		}
	})
}

func TestPutPolicyRejectsPatternOfAnotherPolicy(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "api", "token:*", "1/s"), etag.New)
		for _, mode := range []rules.Mode{rules.Enforce, rules.Off} {
			p := storetest.NewPolicy(t, "second", "token:*", "1/s")
			p.Mode = mode
			_, err := f.Policies.PutPolicy(t.Context(), storetest.Operator, p, etag.New)
			storetest.WantFault(t, err, fault.Conflict)
			var e *fault.Error
			if errors.As(err, &e); e.Detail["policy"] != "api" {
				t.Fatalf("the fault %+v does not contain the other policy", e)
			}
		}
		shadow := storetest.NewPolicy(t, "second", "token:*", "1/s")
		shadow.Mode = rules.Shadow
		storetest.PutPolicy(t, f.Policies, shadow, etag.New)
		shadow.Name = "third"
		_, err := f.Policies.PutPolicy(t.Context(), storetest.Operator, shadow, etag.New)
		storetest.WantFault(t, err, fault.Conflict)
	})
}

func TestPutPolicyKeepsRetentionOfReplacedVersion(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		day := rules.Retention{Entries: 800, Window: 24 * time.Hour}
		minute := rules.Retention{Entries: 20, Window: time.Minute}
		storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "api", "token:*", "800/d"), etag.New)
		if p := storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "api", "token:*", "20/m"), storetest.TagOf(t, f.Policies, "api")); p.Retention != day {
			t.Fatalf("the retention after the change is %+v, want %+v", p.Retention, day)
		}
		f.Clock.Advance(24*time.Hour - time.Millisecond)
		if p, err := f.Policies.FindPolicyByName(t.Context(), "api"); err != nil || p.Retention != day {
			t.Fatalf("a millisecond before the window ends: got %+v, %v, want the retention %+v", p, err, day)
		}
		f.Clock.Advance(time.Millisecond)
		if p, err := f.Policies.FindPolicyByName(t.Context(), "api"); err != nil || p.Retention != minute {
			t.Fatalf("at the window's end: got %+v, %v, want the retention %+v", p, err, minute)
		}
	})
}

func TestPutPolicyKeepsRetentionOfReplacedFurtherKeys(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		put := func(expect etag.Tag, also ...string) *rules.Policy {
			p := storetest.NewPolicy(t, "api", "ip:*", "5/m")
			var err error
			if p.Also, err = rules.ParseAlso(also); err != nil {
				t.Fatal(err)
			}
			return storetest.PutPolicy(t, f.Policies, p, expect)
		}
		retentions := func(p *rules.Policy) (all []rules.Retention) {
			for _, part := range rules.NewSelector([]*rules.Policy{p}).DerivedOf(p) {
				all = append(all, part.Retention)
			}
			return all
		}
		put(etag.New, "account 800/d", "net:/24 40/h")
		put(storetest.TagOf(t, f.Policies, "api"), "net:/24", "account 20/m")
		replaced := put(storetest.TagOf(t, f.Policies, "api"), "net:/24", "account 30/m")
		want := []rules.Retention{{Entries: 40, Window: time.Hour}, {Entries: 800, Window: 24 * time.Hour}}
		if got := retentions(replaced); !slices.Equal(got, want) {
			t.Fatalf("the further keys keep %+v after the changes, want %+v", got, want)
		}
		read := func(when string, want ...rules.Retention) {
			t.Helper()
			p, err := f.Policies.FindPolicyByName(t.Context(), "api")
			if err != nil {
				t.Fatal(err)
			}
			if got := retentions(p); !slices.Equal(got, want) || p.Retention != (rules.Retention{Entries: 5, Window: time.Minute}) {
				t.Fatalf("%s the further keys keep %+v, want %+v, and the policy %+v", when, got, want, p.Retention)
			}
		}
		read("at once", want...)
		f.Clock.Advance(time.Hour)
		read("after an hour", rules.Retention{Entries: 5, Window: time.Minute}, want[1])
		f.Clock.Advance(23 * time.Hour)
		read("after a day", rules.Retention{Entries: 5, Window: time.Minute}, rules.Retention{Entries: 30, Window: time.Minute})
	})
}

func TestDeletePolicyKeepsVersionsAndNeverReusesID(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		first := storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "api", "token:*", "1/s"), etag.New)
		storetest.WantFault(t, f.Policies.DeletePolicy(ctx, storetest.Operator, "api", etag.Of(7)), fault.Outdated)
		if err := f.Policies.DeletePolicy(ctx, storetest.Operator, "api", storetest.TagOf(t, f.Policies, "api")); err != nil {
			t.Fatal(err)
		}
		storetest.WantFault(t, f.Policies.DeletePolicy(ctx, storetest.Operator, "api", etag.Any), fault.NotFound)
		_, err := f.Policies.FindPolicyByName(ctx, "api")
		storetest.WantFault(t, err, fault.NotFound)
		versions, err := f.Policies.PolicyVersions(ctx, "api")
		if err != nil || len(versions) != 1 || versions[0].ID != first.ID {
			t.Fatalf("got the versions %v, %v after deleting", versions, err)
		}
		again := storetest.PutPolicy(t, f.Policies, versions[0], etag.New)
		if again.ID == first.ID || again.Version != 1 {
			t.Fatalf("the recreated policy is %+v, want another id and version 1", again)
		}
		_, err = f.Policies.PutPolicy(ctx, storetest.Operator, storetest.NewPolicy(t, "api", "token:*", "9/s"), rules.TagOf(first))
		storetest.WantFault(t, err, fault.Outdated)
		storetest.WantFault(t, f.Policies.DeletePolicy(ctx, storetest.Operator, "api", rules.TagOf(first)), fault.Outdated)
	})
}

func TestRenamedPolicyKeepsItsIDAndVersions(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		ctx := t.Context()
		first := storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "api", "token:*", "800/d"), etag.New)
		storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "api", "token:*", "2/s"), etag.Any)
		draft := storetest.NewPolicy(t, "api.draft", "token:*", "3/s")
		draft.Mode = rules.Shadow
		drafted := storetest.PutPolicy(t, f.Policies, draft, etag.New)
		storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "taken", "host:*", "1/s"), etag.New)
		_, err := f.Policies.RenamePolicy(ctx, storetest.Operator, "api", "taken", etag.Any)
		storetest.WantFault(t, err, fault.Conflict)
		_, err = f.Policies.RenamePolicy(ctx, storetest.Operator, "api", "gateway", rules.TagOf(first))
		storetest.WantFault(t, err, fault.Outdated)
		renamed, err := f.Policies.RenamePolicy(ctx, storetest.Operator, "api", "gateway", storetest.TagOf(t, f.Policies, "api"))
		if err != nil || renamed.ID != first.ID || renamed.Name != "gateway" || renamed.Version != 3 || renamed.Generation != first.Generation || renamed.Retention != first.Retention {
			t.Fatalf("the renamed policy is %+v, %v; want the id %d, its logs and their retention", renamed, err, first.ID)
		}
		_, err = f.Policies.FindPolicyByName(ctx, "api")
		storetest.WantFault(t, err, fault.NotFound)
		if d, err := f.Policies.FindPolicyByName(ctx, "gateway.draft"); err != nil || d.ID != drafted.ID {
			t.Errorf("the draft is %+v, %v; want it renamed too", d, err)
		}
		if all, err := f.Policies.PolicyVersions(ctx, "gateway"); err != nil || len(all) != 3 {
			t.Errorf("the versions are %v, %v", all, err)
		}
		storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "api", "k:*", "1/s"), etag.New) // the old name is free
	})
}

func TestPutPolicyByTwoNodesConcurrentlyLetsOneWin(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		seen := rules.TagOf(storetest.PutPolicy(t, f.Policies, storetest.NewPolicy(t, "api", "token:*", "1/s"), etag.New))
		var stores []rules.Store
		if f.Postgres() {
			stores = []rules.Store{f.Policies, f.Another(t).Policies}
		} else {
			stores = []rules.Store{f.Policies, f.Policies}
		}
		results := make(chan error, 20)
		var writers sync.WaitGroup
		for n := range 20 {
			p := storetest.NewPolicy(t, "api", "token:*", "5/s")
			p.Rules[0].Limit = n + 10
			writers.Go(func() {
				_, err := stores[n%2].PutPolicy(t.Context(), storetest.Operator, p, seen)
				results <- err
			})
		}
		writers.Wait()
		close(results)
		won := 0
		for err := range results {
			if err == nil {
				won++
				continue
			}
			storetest.WantFault(t, err, fault.Outdated)
		}
		if won != 1 {
			t.Fatalf("%d writers replaced version 1, want one", won)
		}
	})
}
