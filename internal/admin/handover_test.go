package admin_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/storetest"
)

// seenTraffic is the recorded traffic of three addresses and a token.
func seenTraffic(context.Context, time.Time, time.Time) (*admin.TrafficSample, error) {
	var points []offences.SamplePoint
	for _, key := range []string{"ip:192.0.2.1", "ip:192.0.2.2", "ip:198.51.100.1", "token:gold-1"} {
		points = append(points, offences.SamplePoint{Key: key, At: noon.UnixMilli(), Cost: 1, Count: 10})
	}
	return &admin.TrafficSample{Points: points, Ratio: 1}, nil
}

// leaving are the states of the policy "website" in which its keys fall under another policy, or
// under none. In what it is before, it enforces 5/1s for ip:*.
var leaving = map[string]struct {
	change func(t *testing.T, p *rules.Policy) // nil deletes it
	reason string
}{
	"deleted": {nil, "ip:* falls under the policy default; this concerns 3 keys with 30 checks"},
	"shadow":  {func(_ *testing.T, p *rules.Policy) { p.Mode = rules.Shadow }, "ip:* falls under the policy default; this concerns 3 keys with 30 checks"},
	"off":     {func(_ *testing.T, p *rules.Policy) { p.Mode = rules.Off }, "it is off, and every request of ip:* is allowed; this concerns 3 keys with 30 checks"},
	"narrower": {func(t *testing.T, p *rules.Policy) {
		p.Match = []keys.Pattern{keytest.Pattern(t, "ip:192.0.2.0/24")}
	}, "ip:* falls under the policy default; this concerns 1 key with 10 checks"},
	"conditional": {func(t *testing.T, p *rules.Policy) {
		var err error
		if p.When, err = conditions.Parse(conditions.Texts{"path": {"/api/*"}}); err != nil {
			t.Fatal(err)
		}
	}, "ip:* falls under the policy default; this concerns 3 keys with 30 checks"},
	"attack": {func(_ *testing.T, p *rules.Policy) { p.InAttack = true }, "ip:* falls under the policy default; this concerns 3 keys with 30 checks"},
}

