package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// Keys is the use case of explaining and resetting keys, and of the notes on them.
type Keys struct {
	View        KeyView
	Gate        KeyExplainer
	Escalations EscalationReader // nil if offences are not counted
	// A reset deletes from Logs: the log that decides, then its fallback if there is one.
	Logs     []timestamplog.Log
	Notes    NoteStore // nil on a node without notes
	Recorder audit.Recorder
	Erasure  ErasureStore
	Secret   func() []byte // that all nodes share
	// Forget makes this node forget the requests of a key, and write what it has counted, so that
	// an erasure finds it.
	Forget func(ctx context.Context, key string) error
	// WasSeen reports whether keys of a pattern were checked lately. Keys that programs send are
	// shown although an operator would write them otherwise. Nil knows none.
	WasSeen func(ctx context.Context, pattern string) bool
}

// KeyView is the node's copy of the policies and of the settings for parsing keys.
type KeyView interface {
	Parser() keys.Parser
	Selector() *rules.Selector
	Blocks() *blocks.Set
	Profiles() *profiles.Set
}

// KeyExplainer explains what applies to a key now. *gate.Gate implements it.
type KeyExplainer interface {
	Explain(ctx context.Context, k keys.Key, policy string) (*gate.Explanation, error)
}

// EscalationReader reads the escalation status of a key: under the policy that limits it and
// under the shadow policy, nil for none, and by policy id under the policies with conditions or
// an outcome.
type EscalationReader interface {
	EscalationStatus(ctx context.Context, k keys.Key) (enforcing, shadow *offences.EscalationStatus, err error)
	ConditionalEscalations(ctx context.Context, k keys.Key) (map[int64]*offences.EscalationStatus, error)
}

// KeyExplanation is what applies to a key now.
type KeyExplanation struct {
	*gate.Explanation
	// Escalation and ShadowEscalation are nil for a policy without escalation.
	Escalation, ShadowEscalation *offences.EscalationStatus
	// ConditionalEscalations are the states under the policies of Conditional, by policy id.
	ConditionalEscalations map[int64]*offences.EscalationStatus
	// EscalationErr is why the escalation is unknown, nil if it is known.
	EscalationErr error
}

// EscalationUnder returns the state of the key under one of Conditional, nil for none. If the
// policy counts the requests under a derived key, the state belongs to that key, and the result
// is nil.
func (x *KeyExplanation) EscalationUnder(px *gate.PolicyExplanation) *offences.EscalationStatus {
	if px.Derived != nil && *px.Derived != x.Key {
		return nil
	}
	return x.ConditionalEscalations[px.Policy.ID]
}

// Parse parses a key. The error is a *fault.Error of the field key.
func (k *Keys) Parse(ctx context.Context, text string) (keys.Key, error) {
	reading := FilterReading(k.View)
	inPolicies := reading.IsKnown
	reading.IsKnown = func(p keys.Pattern) bool {
		return inPolicies(p) || k.WasSeen != nil && k.WasSeen(ctx, p.String())
	}
	return fault.ReadKey(reading, "key", text)
}

// Explain returns what applies to a key now under a policy or, if the name is empty, under its
// own policies. It counts nothing. It works without the database, except for the escalation.
func (k *Keys) Explain(ctx context.Context, key keys.Key, policy string) (*KeyExplanation, error) {
	x := &KeyExplanation{}
	var err error
	// The gate has its own deadlines: ctx may have ended because the database does not answer,
	// which is no outage of the log.
	if x.Explanation, err = k.Gate.Explain(context.WithoutCancel(ctx), key, policy); err != nil {
		return nil, err
	}
	if k.Escalations != nil {
		x.Escalation, x.ShadowEscalation, x.EscalationErr = k.Escalations.EscalationStatus(ctx, key)
		if x.EscalationErr == nil && len(x.Conditional) > 0 {
			x.ConditionalEscalations, x.EscalationErr = k.Escalations.ConditionalEscalations(ctx, key)
		}
	}
	return x, nil
}

// KeyReset is the result of a reset.
type KeyReset struct {
	Key  keys.Key
	Logs []LogReset // sorted by policy
}

