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

// Query selects offenders. Times are rounded to whole minutes: From down and To up.
type Query struct {
	From, To    time.Time // From inclusive, To exclusive
	Policy      int64     // 0 for all
	Pattern     keys.Pattern
	Source      string // only offences with this source
	Search      string // part of the key, ignoring case
	Rule        string // only offences by this rule or block
	NotRule     string // only offences by other rules and blocks than this one
	MinOffences int64  // only keys with at least this many offences
	// Shadow selects the offences under shadow policies, which are not counted otherwise.
	Shadow bool
	Sort   Sort   // "" means ByOffences
	Cursor string // from the previous page
	Limit  int    // 1 to 1000, 0 means 100
	// Keep is called with each of the first MaxKept ranked keys, in their order. Only keys for
	// which it returns true are in the ranking. nil accepts all keys, without a limit.
	Keep func(key string) bool
	// State selects the keys by their triage state, "" for all. In admin.Detection only Offenders
	// and Origins support it.
	State Triage
	// CountStates requests OffenderReport.States even if State is "".
	CountStates bool
	// Points is the number of points in each row's trend: 0 for none, at most 120, and at most
	// one an hour if the span is longer than six hours.
	Points int
}

// Triage is the state of an offender: whether something was done about it.
type Triage string

// The triage states.
const (
	TriageOpen    Triage = "open" // neither blocked nor exempt
	TriageBlocked Triage = "blocked"
	TriageExempt  Triage = "exempt"
)

// MaxKept is the maximum number of keys for which Query.Keep is called.
const MaxKept = 20_000

// Span is the time that was read for a report: From and To after rounding, to whole hours or days
// if minutes are no longer kept.
type Span struct{ From, To time.Time }

// Part returns the length of each of points equal parts of the span, at least a millisecond.
func (s Span) Part(points int) time.Duration {
	return time.Duration(max(1, (s.To.UnixMilli()-s.From.UnixMilli()+int64(points)-1)/int64(points))) * time.Millisecond
}

// Reading is how the counts of a span were read.
type Reading struct {
	Span
	// Row is the length of the longest rows that were read: an hour or a day if minutes are no
	// longer kept, or if the requested parts are at least that long; 0 for an empty span. Counts
	// are assigned to the beginning of their row.
	Row time.Duration
}

// TrafficSeries is the traffic of a span, divided into steps.
type TrafficSeries struct {
	Span
	// Step is the length of each point. It is the requested length, or the next multiple of an
	// hour or a day if only hours or days are kept.
	Step   time.Duration
	Points []TrafficPoint // those with a check, in order of time
}

// First returns the beginning of the first point, at or before From: points begin at whole multiples of
// the step, so that no row of a longer time is counted in the point before its own.
func (s *TrafficSeries) First() time.Time {
	if s.Step > maxAligned {
		return s.From
	}
	return s.From.Truncate(s.Step)
}

// maxAligned is longer than every step but that of a whole span.
const maxAligned = 5 * 365 * 24 * time.Hour

// Ranked is one key of a ranking.
type Ranked struct {
	Key         string
	Offences    int64
	Overcount   int64
	First, Last time.Time
}

// Ranking is one page of offenders as counted by the store.
type Ranking struct {
	Span
	Rows     []Ranked
	Next     string // cursor of the next page, "" on the last
	Keys     int64  // number of all selected keys
	Offences int64  // offences of all selected keys
	// Other is the number of offences in the span that lost their key. OtherOvercount is the
	// maximum number of them that any one key may have.
	Other, OtherOvercount int64
	// Untracked is the number of allowed checks of keys without a row of their own.
	Untracked int64
	// Unread is the number of keys after the first MaxKept, for which Query.Keep was not called.
	Unread int64
}

// Detail is the number of offences of a key under one policy, by one rule or block and in one
// part of the span.
type Detail struct {
	Key       string
	Policy    int64
	Kind      Kind
	RefusedBy string
	Point     int
	Count     int64
}

// KeyTotal is the known traffic of a key in a span, which is a lower bound.
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

// RuleTotal counts the offences by one rule or block.
type RuleTotal struct {
	Policy    int64
	Kind      Kind
	RefusedBy string
	Count     int64 // Refused or WouldRefuse
	Keys      int64
}

// Refused returns how many checks the rule or block refused.
func (t RuleTotal) Refused() int64 {
	if t.Kind == Shadow {
		return 0
	}
	return t.Count
}

// WouldRefuse returns how many checks that were allowed the rule would have refused outside shadow
// mode.
func (t RuleTotal) WouldRefuse() int64 { return t.Count - t.Refused() }

// Seen is the known traffic of the keys that a pattern selects.
type Seen struct {
	Keys, Offenders    int64 // with a row of their own
	Allowed, Refused   int64
	AllAllowed         int64 // of every key
	AllRefused         int64
	Untracked          int64 // allowed checks of keys without a row
	Samples            []SeenKey
	SpanFrom, SpanTill time.Time
}

// ActiveQuery selects the keys that were checked in a time range. Times are rounded to whole
// minutes: From down and To up.
type ActiveQuery struct {
	From, To time.Time    // From inclusive, To exclusive
	Policy   int64        // 0 for all
	Pattern  keys.Pattern // not one of an origin
	Search   string       // part of the key, ignoring case
	// NeverRefused selects keys that were not refused in the time range, or not under Policy.
	NeverRefused bool
	Cursor       string // from the previous page
	Limit        int    // 1 to 1000, 0 means 100
}

// ActiveKeys is a page of the keys that were checked, most checks first.
type ActiveKeys struct {
	Span // what was read
	Rows []ActiveKey
	Keys int64  // with a row of their own, on all pages
	Next string // the cursor of the next page, "" on the last
	// Untracked is at most how many allowed checks of all keys have no key: those of the keys with
	// the fewest checks of a minute with very many.
	Untracked int64
}

// ActiveKey is one key and how its checks were answered.
type ActiveKey struct {
	Key                       string
	Allowed, Limited, Blocked int64
}

// Checks returns the number of checks.
func (k *ActiveKey) Checks() int64 { return k.Allowed + k.Limited + k.Blocked }

// SeenKey is one key and the numbers of its checks.
type SeenKey struct {
	Key              string
	Allowed, Refused int64
}

// SeenPart is the known traffic of the keys in a part of a network.
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
	Cursor   string // of the requested page, "" for the first
}
