package admin

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/backtest"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
)

// PolicyExplanation describes in words what a policy does, and how saving it changes the active
// policy of the same name.
type PolicyExplanation struct {
	Policy *rules.Policy
	Active *rules.Policy // of the same name, nil if there is none
	// Applies says which requests or reports the policy is for, "" if it has neither
	// conditions nor an outcome.
	Applies string
	// Limits is one sentence: "At most 20 in any minute."
	Limits string
	// Details say how soon the limits are used up at full speed, or what a counter does not
	// guarantee, "" for nothing.
	Details string
	// UsedUp is how soon each limit is used up at full speed. It is empty for counters, for
	// which that depends on when the requests arrive.
	UsedUp []rules.UsedUp
	Advice string // a better choice for such rules, "" for none
	// Changes are the differences from Active; all fields if there is none.
	Changes []rules.FieldChange
	// ResetsCounts says how saving the policy changes the counts of keys, "" if they stay.
	ResetsCounts string
	// ConfirmReason is why saving the policy needs a confirmation, "" if it needs none or if
	// that was not checked.
	ConfirmReason string
	// Problem is why saving the policy would fail, nil if it would not or if that was not checked.
	Problem error
}

// ExplainPolicy explains a policy and compares it with the active policy of the same name, nil
// for none. The policy needs valid rules and a valid algorithm; its other fields may be
// missing.
func ExplainPolicy(active, p *rules.Policy) *PolicyExplanation {
	x := &PolicyExplanation{Policy: p, Active: active, Applies: strings.TrimSpace(p.DescribeApplies() + " " + p.Also.Describe()), Advice: p.Advice(), Changes: rules.Diff(active, p), ResetsCounts: active.DescribeReset(p)}
	limits, details, several := strings.Cut(p.Describe(), ". ")
	if several {
		limits += "."
	}
	x.Limits, x.Details = limits, details
	if a := algorithms.ByName(p.Algorithm); a == nil || a.IsLog() {
		x.UsedUp = p.Rules.UsedUp()
	}
	return x
}

// Explain explains a valid policy, which need not be saved, and whether saving it needs a
// confirmation. It changes nothing.
func (p *Policies) Explain(ctx context.Context, draft *rules.Policy) (*PolicyExplanation, error) {
	all, err := p.Policies(ctx)
	if err != nil {
		return nil, err
	}
	x := ExplainPolicy(policyNamed(all, draft.Name), draft)
	change := rules.PolicyChange{Name: draft.Name, Policy: draft}
	if x.Active != nil {
		change.Expect = rules.TagOf(x.Active)
	}
	if x.Problem, err = p.problem(ctx, []rules.PolicyChange{change}); err != nil {
		return nil, err
	}
	x.ConfirmReason, err = p.reason(ctx, all, change)
	return x, err
}

const (
	maxTrialLog     = 64 << 20 // bytes of a log as sent
	maxTrialRecords = 3_000_000
	maxTrialTime    = 25 * time.Second
	trialSortMemory = 32 << 20
	// maxTrialSpan is how far back a trial on recorded traffic can look.
	maxTrialSpan = 31 * 24 * time.Hour
	// trialKeys bounds the newly refused and the newly allowed keys that a trial lists.
	trialKeys = 10
)

// TrafficSource returns the recorded checks of a span. estimate reports whether they are only a
// sample.
type TrafficSource func(ctx context.Context, from, to time.Time) (source accesslog.Source, estimate bool, err error)

// PolicyTrial compares what the policies with a draft would have done to recorded requests with
// what the active policies would have done to them.
type PolicyTrial struct {
	Estimate    bool      // the requests are only a sample
	First, Last time.Time // first and last request, zero if there are none
	Requests    int64
	Refused     int64 // by all policies, with the draft
	ByDraft     int64 // of Refused, those by a rule of the draft or by its escalation
	RefusedNow  int64 // by all active policies
	Rules       []TriedRule
	// Every key of which the draft refuses more or fewer requests is in one of these: the
	// active policies do not refuse it at all; the draft refuses it more often; less often;
	// only the active policies refuse it.
	NewlyRefused, MoreRefused, LessRefused, NewlyAllowed TriedKeys
	Trap                                                 *TrapPreview // only if the draft is a trap, for recorded traffic, unless another caller is previewing traps
	Log                                                  *TriedLog    // nil for recorded traffic
	Warnings                                             []string     // what else of the log was ignored, and what the draft looks at that the requests do not have
}

// TriedRule is how many requests a rule of the draft, or of the active version, refused; nil if
// the version does not have the rule.
type TriedRule struct {
	Rule          string
	Active, Draft *int64
}

// TriedKeys are keys that the draft treats differently.
type TriedKeys struct {
	Requests int64 // how many more or fewer are refused
	Keys     int
	Top      []TriedKey // the most changed first, at most trialKeys
}

func (k *TriedKeys) add(key TriedKey) {
	k.Requests += key.change()
	k.Keys++
	k.Top = append(k.Top, key)
}

