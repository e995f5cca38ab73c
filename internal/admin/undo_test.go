package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/storetest"
)

// The deletion of a policy of every kind is undone as it was, and asks only what creating the policy asks.
func TestUndoOfDeletionAsksWhatCreationAsks(t *testing.T) {
	when := func(path string) wire.PolicyWhen { return wire.WhenOf(map[string][]string{"path": {path}}) }
	attack := wire.WhenOf(map[string][]string{"attack": {"on"}})
	for name, kind := range map[string]struct {
		document wire.PolicyRequest
		asks     string
	}{
		"plain":       {wire.PolicyRequest{Match: []string{"ip:192.0.2.0/24"}, Rules: []string{"5/1m"}}, ""},
		"off":         {wire.PolicyRequest{Match: []string{"ip:192.0.2.0/24"}, Rules: []string{"5/1m"}, Mode: "off"}, "it takes ip:192.0.2.0/24 from the policy website and is off: every request of it is allowed; this concerns 2 keys"},
		"refuses all": {wire.PolicyRequest{Match: []string{"category:ai-training"}, Rules: []string{"0/1s"}}, "it refuses every request of category:ai-training"},
		"conditional": {wire.PolicyRequest{When: when("/login"), Rules: []string{"5/1m"}}, ""},
		"trap":        {wire.PolicyRequest{When: when("/.env"), Rules: []string{"0/1s"}, OnLimit: "block"}, ""},
		"outcome":     {wire.PolicyRequest{Outcome: "failed", Scope: "login", Rules: []string{"5/1m"}}, ""},
		"evidence": {wire.PolicyRequest{Evidence: []string{"20 path @secrets", "1 outcome not_found distinct path"}, Rules: []string{"20 points/1h"},
			Escalation: &wire.Escalation{Threshold: 3, Window: wire.Duration(time.Hour), Duration: wire.Duration(4 * time.Hour), Factor: 2, MaxDuration: wire.Duration(24 * time.Hour), DecayAfter: wire.Duration(24 * time.Hour)}}, ""},
		"evidence of a scope": {wire.PolicyRequest{Scope: "login", Evidence: []string{"1 outcome login_failed"}, Rules: []string{"20 points/1h"}, Also: []string{"net:/24 60 points/1d"}}, ""},
		"distinct":            {wire.PolicyRequest{Rules: []string{"5/1h distinct account"}, OnLimit: "challenge"}, ""},
		"attack":              {wire.PolicyRequest{When: attack, Rules: []string{"5/1m"}}, ""},
		"refuses in attacks":  {wire.PolicyRequest{When: attack, Rules: []string{"0/1m"}}, "it refuses every request of ip:* while an attack goes on"},
		"shadow":              {wire.PolicyRequest{Rules: []string{"5/1m"}, Mode: "shadow"}, ""},
		"shadow of evidence":  {wire.PolicyRequest{Evidence: []string{"20 path @secrets"}, Rules: []string{"20 points/1h"}, Mode: "shadow"}, ""},
		"amounts":             {wire.PolicyRequest{Match: []string{"ip:192.0.2.0/24"}, Unit: "tokens", Cost: 10, Rules: []string{"500/1m"}, OnFailure: "deny"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, storetest.Migrated.SQLite(t))
			p := admin.NewPolicies(f.store.Policies, admin.PolicyOptions{View: f.catalog, Sample: seenTraffic, Now: func() time.Time { return f.now }})
			f.undo.Policies = p
			if _, err := p.Put(t.Context(), ann, policyWith(t, "website", "ip:*", "100/1s"), etag.New, ""); err != nil {
				t.Fatal(err)
			}
			kind.document.Name = "again"
			if kind.document.Match == nil {
				kind.document.Match = []string{"ip:*"}
			}
			wanted, err := rules.FromDocument(&kind.document, keys.Reading{AnyKind: true}.Pattern)
			if err != nil {
				t.Fatal(err)
			}
			asks := func(doing string, err error) {
				t.Helper()
				if kind.asks == "" && err != nil || kind.asks != "" && (!fault.Is(err, fault.NeedConfirm) || !strings.Contains(err.Error(), kind.asks)) {
					t.Errorf("%s: %v, want a question that says %q", doing, err, kind.asks)
				}
			}
			_, err = p.Put(t.Context(), ann, wanted, etag.New, "")
			asks("creating it", err)
			if kind.asks != "" {
				if _, err := p.Put(t.Context(), ann, wanted, etag.New, "again"); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.Delete(t.Context(), ann, "again", etag.Any, "again"); err != nil {
				t.Fatal(err)
			}
			asks("undoing its deletion", undoLast(t, f, "policy.delete", "again", ""))
			if kind.asks != "" {
				if err := undoLast(t, f, "policy.delete", "again", "again"); err != nil {
					t.Fatal(err)
				}
			}
			now, err := f.store.Policies.FindPolicyByName(t.Context(), "again")
			if err != nil {
				t.Fatal(err)
			}
			if changes := rules.Diff(wanted, now); len(changes) > 0 {
				t.Errorf("it came back with %v", changes)
			}
		})
	}
}

// An undo that the store refuses asks nothing first.
func TestUndoThatCannotBeDoneAsksNothing(t *testing.T) {
	f := newFixture(t, storetest.Migrated.SQLite(t))
	p := f.policies()
	for _, name := range []string{"first", "second"} {
		if _, err := p.Put(t.Context(), ann, policyWith(t, name, "ip:*", "5/1s"), etag.New, ""); err != nil {
			t.Fatal(err)
		}
		if name == "first" {
			if err := p.Delete(t.Context(), ann, name, etag.Any, name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := undoLast(t, f, "policy.delete", "first", ""); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), `The pattern "ip:*" belongs to the policy "second"`) {
		t.Errorf("undoing the deletion of a policy whose pattern another has: %v, want the conflict", err)
	}
	if err := undoLast(t, f, "policy.create", "first", ""); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "has changed since") {
		t.Errorf("undoing the creation of a deleted policy: %v, want that it has changed since", err)
	}
}
