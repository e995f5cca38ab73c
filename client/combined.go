package client

import (
	"context"
	"fmt"
	"time"
)

// MaxKeys is how many keys one CombinedCheck may ask about.
const MaxKeys = 16

// CombinedCheck is one check of 1 to MaxKeys different keys. On a Redis Cluster all of them
// must be in one slot; otherwise the error is a *Problem.
type CombinedCheck struct {
	Keys []CombinedKey
	// The others are as in Check.
	Peek           bool
	Charge         Charge
	Detail         Detail
	Source         string
	Meta           map[string]string
	Request        Request
	Values         map[string]string
	MaxWait        time.Duration
	Cancellable    bool
	Hold           time.Duration
	IdempotencyKey string
}

// CombinedKey is one key of a CombinedCheck, with the fields of Check.
type CombinedKey struct {
	Key    string
	Policy string
	Cost   int
}

// CheckAll checks several keys at once. It is allowed only if the policy of each key allows
// it; otherwise no key is charged, except with ChargeAlways. Errors are those of Check.
func (c *Client) CheckAll(ctx context.Context, q CombinedCheck) (*CombinedDecision, error) {
	for i, k := range q.Keys {
		if err := checkKey(k.Key, fmt.Sprintf("keys[%d].key", i)); err != nil {
			return nil, err
		}
	}
	var d wireDecision
	if _, err := c.ask(ctx, call{path: pathCheck, question: c.wireCombined(&q)}, &d); err != nil {
		a, err := c.insteadOf(err)
		if err != nil {
			return nil, err
		}
		return &CombinedDecision{Answer: a}, nil
	}
	all := &CombinedDecision{Answer: d.answer(), Decisions: make([]Decision, len(d.Decisions))}
	all.Held.setLength(q.Hold)
	for i := range d.Decisions {
		all.Decisions[i] = *d.Decisions[i].decision()
	}
	return all, nil
}
