package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/rules"
)

// Policies is the use case of the policies. Every method that puts a policy into effect, or
// ends one, needs a confirmation if every request of a broad pattern would be newly refused, or
// if keys leave an enforcing policy; see handovers. confirm is then the policy's name.
type Policies struct {
	PolicyReader
	store rules.Store
	PolicyOptions

	trying     sync.Mutex // held by a trial, which takes time and memory
	previewing sync.Mutex // held by a preview, for the same reason
}

// PolicyOptions are the dependencies of trials of policies.
type PolicyOptions struct {
	View    KeyView
	Traffic TrafficSource // nil on a node that records no traffic
	Paths   PathSource    // nil on a node that records no traffic
	Sample  SampleSource  // nil on a node that records no traffic
	Now     func() time.Time
}

// SampleSource returns the traffic sample of a span.
type SampleSource func(ctx context.Context, from, to time.Time) (*TrafficSample, error)

// PolicyReader reads policies; see rules.Store.
type PolicyReader interface {
	Policies(ctx context.Context) ([]*rules.Policy, error)
	FindPolicies(ctx context.Context, f rules.PolicyFilter) (paging.Page[*rules.Policy], error)
	FindPolicyByName(ctx context.Context, name string) (*rules.Policy, error)
	PolicyVersions(ctx context.Context, name string) ([]*rules.Policy, error)
}

// NewPolicies returns the use case for a store. Create one per node, so that a node tries one
// policy at a time.
func NewPolicies(store rules.Store, o PolicyOptions) *Policies {
	return &Policies{PolicyReader: store, store: store, PolicyOptions: o}
}

// Put creates the policy wanted.Name, or replaces it if its state is expect; see rules.Store.
func (p *Policies) Put(ctx context.Context, c Caller, wanted *rules.Policy, expect etag.Tag, confirm string) (*rules.Policy, error) {
	expect, err := p.confirm(ctx, wanted.Name, wanted, expect, confirm)
	if err != nil {
		return nil, err
	}
	return p.store.PutPolicy(ctx, c.Actor, wanted, expect)
}

// Rollback replaces a policy whose state is expect by an earlier version, or by the one before
// the newest if version is 0. The result is a new version. Where expect is etag.New or etag.Any, a
// policy that was deleted is created again from a version that is named.
func (p *Policies) Rollback(ctx context.Context, c Caller, name string, version int64, expect etag.Tag, confirm string) (*rules.Policy, error) {
	all, err := p.PolicyVersions(ctx, name)
	if err != nil {
		return nil, err
	}
	if version == 0 {
		if _, err := p.FindPolicyByName(ctx, name); err != nil {
			return nil, err // deleted: its newest version is not in force
		}
		if version = all[0].Version - 1; version == 0 {
			return nil, fault.New(fault.Conflict, "The policy %q has one version; there is no earlier one.", name)
		}
	}
	found, err := versionOf(all, version)
	if err != nil {
		return nil, err
	}
	wanted := *found
	wanted.Name = name // the version may be older than a change of the name
	return p.Put(ctx, c, &wanted, expect, confirm)
}

// versionOf returns one version of a policy.
func versionOf(all []*rules.Policy, version int64) (*rules.Policy, error) {
	i := slices.IndexFunc(all, func(v *rules.Policy) bool { return v.Version == version })
	if i < 0 {
		return nil, fault.New(fault.NotFound, "The policy %q has no version %d; it has 1 to %d.", all[0].Name, version, all[0].Version)
	}
	return all[i], nil
}

// BlocksLeft returns a warning about the automatic blocks of a policy that go on under next, which is
// nil for its deletion. It returns nil if there are none, or next enforces.
func (p *Policies) BlocksLeft(of, next *rules.Policy) []string {
	if next != nil && next.Mode == rules.Enforce {
		return nil // without a look at every block
	}
	n := p.View.Blocks().CountOfPolicy(of.ID, p.Now())
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Its automatic blocks go on until they end; active now: %d. To end them: stint-admin block delete --policy %s", n, of.Name)}
}

