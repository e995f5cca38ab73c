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

// PolicyExplanation says in words what a policy does, and what becomes of the active
// policy of its name when it is saved.
type PolicyExplanation struct {
	Policy *rules.Policy
	Active *rules.Policy // of the same name, nil if there is none
	// Applies says which requests or reports the policy is for, "" if it has neither
	// conditions nor an outcome.
	Applies string
	// Limits is one sentence: "At most 20 in any minute."
	Limits string
	// Details say how soon the limits are used up at full speed, or what a counter does
	// not promise, "" for nothing.
	Details string
	// UsedUp is how soon each limit is used up at full speed, empty for counters, whose
	// bursts depend on when they come.
	UsedUp []rules.UsedUp
	Advice string // what would suit such rules better, "" for nothing
	// Changes are what differs from Active; all fields if there is none.
	Changes []rules.FieldChange
	// ResetsCounts says what becomes of the counts of the keys, "" if they stay.
	ResetsCounts string
	// ConfirmReason is why saving the policy needs a confirmation, "" if it needs none or
	// if that was not asked.
	ConfirmReason string
}

// ExplainPolicy explains a policy beside the active one of its name, nil for none. The
// policy needs valid rules and a valid algorithm; its other fields may be missing.
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

// Explain explains a valid policy that need not be saved, and says whether saving it
// needs a confirmation. It changes nothing.
func (p *Policies) Explain(ctx context.Context, draft *rules.Policy) (*PolicyExplanation, error) {
	all, err := p.Policies(ctx)
	if err != nil {
		return nil, err
	}
	x := ExplainPolicy(policyNamed(all, draft.Name), draft)
	x.ConfirmReason = broadPolicyReason(policiesAfter(all, rules.PolicyChange{Name: draft.Name, Policy: draft}), x.Active, draft)
	return x, nil
}

const (
	maxTrialLog     = 64 << 20 // bytes of a log, as it is sent
	maxTrialRecords = 3_000_000
	maxTrialTime    = 25 * time.Second
	trialSortMemory = 32 << 20
	// maxTrialSpan is how far back a trial on recorded traffic looks.
	maxTrialSpan = 31 * 24 * time.Hour
	// trialKeys is how many newly refused or newly allowed keys a trial names.
	trialKeys = 10
)

// TrafficSource returns the recorded checks of a span, and whether they are only a
// sample of all.
type TrafficSource func(ctx context.Context, from, to time.Time) (source accesslog.Source, estimate bool, err error)

// PolicyTrial is what a draft would have done to recorded requests, beside what the
// active policies would have done to the same requests.
type PolicyTrial struct {
	Estimate    bool      // the requests are only a sample
	First, Last time.Time // of the requests, zero without any
	Requests    int64
	Refused     int64 // by all policies with the draft
	ByDraft     int64 // those of Refused whose answer names a rule of the draft, or that its escalation blocked
	RefusedNow  int64 // by all active policies
	Rules       []TriedRule
	// Every key of which the draft refuses more or fewer requests is in one of these: not
	// refused at all by the active policies; refused more often; less often; by the active
	// policies only.
	NewlyRefused, MoreRefused, LessRefused, NewlyAllowed TriedKeys
	Trap                                                 *TrapPreview // of a draft that is a trap; nil for others, for a log, and while another caller previews traps
	Log                                                  *TriedLog    // nil for recorded traffic
}

// TriedRule is how many requests a rule of the draft, or of the active version,
// refused; nil where it is not a rule of it.
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

// cut leaves the most changed keys.
func (k *TriedKeys) cut() {
	slices.SortFunc(k.Top, func(a, b TriedKey) int {
		return cmp.Or(cmp.Compare(b.change(), a.change()), cmp.Compare(a.Key, b.Key))
	})
	k.Top = slices.Clone(k.Top[:min(trialKeys, len(k.Top))])
}

// TriedKey is one of TriedKeys.
type TriedKey struct {
	Key        string
	Requests   int64
	Refused    int64 // with the draft
	RefusedNow int64 // by the active policies
}

func (k TriedKey) change() int64 { return max(k.Refused-k.RefusedNow, k.RefusedNow-k.Refused) }

