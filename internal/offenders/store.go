package offenders

import (
	"context"
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/refusal"
)

// Retention says how long counts are kept. Zero fields mean 30 days of
// minutes, 400 days of hours, 5 years of days and a day of the trace.
type Retention struct {
	Minutes, Hours, Days, Trace time.Duration
}

// WithDefaults fills in what is zero.
func (r Retention) WithDefaults() Retention {
	const day = 24 * time.Hour
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{{&r.Minutes, 30 * day}, {&r.Hours, 400 * day}, {&r.Days, 5 * 365 * day}, {&r.Trace, day}} {
		if *d.value <= 0 {
			*d.value = d.standard
		}
	}
	return r
}

// Sort is the order of a report.
type Sort string

// The orders of a report; ties are by key.
const (
	ByOffences Sort = "offences" // most first
	ByLast     Sort = "last"     // newest first
	ByFirst    Sort = "first"    // newest first
	ByKey      Sort = "key"
)

// Query selects offenders. Spans are of whole minutes: From is rounded down
// and To up.
type Query struct {
	From, To time.Time // From inclusive, To exclusive
	Policy   int64     // 0 for all
	Pattern  keys.Pattern
	Source   string // only offences that it asked for
	Search   string // part of the key, without case
	Rule     string // only offences by this rule or block
	NotRule  string // or all but those by this one
	Least    int64  // only keys with at least so many offences
	// Shadow asks for what shadow policies would have refused, which is not
	// counted otherwise.
	Shadow bool
	Sort   Sort   // ByOffences where ""
	Cursor string // from the page before
	Limit  int    // 1 to 1000, 0 means 100
	// Points of each row's trend, 0 for none, at most 120, and one an hour in
	// spans of more than six.
	Points int
}

// Span is what was read for a report: From and To as rounded, and, where
// minutes are no longer kept, to whole hours or days.
type Span struct{ From, To time.Time }

// Ranked is one key of a ranking.
type Ranked struct {
	Key         string
	Offences    int64
	Over        int64
	First, Last time.Time
}

// Ranking is one page of offenders as the store counts them.
type Ranking struct {
	Span
	Rows     []Ranked
	Next     string // cursor of the page after, "" on the last
	Keys     int64  // all that are selected
	Offences int64  // of all that are selected
	// Other are offences of the span that lost their key, and OtherOver the
	// most that any one key may have among them.
	Other, OtherOver int64
	// Untracked are allowed checks of keys whose traffic has no row.
	Untracked int64
}

// Detail is the offences of a key by one policy, rule or block and part of
// the span.
type Detail struct {
	Key     string
	Policy  int64
	Kind    Kind
	Decider string
	Point   int
	Count   int64
}

// KeyTotal is what the traffic memory holds of a key in a span: at least so
// many checks.
type KeyTotal struct {
	Key                    string
	Allowed, Refused, Over int64
}

// TrafficPoint is the traffic of one part of a span.
type TrafficPoint struct {
	At time.Time
	Counts
	// Keys is the estimated number of distinct keys; see DistinctError.
	Keys int64
}

// RuleTotal is what one rule or block refused.
type RuleTotal struct {
	Policy  int64
	Kind    Kind
	Decider string
	Refused int64
	Keys    int64
}

// Seen is what the memory holds about the keys that a pattern selects.
type Seen struct {
	Keys, Offenders    int64 // with a row of their own
	Allowed, Refused   int64
	AllAllowed         int64 // of every key
	AllRefused         int64
	Untracked          int64 // allowed checks of keys without a row
	Samples            []SeenKey
	SpanFrom, SpanTill time.Time
}

// SeenKey is one key and what it did.
type SeenKey struct {
	Key              string
	Allowed, Refused int64
}

// SeenPart is what the memory holds about the keys of a part of a network.
type SeenPart struct {
	Network          netip.Prefix
	Keys             int64 // with a row of their own
	Allowed, Refused int64
}

// Store reads what was counted and keeps what follows from it.
type Store interface {
	Sink
	RollUp(ctx context.Context, now time.Time) (done int, err error)
	DeleteOlder(ctx context.Context, now time.Time, keep Retention) (deleted int64, err error)

	Rank(ctx context.Context, q Query) (Ranking, error)
	// Details reads up to points parts of a span for a page of keys, and of
	// their offences those that q selects; its span and order do not matter.
	Details(ctx context.Context, q Query, keys []string, span Span, points int) ([]Detail, error)
	// KeyTotals reads the traffic of keys under a policy, 0 for all.
	KeyTotals(ctx context.Context, policy int64, keys []string, span Span) ([]KeyTotal, error)
	// Traffic reads a span in steps from from on; a step of 0 is all of it.
	Traffic(ctx context.Context, policy int64, from, to time.Time, step time.Duration) ([]TrafficPoint, error)
	RuleTotals(ctx context.Context, span Span) ([]RuleTotal, error)
	// Seen reads the heaviest keys that p selects, at most limit of them, and
	// the sums over all of them.
	Seen(ctx context.Context, p keys.Pattern, from, to time.Time, limit int) (Seen, error)
	// SeenParts reads what the parts of a network did, each of so many bits, in
	// the order of their addresses; those without any traffic are left out.
	SeenParts(ctx context.Context, network netip.Prefix, bits int, from, to time.Time) ([]SeenPart, error)
	DistinctKeys(ctx context.Context, policy int64, from, to time.Time) (int64, error)
	FindOffences(ctx context.Context, id refusal.ID) ([]Offence, error)
	// Kept returns from when on minutes are kept, and the minute's row of
	// offences that were folded, by policy.
	Kept(ctx context.Context, minute time.Time) (from time.Time, folded []Offence, err error)
	// Trace calls do with every chunk of a span.
	Trace(ctx context.Context, from, to time.Time, do func(*TraceChunk) error) error

	EscalationStates(ctx context.Context, keys []string) ([]State, error)
	// EscalationCounts returns what counts for keys, by minute, from one on.
	EscalationCounts(ctx context.Context, keys []string, from int64) ([]EscalationCount, error)
	EscalationEvents(ctx context.Context, f EscalationFilter) ([]EscalationEvent, error)
	EscalationPauses(ctx context.Context) ([]EscalationPause, error)
	// ResumeEscalation lets a paused escalation go on; NotFound where it has not
	// stopped.
	ResumeEscalation(ctx context.Context, by audit.Actor, policy int64) error

	ProposalStore
}

// EscalationFilter selects events, the newest first. Zero fields select all.
type EscalationFilter struct {
	From, To time.Time
	Policy   int64
	Key      string
	Limit    int // 0 means 100
}