// cut keeps only the most changed keys.
func (k *TriedKeys) cut() {
	slices.SortFunc(k.Top, func(a, b TriedKey) int {
		return cmp.Or(cmp.Compare(b.change(), a.change()), cmp.Compare(a.Key, b.Key))
	})
	k.Top = slices.Clone(k.Top[:min(trialKeys, len(k.Top))])
}

// TriedKey is a key that the draft treats differently.
type TriedKey struct {
	Key        string
	Requests   int64
	Refused    int64 // by the policies with the draft
	RefusedNow int64 // by the active policies
}

func (k TriedKey) change() int64 { return max(k.Refused-k.RefusedNow, k.RefusedNow-k.Refused) }

// TriedLog counts the lines of a log.
type TriedLog struct{ Lines, Invalid int64 }

// CanTry reports whether the node records traffic that Try can use.
func (p *Policies) CanTry() bool { return p.Traffic != nil }

// Try replays the recorded traffic of the last span, at most 31 days, through the policies in
// which draft, which must be valid, replaces the active version of the same name. A draft in
// shadow mode is tried as if it enforced. Nothing is changed or refused. A node tries one
// policy at a time.
func (p *Policies) Try(ctx context.Context, draft *rules.Policy, span time.Duration) (*PolicyTrial, error) {
	if p.Traffic == nil {
		return nil, fault.New(fault.NotFound, "No traffic is recorded here; try the policy on an access log.")
	}
	if span < time.Minute || span > maxTrialSpan {
		return nil, fault.Field("last", "must be 1m to 31d")
	}
	trial, err := p.try(ctx, draft, func(ctx context.Context) (accesslog.Source, bool, error) {
		now := p.Now()
		return p.Traffic(ctx, now.Add(-span), now)
	})
	if err != nil {
		return nil, err
	}
	recorded := accesslog.Columns{Time: "time", Client: "key"}
	if p.Paths != nil {
		previews, err := p.PreviewTraps(ctx, []*rules.Policy{draft}, span)
		if err != nil && !fault.Is(err, fault.Conflict) { // another caller is previewing traps; the trial is valid without it
			return nil, err
		}
		if len(previews) > 0 {
			trial.Trap, recorded.Path = &previews[0], "path"
		}
	}
	trial.Warnings = backtest.PoliciesPlan([]*rules.Policy{draft}).Unseen("the recorded traffic", recorded)
	return trial, nil
}

// Backtest is Try with the requests of an access log of at most 64 MB, in any format of package
// accesslog. name is the name of the log in errors.
func (p *Policies) Backtest(ctx context.Context, draft *rules.Policy, name string, log io.Reader) (*PolicyTrial, error) {
	var reader *accesslog.Reader
	var sorted *accesslog.Sorted
	trial, err := p.try(ctx, draft, func(ctx context.Context) (accesslog.Source, bool, error) {
		parser := p.View.Parser()
		var err error
		reader, err = accesslog.NewReader(&boundedLog{ctx: ctx, from: log, left: maxTrialLog}, name, accesslog.Options{Keys: parser})
		if err != nil {
			return nil, false, unreadableLog(err)
		}
		sorted = accesslog.Sort(ctx, &boundedRecords{from: reader}, accesslog.SortOptions{Memory: trialSortMemory})
		return sorted, false, nil
	})
	if err != nil {
		return nil, err
	}
	counts := reader.Counts()
	if counts.Records == 0 {
		return nil, fault.New(fault.Invalid, "Nothing was tried: none of the %d lines contains a readable request.", counts.Lines)
	}
	trial.Warnings = slices.Concat(counts.Warnings, sorted.Warnings(), backtest.PoliciesPlan([]*rules.Policy{draft}).Unseen("the log", reader.Parser().Columns()))
	trial.Log = &TriedLog{Lines: counts.Lines, Invalid: counts.Bad}
	return trial, nil
}

// unreadableLog converts the error of an unreadable log to a fault that the caller can fix.
// Other faults and an exceeded deadline stay as they are.
func unreadableLog(err error) error {
	var known *fault.Error
	if errors.As(err, &known) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fault.New(fault.Invalid, "Nothing was tried: %s.", escape.Clip(strings.TrimSuffix(err.Error(), "."), 500))
}

// try runs a trial. The trial has its own deadline instead of the request's.
func (p *Policies) try(ctx context.Context, draft *rules.Policy, open func(context.Context) (accesslog.Source, bool, error)) (*PolicyTrial, error) {
	if !p.trying.TryLock() {
		return nil, fault.New(fault.Conflict, "This node is trying another policy; try again when it has finished.")
	}
	defer p.trying.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxTrialTime)
	defer cancel()
	report, err := p.replay(ctx, draft, open)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fault.New(fault.TooLarge, "Nothing was tried: it took longer than %d s. The command line takes logs of any size: stint-admin backtest.", int(maxTrialTime.Seconds()))
	}
	if err != nil {
		return nil, err
	}
	return newPolicyTrial(report, draft.Name), nil
}