// TriedLog counts what was read from a log.
type TriedLog struct{ Lines, Invalid int64 }

// CanTry reports whether the node records traffic that Try can use.
func (p *Policies) CanTry() bool { return p.Traffic != nil }

// Try replays the recorded traffic of the last span, of at most 31 days, through the
// policies with draft, which must be valid, in the place of the active version of its
// name. A draft in shadow mode is tried as if it enforced. Nothing is changed and
// nothing is refused. A node tries one policy at a time.
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
	if err != nil || p.Paths == nil {
		return trial, err
	}
	previews, err := p.PreviewTraps(ctx, []*rules.Policy{draft}, span)
	if fault.Is(err, fault.Conflict) {
		return trial, nil // another caller previews traps: what was tried is no less true
	}
	if len(previews) > 0 {
		trial.Trap = &previews[0]
	}
	return trial, err
}

// Backtest is Try with the requests of an access log in any format that package
// accesslog reads, of at most 64 MB. name is what its errors call it.
func (p *Policies) Backtest(ctx context.Context, draft *rules.Policy, name string, log io.Reader) (*PolicyTrial, error) {
	var reader *accesslog.Reader
	trial, err := p.try(ctx, draft, func(ctx context.Context) (accesslog.Source, bool, error) {
		parser := p.View.Parser()
		var err error
		reader, err = accesslog.NewReader(&boundedLog{ctx: ctx, from: log, left: maxTrialLog}, name, accesslog.Options{Keys: parser})
		if err != nil {
			return nil, false, unreadableLog(err)
		}
		sorted, err := accesslog.Sort(ctx, &boundedRecords{from: reader}, accesslog.SortOptions{Memory: trialSortMemory, Keys: parser})
		if err != nil {
			return nil, false, unreadableLog(err)
		}
		if sorted.Len() == 0 {
			sorted.Close()
			return nil, false, fault.New(fault.Invalid, "Nothing was tried: none of the %d lines contains a readable request.", reader.Counts().Lines)
		}
		return sorted, false, nil
	})
	if err != nil {
		return nil, err
	}
	counts := reader.Counts()
	trial.Log = &TriedLog{Lines: counts.Lines, Invalid: counts.Bad}
	return trial, nil
}

// unreadableLog makes the error of a log that cannot be read one that the caller can
// fix. Other faults and an end of the time stay as they are.
func unreadableLog(err error) error {
	var known *fault.Error
	if errors.As(err, &known) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fault.New(fault.Invalid, "Nothing was tried: %s.", escape.Clip(strings.TrimSuffix(err.Error(), "."), 500))
}

// try runs a trial of its own duration: it does not end with the request's deadline.
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

// trialPlans returns the policies with the draft, and as they are. A draft in shadow is
// tried as if it enforced: that is what it is tried for.
func (p *Policies) trialPlans(draft *rules.Policy) (plan, against backtest.Plan) {
	active := p.View.Selector().Policies()
	slices.SortFunc(active, func(a, b *rules.Policy) int { return strings.Compare(a.Name, b.Name) })
	tried := *draft
	if tried.Mode == rules.Shadow {
		tried.Mode = rules.Enforce
	}
	with := []*rules.Policy{&tried} // first: it wins a pattern that another has
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

// addKeys sorts the keys by what the draft changes for them as a whole. A key may have
// requests that only the draft refuses and others that only the active policies refuse;
// what counts is the difference.
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

// boundedLog fails once more than its bytes were read, or its time is over: a log that
// is sent slowly must not keep others waiting.
type boundedLog struct {
	ctx  context.Context
	from io.Reader
	left int
}

// Read reads a piece.
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

// boundedRecords fails once more than its records were read.
type boundedRecords struct {
	from accesslog.Source
	read int
}

// Next returns the next record.
func (b *boundedRecords) Next() (accesslog.Record, error) {
	if b.read++; b.read > maxTrialRecords {
		return accesslog.Record{}, fault.New(fault.TooLarge, "Nothing was tried: the log has more than 3,000,000 requests. The command line takes logs of any size: stint-admin backtest.")
	}
	return b.from.Next()
}
