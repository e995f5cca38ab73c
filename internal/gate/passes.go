package gate

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// The logs of solved challenges. As those of login attempts, their ids are negative.
const (
	logSolutions   int64 = -100 - iota // one for each challenge
	logSolvedPlace                     // one for each address
)

// solvedFor is how long a challenge that was solved is known: longer than it can be solved.
const solvedFor = time.Hour

// Earned says what a solution is worth.
type Earned struct {
	// Wait is how long the address has to wait until it may earn another pass, 0 if it has earned this one.
	Wait time.Duration
	// IsFirst says that the challenge was not solved before.
	IsFirst bool
}

// Earn counts a solved challenge for the address that solved it, which may earn a number of passes an
// hour. Without that, one address could collect passes until their limits together are none. A
// challenge that is solved again within a minute is not counted again. While the log is unreachable
// this node counts alone.
func (g *Gate) Earn(ctx context.Context, address keys.Key, challenge string, perHour int) Earned {
	if address.IsZero() { // unknown
		return Earned{}
	}
	wait, replayed := g.count(ctx, logSolvedPlace, address.String(), challenge, rules.Rule{Limit: perHour, Window: time.Hour})
	if wait > 0 {
		return Earned{Wait: wait}
	}
	repeated, _ := g.count(ctx, logSolutions, challenge, "", rules.Rule{Limit: 1, Window: solvedFor})
	return Earned{IsFirst: !replayed && repeated == 0}
}

// count charges a log of this package's own, and returns how long until it has room if it has none.
func (g *Gate) count(ctx context.Context, id int64, key, request string, rule rules.Rule) (wait time.Duration, replayed bool) {
	ctx, cancel := context.WithTimeout(ctx, 10*g.deadline)
	defer cancel()
	stack := rules.Stack{rule}
	q := []timestamplog.Request{{
		LogID: timestamplog.LogID{Policy: id, Key: key}, Version: int64(rule.Limit), Rules: stack, Retention: rules.Retention{}.Cover(stack), Cost: 1, ID: request,
	}}
	var results [1]timestamplog.Result
	g.log.Decide(ctx, q, results[:])
	if results[0].Err != nil && g.local != nil {
		results = [1]timestamplog.Result{}
		g.local.Decide(ctx, q, results[:])
	}
	r := &results[0]
	if r.Err != nil || r.Allowed {
		return 0, r.Replayed
	}
	return time.Duration(r.RetryAt-r.Now) * time.Millisecond, false
}
