// Package timestamplog is the contract of the logs that decide: per policy and
// key, the times of the allowed requests. A rule N/W refuses a cost c exactly
// when the (N - c + 1)-th newest time is younger than W, so one log serves a
// whole stack and no clock boundary matters. The idea is DomainTools' "Rate
// Limiting with Redis"; redislog and memlog implement it and logtest holds the
// suite that both pass.
package timestamplog

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/rules"
)

// MaxCost is the largest cost of one check.
const MaxCost = 1000

// Log decides requests. It is safe for use by many goroutines.
type Log interface {
	Reservations

	// Decide answers each request in order as if it came alone: it is logged,
	// with its whole cost, if and only if every rule allows it. results has
	// the length of requests. A request whose answer could not be had carries
	// its own Err: an error is an outage, never a verdict, and the request
	// may then have been charged once. No request is ever charged twice.
	Decide(ctx context.Context, requests []Request, results []Result)

	// Times returns the times that a log holds, the newest first, at most
	// limit of them, and the log's present time; none where there is no log.
	// It reads only.
	Timestamps(ctx context.Context, ref LogID, limit int) (times []int64, now int64, err error)

	// Reset forgets a log and reports whether it held anything.
	Reset(ctx context.Context, ref LogID) (bool, error)

	// Now returns the present time of the log's one clock.
	Now(ctx context.Context) (time.Time, error)

	// Outages returns the servers that do not decide at present, the one that
	// has been away for longest first; requests about their logs fail at once. A
	// request counts towards an outage where its context's deadline passed, and
	// not where its context was cancelled: its caller went away.
	Outages() []Outage
}

// Ref names one log: one key under one policy. A generation that moves leaves
// the old log to expire.
type LogID struct {
	Policy     int64
	Generation int64
	Key        string // canonical
}

// LogIDOf returns the log of key under p.
func LogIDOf(p *rules.Policy, key string) LogID {
	return LogID{Policy: p.ID, Generation: p.Generation, Key: key}
}

// Request asks whether one request may be done.
type Request struct {
	LogID
	// Version is the policy's version, by which a log may remember the stack.
	Version int64
	Rules   rules.Stack
	// Retention bounds what is kept; it covers Rules.
	Retention rules.Retention
	// Algorithm is how to count, nil for the timestamp log.
	Algorithm *algorithms.Algorithm
	Options   algorithms.Options
	Cost      int  // 1 to MaxCost, at most Rules.LargestCost()
	Peek      bool // answer, and write nothing
	// Detail asks for what each rule has left, which costs more than deciding.
	Detail bool
	// MaxWait is how many milliseconds the caller would wait for its reservation, 0 to
	// MaxWait; see reservation.go. It is 0 where Options.CountRefused is set.
	MaxWait int64
	// ID names the request, "" for none, at most MaxID bytes: one that comes
	// again within IDLifetime after it was charged is answered as it was then,
	// and not charged again. A request with a MaxWait that is no peek has one.
	ID string
}

// RequestOf returns the request that asks p about key.
func RequestOf(p *rules.Policy, key string, cost int) Request {
	q := Request{
		LogID: LogIDOf(p, key), Version: p.Version, Rules: p.Rules,
		Retention: p.Retention.Cover(p.Rules), Cost: cost,
	}
	if p.Algorithm != algorithms.TimestampLog {
		q.Algorithm, q.Options = algorithms.ByName(p.Algorithm), p.Options
	}
	return q
}

// Never is the RetryAt of a rule that always refuses.
const Never int64 = math.MaxInt64

// Result is the answer to one Request. Times are Unix milliseconds on the
// log's clock.
type Result struct {
	Allowed bool
	// Now is when it was decided.
	Now int64
	// Reservation is when the request may be done where it was allowed: Now, or the
	// instant that was reserved for it. 0 where it was refused.
	ReservedAt int64
	// Repeated says that the request's ID was charged before, and that nothing
	// was charged now.
	Replayed bool
	// RetryAt is the earliest instant at which the same request, with the same
	// MaxWait, would be allowed if nobody else came; 0 when it was allowed,
	// Never for a 0/W rule.
	RetryAt int64
	// Rule is the index of the rule that makes the caller wait longest, -1
	// when it was allowed. Where only reservations that are reserved ahead make it
	// wait, it is that of the last rule.
	Rule int
	// Boundary is the logged time that Rule waits to age out; 0 when allowed,
	// for a 0/W rule, where only reservations reserved ahead make the caller wait, and
	// under a counter.
	Boundary int64
	// States has one element per rule, in order, when Detail was asked.
	States []RuleState
	// RefusalValidUntil is the instant until which the same request is refused while
	// nothing is logged: RetryAt, or when the log expires where that is earlier,
	// as it can be after a longer window has replaced a shorter one. 0 where it
	// was allowed, and where it is not known.
	RefusalValidUntil int64
	// StatesValidUntil is the instant until which, while nothing is logged and a
	// request is refused, States stay as they are but for their waits, which
	// run down; Never where they always do, 0 where it is not known.
	StatesValidUntil int64
	// FromCache says that this node knew the answer and nobody was asked, so
	// that it tells nothing about whether the log can be reached.
	FromCache bool
	// Err is the outage that left this request unanswered; the rest of the
	// result is then meaningless.
	Err error
}

// RuleState is what one rule has left after the answer.
type RuleState struct {
	Remaining int
	// RetryAfterMS is this rule's own wait for this request's cost in milliseconds,
	// 0 when it allows it now, Never when it never will.
	RetryAfterMS int64
}

// ErrCrossSlot is returned by DecideAll for logs that no one call can reach, since
// they lie in different slots of a Redis Cluster. Nothing was charged.
var ErrCrossSlot = errors.New("the logs lie in different slots of a cluster")
