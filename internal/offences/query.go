package offences

import (
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/keys"
)

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
	From, To    time.Time // From inclusive, To exclusive
	Policy      int64     // 0 for all
	Pattern     keys.Pattern
	Source      string // only offences that it asked for
	Search      string // part of the key, without case
	Rule        string // only offences by this rule or block
	NotRule     string // or all but those by this one
	MinOffences int64  // only keys with at least so many offences
	// Shadow asks for what shadow policies would have refused, which is not
	// counted otherwise.
	Shadow bool
	Sort   Sort   // ByOffences where ""
	Cursor string // from the page before
	Limit  int    // 1 to 1000, 0 means 100
	// Keep is asked about the key of each of the first MaxKept ranked keys, in their order:
	// the ranking has only those that it accepts. nil accepts all keys, of any number.
	Keep func(key string) bool
	// State selects the keys by what is done about them, "" for all. Of admin.Detection only
	// Offenders and Origins know it.
	State Triage
	// CountStates asks for OffenderReport.States without a State.
	CountStates bool
	// Points of each row's trend, 0 for none, at most 120, and one an hour in
	// spans of more than six.
	Points int
}

// Triage is what is done about an offender.
type Triage string

// What may be done about an offender.
const (
	TriageOpen    Triage = "open" // neither blocked nor exempt
	TriageBlocked Triage = "blocked"
	TriageExempt  Triage = "exempt"
)

// MaxKept bounds the keys that Query.Keep is asked about.
const MaxKept = 20_000

// Span is what was read for a report: From and To as rounded, and, where
// minutes are no longer kept, to whole hours or days.
type Span struct{ From, To time.Time }

// Part returns the length of each of so many equal parts of the span, at least a millisecond.
func (s Span) Part(points int) time.Duration {
	return time.Duration(max(1, (s.To.UnixMilli()-s.From.UnixMilli()+int64(points)-1)/int64(points))) * time.Millisecond
}

// Reading is how a span was read.
type Reading struct {
	Span
	// Row is the longest time whose counts were read as one: an hour or a day where minutes
	// are no longer kept, and where the parts that were asked for are as long; 0 for an empty
	// span. Counts are placed where their row begins.
	Row time.Duration
}

// TrafficSeries is the traffic of a span in steps.
type TrafficSeries struct {
	Span
	// Step is the length of each point: what was asked for, or the next multiple of an hour
	// or a day where no more is kept.
	Step   time.Duration
	Points []TrafficPoint // those with a check, in the order of time
}

// Ranked is one key of a ranking.
type Ranked struct {
	Key         string
	Offences    int64
	Overcount   int64
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
	Other, OtherOvercount int64
	// Untracked are allowed checks of keys whose traffic has no row.
	Untracked int64
	// Unread are keys behind the first MaxKept, which Query.Keep was not asked about.
	Unread int64
}

// Detail is the offences of a key by one policy, rule or block and part of
// the span.
type Detail struct {
	Key       string
	Policy    int64
	Kind      Kind
	RefusedBy string
	Point     int
	Count     int64
}

// KeyTotal is what the traffic memory holds of a key in a span: at least so
// many checks.
type KeyTotal struct {
	Key                         string
	Allowed, Refused, Overcount int64
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
	Policy    int64
	Kind      Kind
	RefusedBy string
	Refused   int64
	Keys      int64
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

// EscalationFilter selects events, the newest first. Zero fields select all.
type EscalationFilter struct {
	From, To time.Time
	Policy   int64
	Key      string
	Limit    int    // 0 means 100
	Cursor   string // of the page, "" for the first
}
