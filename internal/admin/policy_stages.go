package admin

import (
	"context"
	"errors"
	"time"

	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/rules"
)

// PutDraft saves wanted as the draft of the policy of its name; see rules.DraftName. An earlier
// draft is replaced. No key leaves the policy.
func (p *Policies) PutDraft(ctx context.Context, c Caller, wanted *rules.Policy) (*rules.Policy, error) {
	all, err := p.Policies(ctx)
	if err != nil {
		return nil, err
	}
	draft := *wanted
	draft.Name, draft.Mode = rules.DraftName(wanted.Name), rules.Shadow
	expect := etag.New
	if before := policyNamed(all, draft.Name); before != nil {
		if before.Mode != rules.Shadow {
			return nil, fault.New(fault.Conflict, "Nothing was changed: %q is the name of a policy that is not in shadow mode, so that there can be no draft of that name.", draft.Name)
		}
		expect = rules.TagOf(before)
	}
	return p.Put(ctx, c, &draft, expect, "")
}

// Draft returns the draft of a policy.
func (p *Policies) Draft(ctx context.Context, name string) (*rules.Policy, error) {
	draft, err := p.FindPolicyByName(ctx, rules.DraftName(name))
	if fault.Is(err, fault.NotFound) || err == nil && draft.Mode != rules.Shadow {
		return nil, fault.New(fault.NotFound, "The policy %q has no draft: there is no shadow policy named %q.", name, rules.DraftName(name))
	}
	return draft, err
}

// Promote puts the draft of a policy, whose state is expect, in force in place of the policy. The
// draft no longer exists then.
func (p *Policies) Promote(ctx context.Context, c Caller, name string, expect etag.Tag, confirm string) (*rules.Policy, error) {
	draft, err := p.Draft(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := etag.Check("draft of "+name, rules.TagOf(draft), expect); err != nil {
		return nil, err
	}
	all, err := p.Policies(ctx)
	if err != nil {
		return nil, err
	}
	promoted := *draft
	promoted.Name, promoted.Mode = name, rules.Enforce
	put := rules.PolicyChange{Name: name, Policy: &promoted}
	if active := policyNamed(all, name); active != nil {
		put.Expect = rules.TagOf(active)
	}
	changes := []rules.PolicyChange{put, {Name: draft.Name, Expect: rules.TagOf(draft)}}
	names, reason, err := p.needed(ctx, all, changes...)
	if err == nil && names != confirm {
		err = needConfirmPolicy(names, reason)
	}
	if err != nil {
		return nil, err
	}
	after, err := p.store.ApplyPolicies(ctx, c.Actor, changes)
	if err != nil {
		return nil, err
	}
	return after[0], nil
}

// Rename gives the policy whose state is expect another name. It keeps its id, and so its logs,
// counts, versions and offences. A draft of it is renamed as well.
func (p *Policies) Rename(ctx context.Context, c Caller, name, to string, expect etag.Tag) (*rules.Policy, error) {
	renamed, err := p.store.RenamePolicy(ctx, c.Actor, name, to, expect)
	var wrong *rules.FieldError
	if errors.As(err, &wrong) {
		return nil, fault.Field(wrong.Field, "%s", wrong.Problem)
	}
	return renamed, err
}

// DraftComparison compares what a policy and its draft decided about the same checks.
type DraftComparison struct {
	Policy, Draft *rules.Policy // Policy is nil if there is only a draft
	Fields        []rules.FieldChange
	From, To      time.Time // From is the first whole minute of the draft, at most a day ago
	// Active and Drafted are what both decided; zero if nothing is counted.
	Active, Drafted PolicyUse
}

// CompareDraft compares a policy with its draft, since the draft was saved, at most in the last day.
func CompareDraft(ctx context.Context, d *Detection, policy, draft *rules.Policy, now time.Time) (*DraftComparison, error) {
	c := &DraftComparison{Policy: policy, Draft: draft, From: now.Add(-LastDay), To: now}
	if policy != nil {
		shown := *draft
		shown.Mode = policy.Mode // the draft is in shadow mode, which is no change of its author
		c.Fields = rules.Diff(policy, &shown)
	}
	if saved := draft.Updated.Truncate(time.Minute).Add(time.Minute); saved.After(c.From) {
		c.From = saved
	}
	if d == nil || !c.From.Before(c.To) {
		c.From = minTime(c.From, c.To)
		return c, nil
	}
	var err error
	if c.Drafted, err = ReadPolicyUse(ctx, d, draft.ID, c.From, c.To); err == nil && policy != nil {
		c.Active, err = ReadPolicyUse(ctx, d, policy.ID, c.From, c.To)
	}
	return c, err
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
