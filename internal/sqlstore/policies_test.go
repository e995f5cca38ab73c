package sqlstore_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

func pattern(t testing.TB, text string) keys.Pattern {
	t.Helper()
	p, err := keys.Parser{}.Pattern(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func key(t testing.TB, text string) keys.Key {
	t.Helper()
	k, err := keys.Parser{}.Key(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// policy returns one that enforces stack on a pattern.
func policy(t testing.TB, name, match string, stack ...string) *rules.Policy {
	t.Helper()
	parsed, err := rules.ParseStack(stack)
	if err != nil {
		t.Fatal(err)
	}
	return &rules.Policy{
		Name: name, Match: []keys.Pattern{pattern(t, match)}, Rules: parsed,
		Mode: rules.Enforce, OnFailure: rules.FailLocal, Algorithm: algorithms.TimestampLog,
	}
}

func put(t testing.TB, store rules.Store, p *rules.Policy, expect int64) *rules.Policy {
	t.Helper()
	made, err := store.PutPolicy(t.Context(), operator, p, expect)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// wants fails the test unless err is a fault of that code.
func wants(t testing.TB, err error, code fault.Code) {
	t.Helper()
	if !fault.Is(err, code) {
		t.Fatalf("got %v, want a fault %s", err, code)
	}
}

func TestPutPolicy_keeps_every_field(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		p := policy(t, "api", "token:*", "5/10s", "0/1ms")
		p.Match = append(p.Match, pattern(t, "ip:2001:db8::1/128"), pattern(t, `host:a\*b`))
		p.OnFailure = rules.FailDeny
		p.Mode = rules.Shadow
		p.Escalation = &rules.Escalation{
			Threshold: 50, Window: 10 * time.Minute, Duration: time.Hour, Factor: 2.5, MaxDuration: 366 * 24 * time.Hour, DecayAfter: 36 * time.Hour,
		}
		made := put(t, f, p, rules.ExpectNew)
		read, err := f.FindPolicyByName(t.Context(), "api")
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []*rules.Policy{made, read} {
			if got.ID == 0 || got.Version != 1 || got.Generation != 1 || got.UpdatedBy != "ann" || got.Revision != 2 ||
				!got.Created.Equal(f.clock.Now()) || !got.Updated.Equal(f.clock.Now()) {
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

func TestPutPolicy_versions(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		_, err := f.PutPolicy(ctx, operator, policy(t, "api", "token:*", "1/s"), 1)
		wants(t, err, fault.NotFound)
		first := put(t, f, policy(t, "api", "token:*", "1/s"), rules.ExpectNew)
		_, err = f.PutPolicy(ctx, operator, policy(t, "api", "token:*", "2/s"), rules.ExpectNew)
		wants(t, err, fault.NeedVersion)
		_, err = f.PutPolicy(ctx, operator, policy(t, "api", "token:*", "2/s"), 7)
		wants(t, err, fault.Outdated)
		same := put(t, f, policy(t, "api", "token:*", "1/s"), 1)
		if same.Version != 1 || same.Revision != first.Revision {
			t.Fatalf("an equal policy made %+v", same)
		}
		second := put(t, f, policy(t, "api", "token:*", "2/s"), 1)
		third := put(t, f, policy(t, "api", "token:*", "3/s"), rules.ExpectAny)
		if second.Version != 2 || third.Version != 3 || third.ID != first.ID || third.Generation != 1 {
			t.Fatalf("made %+v then %+v", second, third)
		}
		versions, err := f.PolicyVersions(ctx, "api")
		if err != nil || len(versions) != 3 || versions[0].Version != 3 || versions[2].Rules.String() != "1/1s" {
			t.Fatalf("versions %v, %v", versions, err)
		}
	})
}

func TestPutPolicy_one_pattern_belongs_to_one_policy_of_a_role(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		put(t, f, policy(t, "api", "token:*", "1/s"), rules.ExpectNew)
		for _, mode := range []rules.Mode{rules.Enforce, rules.Off} {
			p := policy(t, "second", "token:*", "1/s")
			p.Mode = mode
			_, err := f.PutPolicy(t.Context(), operator, p, rules.ExpectNew)
			wants(t, err, fault.Conflict)
			var e *fault.Error
			if errors.As(err, &e); e.Detail["policy"] != "api" {
				t.Fatalf("the fault %+v does not name the other policy", e)
			}
		}
		watching := policy(t, "second", "token:*", "1/s")
		watching.Mode = rules.Shadow
		put(t, f, watching, rules.ExpectNew)
		watching.Name = "third"
		_, err := f.PutPolicy(t.Context(), operator, watching, rules.ExpectNew)
		wants(t, err, fault.Conflict)
	})
}

func TestPutPolicy_retains_what_a_version_replaced_lately_could_still_refuse(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		day := rules.Retention{Entries: 800, Window: 24 * time.Hour}
		minute := rules.Retention{Entries: 20, Window: time.Minute}
		put(t, f, policy(t, "api", "token:*", "800/d"), rules.ExpectNew)
		if p := put(t, f, policy(t, "api", "token:*", "20/m"), 1); p.Retention != day {
			t.Fatalf("just replaced: %+v", p.Retention)
		}
		f.clock.Advance(24*time.Hour - time.Millisecond)
		if p, err := f.FindPolicyByName(t.Context(), "api"); err != nil || p.Retention != day {
			t.Fatalf("a millisecond before the window ends: %+v, %v", p, err)
		}
		f.clock.Advance(time.Millisecond)
		if p, err := f.FindPolicyByName(t.Context(), "api"); err != nil || p.Retention != minute {
			t.Fatalf("at the window's end: %+v, %v", p, err)
		}
	})
}

func TestDeletePolicy_keeps_its_versions_and_never_reuses_its_id(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		first := put(t, f, policy(t, "api", "token:*", "1/s"), rules.ExpectNew)
		wants(t, f.DeletePolicy(ctx, operator, "api", 2), fault.Outdated)
		if err := f.DeletePolicy(ctx, operator, "api", 1); err != nil {
			t.Fatal(err)
		}
		wants(t, f.DeletePolicy(ctx, operator, "api", rules.ExpectAny), fault.NotFound)
		_, err := f.FindPolicyByName(ctx, "api")
		wants(t, err, fault.NotFound)
		versions, err := f.PolicyVersions(ctx, "api")
		if err != nil || len(versions) != 1 || versions[0].ID != first.ID {
			t.Fatalf("versions after deleting: %v, %v", versions, err)
		}
		again := put(t, f, versions[0], rules.ExpectNew)
		if again.ID == first.ID || again.Version != 1 {
			t.Fatalf("made again as %+v", again)
		}
	})
}

func TestPutPolicy_of_two_nodes_at_once_lets_one_win(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		put(t, f, policy(t, "api", "token:*", "1/s"), rules.ExpectNew)
		var stores []rules.Store
		if f.postgres() {
			stores = []rules.Store{f.Store, f.another(t)}
		} else {
			stores = []rules.Store{f.Store, f.Store}
		}
		results := make(chan error, 20)
		var writers sync.WaitGroup
		for n := range 20 {
			p := policy(t, "api", "token:*", "5/s")
			p.Rules[0].Limit = n + 10
			writers.Go(func() {
				_, err := stores[n%2].PutPolicy(t.Context(), operator, p, 1)
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
			wants(t, err, fault.Outdated)
		}
		if won != 1 {
			t.Fatalf("%d writers replaced version 1, want one", won)
		}
	})
}
