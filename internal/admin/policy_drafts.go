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
	"github.com/stint-dev/stint/internal/wire"
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

// addTried adds a key that the draft treats differently.
func addTried(to *wire.TriedKeys, key wire.TriedKey) {
	to.Requests += changeOf(key)
	to.Keys++
	to.Top = append(to.Top, key)
}

// cutTried keeps only the most changed keys.
func cutTried(k *wire.TriedKeys) {
	slices.SortFunc(k.Top, func(a, b wire.TriedKey) int {
		return cmp.Or(cmp.Compare(changeOf(b), changeOf(a)), cmp.Compare(a.Key, b.Key))
	})
	k.Top = append([]wire.TriedKey{}, k.Top[:min(trialKeys, len(k.Top))]...)
}

func changeOf(k wire.TriedKey) int64 { return max(k.Refused-k.RefusedNow, k.RefusedNow-k.Refused) }

// CanTry reports whether the node records traffic that Try can use.
func (p *Policies) CanTry() bool { return p.Traffic != nil }

// Try replays the recorded traffic of the last span, at most 31 days, through the policies in
// which draft, which must be valid, replaces the active version of the same name. A draft in
// shadow mode is tried as if it enforced. Nothing is changed or refused. A node tries one
// policy at a time.
func (p *Policies) Try(ctx context.Context, draft *rules.Policy, span time.Duration) (*wire.PolicyTrial, error) {
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
func (p *Policies) Backtest(ctx context.Context, draft *rules.Policy, name string, log io.Reader) (*wire.PolicyTrial, error) {
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
	trial.Log = &wire.TriedLog{Lines: counts.Lines, Invalid: counts.Bad}
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
func (p *Policies) try(ctx context.Context, draft *rules.Policy, open func(context.Context) (accesslog.Source, bool, error)) (*wire.PolicyTrial, error) {
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

func newPolicyTrial(r *backtest.Report, name string) *wire.PolicyTrial {
	c := r.Comparison
	t := &wire.PolicyTrial{
		Name: name, Estimate: r.Estimate, FirstAt: wire.At(r.First), LastAt: wire.At(r.Last), Requests: r.Requests, Refused: r.Refused, RefusedNow: c.Refused,
		Rules: []wire.TriedRule{},
	}
	addTriedKeys(t, c)
	rule := func(text string) *wire.TriedRule {
		i := slices.IndexFunc(t.Rules, func(r wire.TriedRule) bool { return r.Rule == text })
		if i < 0 {
			i = len(t.Rules)
			t.Rules = append(t.Rules, wire.TriedRule{Rule: text})
		}
		return &t.Rules[i]
	}
	for _, counted := range r.Rules {
		if counted.Policy == name {
			rule(counted.Text()).Draft = &counted.Failed
			t.RefusedByDraft += counted.Decided
		}
	}
	for _, counted := range c.Rules {
		if counted.Policy == name {
			rule(counted.Text()).Active = &counted.Failed
		}
	}
	return t
}

// addTriedKeys classifies the keys by the total change of each. A key may have requests that only
// the draft refuses and others that only the active policies refuse; the difference decides.
func addTriedKeys(t *wire.PolicyTrial, c *backtest.Comparison) {
	add := func(change backtest.Change) {
		key := wire.TriedKey{Key: change.Key, Requests: change.Requests, Refused: change.Refused, RefusedNow: change.RefusedAgainst}
		switch {
		case key.Refused == key.RefusedNow:
		case key.RefusedNow == 0:
			addTried(&t.NewlyRefused, key)
		case key.Refused == 0:
			addTried(&t.NewlyAllowed, key)
		case key.Refused > key.RefusedNow:
			addTried(&t.MoreRefused, key)
		default:
			addTried(&t.LessRefused, key)
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
	for _, keys := range []*wire.TriedKeys{&t.NewlyRefused, &t.MoreRefused, &t.LessRefused, &t.NewlyAllowed} {
		cutTried(keys)
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
