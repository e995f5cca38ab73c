package gate

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// The logs of solved challenges.
const (
	logSolutions   = timestamplog.LogsOfChallenges - iota // one for each challenge, if a policy counts challenge.Solved
	logSolvedPlace                                        // one for each address
	logSpent                                              // one for each answer of a captcha
)

// PassRules limit a pass that no other policy is for than one that refuses everything but passes. They are
// those of the preset passes.
var PassRules = rules.Stack{{Limit: 100, Window: time.Second}, {Limit: 1500, Window: time.Minute}, {Limit: 20_000, Window: time.Hour}}

// passLimit applies PassRules. It remembers the policy that it made last: usually one refuses everything but passes.
var passLimit = &profiles.Limit{Rules: PassRules}

// solvedFor is how long a challenge that was solved is known: longer than it can be solved.
const solvedFor = time.Hour

// Earned says what a solution is worth.
type Earned struct {
	// Shared names who share one pass, since the address has earned as many as it may; "" for a pass of its own.
	Shared string
	// IsFirst says that the challenge was not solved before. It is not remembered which challenges were
	// solved for shared passes, nor for more than a minute while no policy counts solutions, so that an address
	// makes few logs.
	IsFirst bool
}

// Earn counts a solved challenge, by its name, for the address that solved it, which may earn a number of
// passes an hour and then shares one: one address cannot collect passes until their limits together are none,
// and the many people behind one are not locked out. A challenge that is solved again within a minute is not
// counted again. While the log is unreachable this node counts alone.
func (g *Gate) Earn(ctx context.Context, address keys.Key, name string, perHour int) Earned {
	if address.IsZero() { // unknown
		return Earned{}
	}
	isEarned, replayed := g.count(ctx, logSolvedPlace, address.String(), name, rules.Rule{Limit: perHour, Window: time.Hour})
	if !isEarned {
		return Earned{Shared: address.String()}
	}
	if replayed || !g.view.Loaded() || !g.view.Selector().CountsOutcome(string(challenge.Solved)) {
		return Earned{IsFirst: !replayed}
	}
	isNew, _ := g.count(ctx, logSolutions, name, "", rules.Rule{Limit: 1, Window: solvedFor})
	return Earned{IsFirst: isNew}
}

// ReportChallenge counts what came of a challenge for the policies that count such outcomes, under the key of
// the client's address.
func (g *Gate) ReportChallenge(ctx context.Context, address keys.Key, outcome challenge.Outcome) {
	if outcome == challenge.Nothing || address.IsZero() {
		return
	}
	var answer [1]Reported
	// An error says that the node is starting: nothing is counted yet.
	_ = g.Report(ctx, []Report{{Key: address, Outcome: string(outcome), Source: "challenge"}}, answer[:])
}

// Spend reports whether a name of what can be used once, such as the answer of a captcha, was not spent
// within the hour before, at any node. While the log is unreachable this node knows its own alone.
func (g *Gate) Spend(ctx context.Context, name string) bool {
	isNew, _ := g.count(ctx, logSpent, name, "", rules.Rule{Limit: 1, Window: solvedFor})
	return isNew
}

// count charges a log of this package's own, and reports whether it had room, as it has if no log can be asked.
func (g *Gate) count(ctx context.Context, id int64, key, request string, rule rules.Rule) (hasRoom, replayed bool) {
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
	return r.Err != nil || r.Allowed, r.Replayed
}
