package client

import (
	"context"
	"time"
)

// MaxKeys is how many keys one JointCheck may ask about.
const MaxKeys = 16

// JointCheck is one question about several keys at once: 1 to MaxKeys of them,
// all different. On a Redis Cluster they must lie together; a *Problem says
// where they do not.
type JointCheck struct {
	Keys []JointKey
	// The others are as in Check.
	Peek           bool
	Detail         Detail
	Source         string
	Meta           map[string]string
	MaxWait        time.Duration
	IdempotencyKey string
}

// JointKey is one key of a JointCheck, with the fields of Check.
type JointKey struct {
	Key    string
	Policy string
	Cost   int
}

// CheckAll asks about several keys: allowed only if every key's policy allows,
// and otherwise nothing is charged to any. Errors are those of Check.
func (c *Client) CheckAll(ctx context.Context, q JointCheck) (*JointDecision, error) {
	var d wireDecision
	if _, err := c.ask(ctx, call{path: pathCheck, question: c.wireJoint(&q)}, &d); err != nil {
		a, err := c.insteadOf(err)
		if err != nil {
			return nil, err
		}
		return &JointDecision{Answer: a}, nil
	}
	joint := &JointDecision{Answer: d.answer(), Parts: make([]Decision, len(d.Parts))}
	for i := range d.Parts {
		joint.Parts[i] = *d.Parts[i].decision()
	}
	return joint, nil
}