// PolicyDiff is the difference between two versions of a policy.
type PolicyDiff struct {
	From, To int64 // From is 0 for no policy, before the first version
	Fields   []rules.FieldChange
}

// Diff compares two versions of a policy. to is 0 for the newest version; from is 0
// for no policy, and negative for the version before to.
func (p *Policies) Diff(ctx context.Context, name string, from, to int64) (*PolicyDiff, error) {
	all, err := p.PolicyVersions(ctx, name)
	if err != nil {
		return nil, err
	}
	if to == 0 {
		to = all[0].Version
	}
	if from < 0 {
		from = to - 1
	}
	after, err := versionOf(all, to)
	if err != nil {
		return nil, err
	}
	var before *rules.Policy
	if from > 0 {
		if before, err = versionOf(all, from); err != nil {
			return nil, err
		}
	}
	return &PolicyDiff{From: from, To: to, Fields: rules.Diff(before, after)}, nil
}

// Delete deletes a policy whose state is expect. Its keys then fall under the policy with the
// next broader pattern.
func (p *Policies) Delete(ctx context.Context, c Caller, name string, expect etag.Tag, confirm string) error {
	expect, err := p.confirm(ctx, name, nil, expect, confirm)
	if err != nil {
		return err
	}
	return p.store.DeletePolicy(ctx, c.Actor, name, expect)
}

// PlannedChange is the change of one policy in a plan.
type PlannedChange struct {
	Before *rules.Policy       // nil if the policy is created
	After  *rules.Policy       // nil if the policy is deleted
	Fields []rules.FieldChange // the differences; empty if the policy is already as wanted
	Expect etag.Tag            // see rules.PolicyChange
}

// Name returns the name of the policy.
func (c *PlannedChange) Name() string {
	if c.After != nil {
		return c.After.Name
	}
	return c.Before.Name
}

// PolicyPlan contains the changes that make the policies equal to those of a file.
type PolicyPlan struct {
	// Changes has an element for each wanted policy, sorted by name, and then the deletions.
	Changes []PlannedChange
	// Confirm is the confirmation that Apply needs, and ConfirmReason why; "" for none.
	Confirm, ConfirmReason string
	// Problem is why Apply would fail, nil if it would not.
	Problem error
}

// Changed returns the changes that Apply makes. It omits policies that are already as wanted.
func (p *PolicyPlan) Changed() []rules.PolicyChange {
	var changes []rules.PolicyChange
	for _, c := range p.Changes {
		if len(c.Fields) > 0 {
			changes = append(changes, rules.PolicyChange{Name: c.Name(), Policy: c.After, Expect: c.Expect})
		}
	}
	return changes
}

// Plan returns the changes that make the policies equal to wanted, without making them. With shadow,
// they are put in shadow mode as rules.InShadow says. Other policies stay unless prune is set; the
// draft of a wanted policy always stays. expect is the required state of each changed policy,
// etag.New for policies that are not in it. A nil map means the present states.
func (p *Policies) Plan(ctx context.Context, wanted []*rules.Policy, prune, shadow bool, expect map[string]etag.Tag) (*PolicyPlan, error) {
	all, err := p.Policies(ctx)
	if err != nil {
		return nil, err
	}
	keeps := func(p *rules.Policy) bool {
		policy, _ := rules.DraftOf(p)
		return policyNamed(wanted, p.Name) != nil || policyNamed(wanted, policy) != nil
	}
	var changes, deletions []PlannedChange
	for _, before := range all {
		if prune && !keeps(before) {
			deletions = append(deletions, PlannedChange{Before: before, Fields: rules.Diff(before, nil)})
		}
	}
	if shadow {
		wanted = rules.InShadow(all, wanted)
	}
	for _, after := range wanted {
		before := policyNamed(all, after.Name)
		changes = append(changes, PlannedChange{Before: before, After: after, Fields: rules.Diff(before, after)})
	}
	slices.SortFunc(changes, func(a, b PlannedChange) int { return strings.Compare(a.Name(), b.Name()) })
	changes = append(changes, deletions...) // already sorted by name
	for i := range changes {
		c := &changes[i]
		switch {
		case expect != nil:
			c.Expect = expect[c.Name()]
		case c.Before != nil:
			c.Expect = rules.TagOf(c.Before)
		}
	}
	plan := &PolicyPlan{Changes: changes}
	changed := plan.Changed()
	if plan.Problem, err = p.problem(ctx, changed); err != nil {
		return nil, err
	}
	plan.Confirm, plan.ConfirmReason, err = p.needed(ctx, all, changed...)
	return plan, err
}