// Every way in which keys leave an enforcing policy asks, at every entrance alike, says to which
// policy and how many keys, and is undone by its audit record.
func TestKeysLeaveEnforcingPolicyOnlyWithConfirmation(t *testing.T) {
	entrances := map[string]func(t *testing.T, f *fixture, p *admin.Policies, wanted *rules.Policy, confirm string) error{
		"put": func(t *testing.T, _ *fixture, p *admin.Policies, wanted *rules.Policy, confirm string) error {
			if wanted == nil {
				return p.Delete(t.Context(), ann, "website", etag.Any, confirm)
			}
			_, err := p.Put(t.Context(), ann, wanted, etag.Any, confirm)
			return err
		},
		"apply": func(t *testing.T, f *fixture, p *admin.Policies, wanted *rules.Policy, confirm string) error {
			all, err := f.store.Policies.Policies(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i := range all {
				if all[i].Name == "website" && wanted != nil {
					all[i] = wanted
				} else if all[i].Name == "website" {
					all = append(all[:i], all[i+1:]...)
					break
				}
			}
			plan, err := p.Plan(t.Context(), all, true, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			if plan.Confirm != "website" || plan.Problem != nil {
				t.Errorf("the plan needs the confirmation %q, want website; its problem is %v", plan.Confirm, plan.Problem)
			}
			return p.Apply(t.Context(), ann, plan, confirm)
		},
		"restore": func(t *testing.T, f *fixture, p *admin.Policies, wanted *rules.Policy, confirm string) error {
			now, err := f.store.Policies.FindPolicyByName(t.Context(), "website")
			if err != nil {
				t.Fatal(err)
			}
			if wanted == nil { // as an undo of the creation
				return undoLast(t, f, "policy.create", "website", confirm)
			}
			if now.Version == 1 { // the wanted version, and then the present one again
				for _, v := range []*rules.Policy{wanted, now} {
					if _, err := p.Put(t.Context(), ann, v, etag.Any, "website"); err != nil {
						t.Fatal(err)
					}
				}
			}
			_, err = p.Rollback(t.Context(), ann, "website", 2, etag.Any, confirm)
			return err
		},
	}
	for name, transition := range leaving {
		for entrance, enter := range entrances {
			t.Run(name+" by "+entrance, func(t *testing.T) {
				f := newFixture(t, storetest.Migrated.SQLite(t))
				p := admin.NewPolicies(f.store.Policies, admin.PolicyOptions{View: f.catalog, Sample: seenTraffic, Now: func() time.Time { return f.now }})
				f.undo.Policies = p
				if _, err := p.Put(t.Context(), ann, policyWith(t, "website", "ip:*", "5/1s"), etag.New, ""); err != nil {
					t.Fatalf("a new policy of ip:* beside default: %v, want no question", err)
				}
				var wanted *rules.Policy
				if transition.change != nil {
					wanted = policyWith(t, "website", "ip:*", "5/1s")
					transition.change(t, wanted)
				}
				err := enter(t, f, p, wanted, "")
				var e *fault.Error
				if !errors.As(err, &e) || e.Code != fault.NeedConfirm || !strings.Contains(e.Message, transition.reason) {
					t.Fatalf("got %v, want a question that says %q", err, transition.reason)
				}
				if now, err := f.store.Policies.FindPolicyByName(t.Context(), "website"); err != nil || now.Mode != rules.Enforce || now.IsConditional() || now.Match[0].String() != "ip:*" {
					t.Fatalf("without a confirmation the policy is %+v, %v", now, err)
				}
				if err := enter(t, f, p, wanted, "website"); err != nil {
					t.Fatal(err)
				}
				action := "policy.replace"
				if wanted == nil {
					action = "policy.delete"
				}
				if entrance == "restore" && wanted == nil {
					return // it was an undo itself
				}
				if err := undoLast(t, f, action, "website", ""); err != nil {
					t.Fatalf("undoing it: %v, want no question: the keys come back", err)
				}
				if now, err := f.store.Policies.FindPolicyByName(t.Context(), "website"); err != nil || now.Mode != rules.Enforce || now.IsConditional() || now.Match[0].String() != "ip:*" {
					t.Fatalf("after the undo the policy is %+v, %v", now, err)
				}
			})
		}
	}
}

// undoLast undoes the newest change of a policy by an action.
func undoLast(t *testing.T, f *fixture, action, policy, confirm string) error {
	t.Helper()
	page, err := f.store.Audit.FindRecords(t.Context(), audit.Filter{Limit: 50})
	if err != nil {
		t.Fatal(err)
	}
	root := ann
	root.Access = []identity.Access{identity.Admin}
	for _, r := range page.Records {
		if r.Action == action && r.ObjectID == policy {
			_, err := f.undo.Undo(t.Context(), root, r.ID, confirm)
			return err
		}
	}
	t.Fatalf("there is no record of %s", action)
	return nil
}

// A policy that takes keys to limit them asks nothing; one that takes them and is off asks, and so
// do two policies that exchange a pattern.
func TestPolicyTakesKeysOfAnother(t *testing.T) {
	f := newFixture(t, storetest.Migrated.SQLite(t))
	p := admin.NewPolicies(f.store.Policies, admin.PolicyOptions{View: f.catalog, Sample: seenTraffic, Now: func() time.Time { return f.now }})
	put := func(policy *rules.Policy, confirm string) error {
		_, err := p.Put(t.Context(), ann, policy, etag.Any, confirm)
		return err
	}
	off := policyWith(t, "open", "ip:192.0.2.0/24", "5/1s")
	off.Mode = rules.Off
	if err := put(off, ""); !fault.Is(err, fault.NeedConfirm) || !strings.Contains(err.Error(), "it takes ip:192.0.2.0/24 from the policy default and is off") || !strings.Contains(err.Error(), "2 keys") {
		t.Errorf("a new policy that is off: %v, want a question", err)
	}
	for _, policy := range []*rules.Policy{policyWith(t, "one", "ip:192.0.2.0/24", "5/1s"), policyWith(t, "two", "token:*", "5/1s"), policyWith(t, "unseen", "host:quiet", "5/1s")} {
		if err := put(policy, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Delete(t.Context(), ann, "unseen", etag.Any, ""); err != nil {
		t.Errorf("deleting a policy of which no key was seen: %v, want no question", err)
	}
	plan, err := p.Plan(t.Context(), []*rules.Policy{policyWith(t, "one", "token:*", "5/1s"), policyWith(t, "two", "ip:192.0.2.0/24", "5/1s")}, false, false, nil)
	if err != nil || plan.Confirm != "one,two" || !strings.Contains(plan.ConfirmReason, "one: without it, ip:192.0.2.0/24 falls under the policy two; this concerns 2 keys") {
		t.Errorf("two policies that exchange their patterns: %+v, %v", plan, err)
	}
}

// A plan and an explanation ask everything that the change asks.
func TestPlanForetellsWhatApplyRefuses(t *testing.T) {
	f := newFixture(t, storetest.Migrated.SQLite(t))
	p := f.policies()
	if _, err := p.Put(t.Context(), ann, policyWith(t, "site", "ip:*", "5/1s"), etag.New, ""); err != nil {
		t.Fatal(err)
	}
	var many []*rules.Policy
	for i := range rules.MaxConditional + 2 {
		one := policyWith(t, "ep"+string(rune('a'+i)), "ip:*", "10/1m")
		var err error
		if one.When, err = conditions.Parse(conditions.Texts{"path": {"/api/" + one.Name}}); err != nil {
			t.Fatal(err)
		}
		many = append(many, one)
	}
	for name, wanted := range map[string][]*rules.Policy{"a pattern of another policy": {policyWith(t, "site2", "ip:*", "5/1s")}, "too many conditions": many} {
		plan, err := p.Plan(t.Context(), wanted, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		applied := p.Apply(t.Context(), ann, plan, plan.Confirm)
		if applied == nil || plan.Problem == nil || plan.Problem.Error() != applied.Error() {
			t.Errorf("%s: the plan says %v, and applying it %v", name, plan.Problem, applied)
		}
	}
	x, err := p.Explain(t.Context(), policyWith(t, "site2", "ip:*", "5/1s"))
	if err != nil || !fault.Is(x.Problem, fault.Conflict) {
		t.Errorf("the explanation's problem is %+v, %v, want the conflict", x, err)
	}
}

// A policy asks before it applies in attacks only, and before it refuses everybody out of them too; both are undone.
func TestPolicyOfAttacksAsks(t *testing.T) {
	f := newFixture(t, storetest.Migrated.SQLite(t))
	p := admin.NewPolicies(f.store.Policies, admin.PolicyOptions{View: f.catalog, Sample: seenTraffic, Now: func() time.Time { return f.now }})
	f.undo.Policies = p
	put := func(rule string, inAttack bool, path, confirm string) error {
		wanted := policyWith(t, "website", "ip:*", rule)
		wanted.InAttack = inAttack
		if path != "" {
			var err error
			if wanted.When, err = conditions.Parse(conditions.Texts{"path": {path}}); err != nil {
				t.Fatal(err)
			}
		}
		_, err := p.Put(t.Context(), ann, wanted, etag.Any, confirm)
		return err
	}
	asks := func(err error, says string) {
		t.Helper()
		if !fault.Is(err, fault.NeedConfirm) || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want a question that says %q", err, says)
		}
	}
	if err := put("5/1m", false, "/login", ""); err != nil {
		t.Fatal(err)
	}
	asks(put("5/1m", true, "/login", ""), "it applies to ip:* only while an attack goes on; this concerns 3 keys with 30 checks")
	if err := put("5/1m", true, "/login", "website"); err != nil {
		t.Fatal(err)
	}
	if err := undoLast(t, f, "policy.replace", "website", ""); err != nil {
		t.Fatalf("undoing it: %v", err)
	}
	asks(put("0/1m", true, "", ""), "it refuses every request of ip:* while an attack goes on")
	if err := put("0/1m", true, "", "website"); err != nil {
		t.Fatal(err)
	}
	asks(put("0/1m", false, "", ""), "it refuses every request of ip:*, and")
	if err := put("5/1m", true, "", "website"); err != nil {
		t.Fatal(err)
	}
}

// A policy that refuses many clients asks, whatever selects them; one that refuses what is asked for does not.
func TestPolicyThatRefusesManyAsks(t *testing.T) {
	f := newFixture(t, storetest.Migrated.SQLite(t))
	p := f.policies()
	for name, c := range map[string]struct {
		match string
		when  conditions.Texts
		asks  string
	}{
		"bot":       {"bot:openai/gptbot", nil, "identified as bot:openai/gptbot"},
		"category":  {"category:ai-training", conditions.Texts{"method": {"GET"}}, "if the method is get, and it covers all requests that are identified as category:ai-training"},
		"condition": {"ip:*", conditions.Texts{"category": {"ai-training"}}, "every request of ip:* if the category is ai-training"},
		"missing":   {"*", conditions.Texts{"header:accept": {"not *"}}, "if the header accept is missing"},
		"country":   {"ip:*", conditions.Texts{"country": {"NL"}, "path": {"/*"}}, "if the path begins with / and the country is NL"},
		"trap":      {"ip:*", conditions.Texts{"path": {"/.env"}}, ""},
		"tool":      {"ip:*", conditions.Texts{"agent": {"*sqlmap*"}, "country": {"NL"}}, "if the agent contains sqlmap and the country is NL"},
		"agents":    {"ip:*", conditions.Texts{"header:user-agent": {"*chrome*"}}, "if the header user-agent contains chrome"},
		"everybody": {"ip:*", conditions.Texts{"header:accept": {"*"}}, "if the header accept is present"},
		"tool-path": {"ip:*", conditions.Texts{"agent": {"*sqlmap*"}, "path": {"/login"}}, ""},
		"narrow":    {"ip:203.0.113.0/24", conditions.Texts{"method": {"POST"}}, ""},
	} {
		wanted := policyWith(t, name, c.match, "0/1s")
		var err error
		if wanted.When, err = conditions.Parse(c.when); err != nil {
			t.Fatal(err)
		}
		_, err = p.Put(t.Context(), ann, wanted, etag.New, "")
		if asks := fault.Is(err, fault.NeedConfirm); asks != (c.asks != "") || asks && !strings.Contains(strings.ReplaceAll(err.Error(), ", and the", " and the"), c.asks) {
			t.Errorf("%s: got %v, want a question that says %q", name, err, c.asks)
		}
		if c.asks == "" {
			continue
		}
		if _, err = p.Put(t.Context(), ann, wanted, etag.New, name); err != nil {
			t.Fatal(err)
		}
		if wanted.Rules, err = rules.ParseStack([]string{"0/1m"}); err != nil {
			t.Fatal(err)
		}
		if _, err = p.Put(t.Context(), ann, wanted, etag.Any, ""); err != nil {
			t.Errorf("%s: a change that refuses the same: %v", name, err)
		}
	}
}
