// Package reports makes daily and weekly reports as documents: built once from
// the counts, kept, comparable with the one before, and written as JSON, CSV
// or one HTML page that can be mailed or printed.
package reports

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
)

// Kind is how long a document covers.
type Kind string

// The kinds of document. A week begins on Monday, days at midnight UTC.
const (
	Daily  Kind = "daily"
	Weekly Kind = "weekly"
)

// Document is one report. Ratios are 0 to 1.
type Document struct {
	ID      string    `json:"id"` // UUIDv7, or Today
	Kind    Kind      `json:"kind"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Created time.Time `json:"created_at"`
	Totals  Totals    `json:"totals"`
	// Before are the totals of the period before, nil where nothing was
	// counted then.
	Before    *Totals       `json:"before,omitzero"`
	Traffic   []Point       `json:"traffic"`
	Top       []Offender    `json:"top_offenders"`
	New       []NewOffender `json:"new_offenders"` // no offence in the 30 days before
	NewKeys   int64         `json:"new_offender_count"`
	Blocks    Blocks        `json:"blocks"`
	Rules     []Rule        `json:"rules"`        // most first
	Shadow    []Rule        `json:"shadow_rules"` // would have refused outside shadow mode, most first
	Silent    []Rule        `json:"silent_rules"` // refused nobody, and would not have
	Attention []string      `json:"attention"`    // one sentence each
}

// Totals are the sums of a period.
type Totals struct {
	Allowed       int64 `json:"allowed"`
	Limited       int64 `json:"limited"`
	Blocked       int64 `json:"blocked"`
	Challenged    int64 `json:"challenged"`
	Unavailable   int64 `json:"unavailable"`
	ShadowLimited int64 `json:"shadow_limited"`
	Offenders     int64 `json:"offenders"`
	// Keys is estimated, with a standard error of KeysError as a share.
	Keys      int64   `json:"keys_estimated"`
	KeysError float64 `json:"keys_error"`
}

// Refused returns how many checks were refused.
func (t Totals) Refused() int64 { return t.Limited + t.Blocked + t.Challenged }

// Point is one part of the period.
type Point struct {
	At      time.Time `json:"at"`
	Allowed int64     `json:"allowed"`
	Limited int64     `json:"limited"`
	Blocked int64     `json:"blocked"`

	Challenged int64 `json:"challenged,omitzero"`
}

// Offender is one key.
type Offender struct {
	Key          string    `json:"key"`
	Offences     int64     `json:"offences"`
	Allowed      int64     `json:"allowed"`
	RefusedRatio float64   `json:"refused_ratio"`
	Policy       string    `json:"policy"`
	RefusedBy    string    `json:"refused_by"`
	First        time.Time `json:"first"`
	Last         time.Time `json:"last"`
	Origin       string    `json:"origin,omitzero"` // whose address it is, as people read it
}

// NewOffender is one key and its offences; what refused it is known of Offender only.
type NewOffender struct {
	Key      string    `json:"key"`
	Offences int64     `json:"offences"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Origin   string    `json:"origin,omitzero"` // as Offender.Origin
}

// Blocks counts what happened to blocks.
type Blocks struct {
	Made      int64 `json:"made"`
	Automatic int64 `json:"automatic"` // of those made
	Ended     int64 `json:"ended"`
	Expired   int64 `json:"expired"`
}

// Rule is what one rule refused, or all blocks of keys that a policy applies to.
type Rule struct {
	Policy  string `json:"policy"`
	Rule    string `json:"rule"` // "" for blocks
	Kind    string `json:"kind"`
	Refused int64  `json:"refused"`
	// WouldRefuse is how many checks the rule would have refused outside shadow mode.
	WouldRefuse int64   `json:"would_refuse"`
	Keys        int64   `json:"keys"`
	Ratio       float64 `json:"ratio"` // of all refused checks
}

// Ranked is a key and its offences.
type Ranked = offences.Ranked

// Store keeps documents and reads what only they need.
type Store interface {
	// PutDocument keeps a document in place of the one of its kind and period.
	PutDocument(ctx context.Context, d *Document) error
	// FindDocuments returns a page, the newest period first, at most limit, 100 for 0: those
	// behind cursor, "" for the first; kind "" is all. next is the cursor of the page after,
	// "" on the last.
	FindDocuments(ctx context.Context, kind Kind, cursor string, limit int) (page []*Document, next string, err error)
	FindDocumentByID(ctx context.Context, id string) (*Document, error)
	CountBlockChanges(ctx context.Context, from, to time.Time) (Blocks, error)
}

// Counts reads what was counted.
type Counts interface {
	// NewOffenders returns the heaviest keys that offended in a period and not
	// in the time since before it, and how many there are.
	NewOffenders(ctx context.Context, since, from, to time.Time, limit int) ([]Ranked, int64, error)
	Rank(ctx context.Context, q offences.Query) (offences.Ranking, error)
}

// Detection answers who offended and what refused them.
type Detection interface {
	TrafficCounts(ctx context.Context, policy int64, from, to time.Time, resolution time.Duration) (offences.TrafficSeries, error)
	TrafficTotal(ctx context.Context, policy int64, from, to time.Time) (offences.TrafficPoint, error)
	Offenders(ctx context.Context, q offences.Query) (*offences.OffenderReport, error)
	Rules(ctx context.Context, from, to time.Time) ([]offences.RuleRow, error)
	EscalationPauses(ctx context.Context) ([]offences.EscalationPause, error)
}

// Proposals finds the proposals that wait for a decision.
type Proposals interface {
	// Find returns a page of those in a state, the newest first. A limit of 0 means 100.
	Find(ctx context.Context, state offences.ProposalState, cursor string, limit int) (page []*offences.Proposal, next string, err error)
}

// View is the node's copy of the policies.
type View interface {
	Selector() *rules.Selector
}

func (k Kind) length() time.Duration {
	if k == Weekly {
		return 7 * 24 * time.Hour
	}
	return 24 * time.Hour
}

// Period returns the last whole day or week before an instant.
func (k Kind) Period(now time.Time) (from, to time.Time) {
	to = now.UTC().Truncate(24 * time.Hour)
	if k == Daily {
		return to.AddDate(0, 0, -1), to
	}
	to = to.AddDate(0, 0, -(int(to.Weekday())+6)%7)
	return to.AddDate(0, 0, -7), to
}