func (p *Policies) replay(ctx context.Context, draft *rules.Policy, open func(context.Context) (accesslog.Source, bool, error)) (*backtest.Report, error) {
	source, estimate, err := open(ctx)
	if err != nil {
		return nil, err
	}
	if closer, ok := source.(io.Closer); ok {
		defer closer.Close()
	}
	plan, against := p.trialPlans(draft)
	return backtest.Run(ctx, source, backtest.Options{Plan: plan, Against: &against, Estimate: estimate, Plans: p.planOf})
}

// planOf returns the plan that a key has now.
func (p *Policies) planOf(k keys.Key) string {
	return profiles.Subject(k, p.View.Profiles().Find(k)).Plan
}

// trialPlans returns the policies with the draft, and the active policies. A draft in shadow
// mode is tried as if it enforced, which is the purpose of the trial.
func (p *Policies) trialPlans(draft *rules.Policy) (plan, against backtest.Plan) {
	active := p.View.Selector().Policies()
	slices.SortFunc(active, func(a, b *rules.Policy) int { return strings.Compare(a.Name, b.Name) })
	tried := *draft
	if tried.Mode == rules.Shadow {
		tried.Mode = rules.Enforce
	}
	with := []*rules.Policy{&tried} // first: it wins a pattern that another policy has
	for _, policy := range active {
		if policy.Name != draft.Name {
			with = append(with, policy)
		}
	}
	return backtest.PoliciesPlan(with), backtest.PoliciesPlan(active)
}

func newPolicyTrial(r *backtest.Report, name string) *PolicyTrial {
	c := r.Comparison
	t := &PolicyTrial{
		Estimate: r.Estimate, First: r.First, Last: r.Last, Requests: r.Requests, Refused: r.Refused, RefusedNow: c.Refused,
	}
	t.addKeys(c)
	rule := func(text string) *TriedRule {
		i := slices.IndexFunc(t.Rules, func(r TriedRule) bool { return r.Rule == text })
		if i < 0 {
			i = len(t.Rules)
			t.Rules = append(t.Rules, TriedRule{Rule: text})
		}
		return &t.Rules[i]
	}
	for _, counted := range r.Rules {
		if counted.Policy == name {
			rule(counted.Text()).Draft = &counted.Failed
			t.ByDraft += counted.Decided
		}
	}
	for _, counted := range c.Rules {
		if counted.Policy == name {
			rule(counted.Text()).Active = &counted.Failed
		}
	}
	return t
}

// addKeys classifies the keys by the total change of each. A key may have requests that only
// the draft refuses and others that only the active policies refuse; the difference decides.
func (t *PolicyTrial) addKeys(c *backtest.Comparison) {
	add := func(change backtest.Change) {
		key := TriedKey{Key: change.Key, Requests: change.Requests, Refused: change.Refused, RefusedNow: change.RefusedAgainst}
		switch {
		case key.Refused == key.RefusedNow:
		case key.RefusedNow == 0:
			t.NewlyRefused.add(key)
		case key.Refused == 0:
			t.NewlyAllowed.add(key)
		case key.Refused > key.RefusedNow:
			t.MoreRefused.add(key)
		default:
			t.LessRefused.add(key)
		}
	}
	added := make(map[string]bool, len(c.NewlyRefusedKeys))
	for _, change := range c.NewlyRefusedKeys {
		added[change.Key] = true
		add(change)
	}
	for _, change := range c.NewlyAllowedKeys {
		if !added[change.Key] {
			add(change)
		}
	}
	for _, keys := range []*TriedKeys{&t.NewlyRefused, &t.MoreRefused, &t.LessRefused, &t.NewlyAllowed} {
		keys.cut()
	}
}

// boundedLog fails after too many bytes, or when its context ends: a log that is sent slowly
// must not keep others waiting.
type boundedLog struct {
	ctx  context.Context
	from io.Reader
	left int
}

// Read reads the next bytes.
func (b *boundedLog) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if b.left <= 0 {
		return 0, fault.New(fault.TooLarge, "Nothing was tried: the log has more than %d MB. The command line takes logs of any size: stint-admin backtest.", maxTrialLog>>20)
	}
	n, err := b.from.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// boundedRecords fails after too many records.
type boundedRecords struct {
	from accesslog.Source
	read int
}

// Next returns the next record.
func (b *boundedRecords) Next() (accesslog.Record, error) {
	if b.read++; b.read > maxTrialRecords {
		return accesslog.Record{}, fault.New(fault.TooLarge, "Nothing was tried: the log has more than 3,000,000 requests. The command line takes logs of any size: stint-admin backtest.")
	}
	record, err := b.from.Next()
	if err != nil && !errors.Is(err, io.EOF) {
		err = unreadableLog(err)
	}
	return record, err
}