// problem returns why the store would refuse changes, nil if it would not. It asks the store
// everything that making the changes asks.
func (p *Policies) problem(ctx context.Context, changes []rules.PolicyChange) (problem, err error) {
	if len(changes) == 0 {
		return nil, nil
	}
	err = p.store.CheckPolicies(ctx, changes)
	var known *fault.Error
	if errors.As(err, &known) && known.Code != fault.Unavailable {
		return err, nil
	}
	var field *rules.FieldError
	if errors.As(err, &field) {
		return err, nil
	}
	return nil, err
}

// Apply makes the changes of a plan, all or nothing. confirm contains the comma-separated names
// of all policies that need a confirmation.
func (p *Policies) Apply(ctx context.Context, c Caller, plan *PolicyPlan, confirm string) error {
	changes := plan.Changed()
	if len(changes) == 0 {
		return nil
	}
	all, err := p.Policies(ctx) // they may have changed since the plan
	if err != nil {
		return err
	}
	names, reason, err := p.needed(ctx, all, changes...)
	if err == nil && names != confirm {
		err = needConfirmPolicy(names, reason)
	}
	if err != nil {
		return err
	}
	_, err = p.store.ApplyPolicies(ctx, c.Actor, changes)
	return err
}

// confirm returns an error if a change of one policy needs a confirmation and has none.
// Otherwise it returns the state to expect. If the request accepts any state, that is the state
// that was compared, so that no concurrent change goes unconfirmed.
func (p *Policies) confirm(ctx context.Context, name string, wanted *rules.Policy, expect etag.Tag, confirm string) (etag.Tag, error) {
	if confirm == name {
		return expect, nil
	}
	all, err := p.Policies(ctx)
	if err != nil {
		return etag.New, err
	}
	change := rules.PolicyChange{Name: name, Policy: wanted, Expect: expect}
	if err := p.store.CheckPolicies(ctx, []rules.PolicyChange{change}); err != nil {
		return etag.New, err // no question about what would fail
	}
	reason, err := p.reason(ctx, all, change)
	if err == nil {
		err = needConfirmPolicy(name, reason)
	}
	if err != nil {
		return etag.New, err
	}
	before := policyNamed(all, name)
	switch {
	case expect != etag.Any:
	case before != nil:
		expect = rules.TagOf(before)
	case wanted != nil:
		expect = etag.New
	}
	return expect, nil
}

// ConfirmReason says why a change of one policy needs a confirmation, nil for its deletion; "" if
// it needs none.
func (p *Policies) ConfirmReason(ctx context.Context, name string, wanted *rules.Policy) (string, error) {
	all, err := p.Policies(ctx)
	if err != nil {
		return "", err
	}
	return p.reason(ctx, all, rules.PolicyChange{Name: name, Policy: wanted})
}

func (p *Policies) reason(ctx context.Context, all []*rules.Policy, change rules.PolicyChange) (string, error) {
	_, reason, err := p.needed(ctx, all, change)
	return strings.TrimPrefix(reason, change.Name+": "), err
}

// policiesAfter returns the policies after the changes.
func policiesAfter(all []*rules.Policy, changes ...rules.PolicyChange) []*rules.Policy {
	after := slices.DeleteFunc(slices.Clone(all), func(p *rules.Policy) bool {
		return slices.ContainsFunc(changes, func(c rules.PolicyChange) bool { return c.Name == p.Name })
	})
	for _, c := range changes {
		if c.Policy != nil {
			after = append(after, c.Policy)
		}
	}
	return after
}

func policyNamed(all []*rules.Policy, name string) *rules.Policy {
	if i := slices.IndexFunc(all, func(p *rules.Policy) bool { return p.Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}