// LogReset is the reset of a key under one policy.
type LogReset struct {
	Policy  string
	Existed bool // there was something to reset
}

// Reset resets the counts of a key under a policy, or under all if the name is empty. The reset
// is recorded before it happens, so that there is none without a record. If a log is
// unreachable, the key may be reset in part; Reset can be called again.
func (k *Keys) Reset(ctx context.Context, by Caller, key, policy string) (*KeyReset, error) {
	parsed, err := k.Parse(ctx, key)
	if err != nil {
		return nil, err
	}
	policies, err := k.policiesToReset(policy)
	if err != nil {
		return nil, err
	}
	scope := "all policies"
	if policy != "" {
		scope = "the policy " + policy
	}
	if err := k.Recorder.AddRecord(ctx, audit.Record{
		Actor: by.Actor, Action: "key.reset", Object: "key", ObjectID: parsed.String(),
		Summary: fmt.Sprintf("Reset the counts of %q under %s.", parsed, scope),
	}); err != nil {
		return nil, err
	}
	return k.reset(ctx, parsed, policies, policy == "")
}

// reset resets the counts of a key under policies, which are all.
func (k *Keys) reset(ctx context.Context, parsed keys.Key, policies []*rules.Policy, all bool) (*KeyReset, error) {
	reset := &KeyReset{Key: parsed}
	for _, p := range policies {
		existed, err := k.resetLogs(ctx, timestamplog.LogIDOf(p, parsed.String()))
		if err != nil {
			return nil, err
		}
		for _, part := range k.View.Selector().DerivedOf(p) {
			if !part.Derived.Makes(parsed) {
				continue
			}
			asFurther, err := k.resetLogs(ctx, timestamplog.LogIDOf(part, parsed.String()))
			if err != nil {
				return nil, err
			}
			existed = existed || asFurther
		}
		reset.Logs = append(reset.Logs, LogReset{Policy: p.Name, Existed: existed})
	}
	return reset, k.resetOwnLimit(ctx, reset, parsed, policies, all)
}

// resetOwnLimit resets the additional logs of a key's own limit: those of a counter with other
// windows than its policy, and those without a policy.
func (k *Keys) resetOwnLimit(ctx context.Context, reset *KeyReset, key keys.Key, policies []*rules.Policy, all bool) error {
	member := k.View.Profiles().Find(key)
	if member == nil || member.Limit == nil {
		return nil
	}
	for i, p := range policies {
		id := timestamplog.LogIDOf(member.Limit.Apply(p), key.String())
		if id == timestamplog.LogIDOf(p, key.String()) {
			continue
		}
		existed, err := k.resetLogs(ctx, id)
		if err != nil {
			return err
		}
		reset.Logs[i].Existed = reset.Logs[i].Existed || existed
	}
	if !all {
		return nil
	}
	_, err := k.resetLogs(ctx, timestamplog.LogIDOf(member.Limit.Apply(nil), key.String()))
	return err
}

func (k *Keys) policiesToReset(name string) ([]*rules.Policy, error) {
	selector := k.View.Selector()
	if name == "" {
		all := selector.Policies()
		slices.SortFunc(all, func(a, b *rules.Policy) int { return strings.Compare(a.Name, b.Name) })
		return all, nil
	}
	p, found := selector.ByName(name)
	if !found {
		return nil, fault.NoSuch("policy", "there is no policy of that name; leave it out to reset the key under all")
	}
	return []*rules.Policy{p}, nil
}

// resetLogs deletes one log from all Logs.
func (k *Keys) resetLogs(ctx context.Context, id timestamplog.LogID) (existed bool, err error) {
	for _, log := range k.Logs {
		did, err := log.Reset(ctx, id)
		if errors.Is(err, timestamplog.ErrUnreachable) {
			return existed, &fault.Error{
				Code: fault.Unavailable, Message: "The timestamp log is unreachable; the key may be reset in part. When the log is back, repeat it: that does no harm.", Err: err,
			}
		}
		if err != nil {
			return existed, err
		}
		existed = existed || did
	}
	return existed, nil
}
