package blocks

import (
	"context"
	"iter"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/keys"
)

// Order of a listing.
type Order string

// The orders, each with the newest or soonest first.
const (
	ByCreated Order = "created" // newest first
	ByExpiry  Order = "expiry"  // soonest expiry first, permanent entries last
)

// Filter selects entries for a listing.
type Filter struct {
	// Kind selects entries of one kind, empty for all.
	Kind Kind
	// State is "active" (the default when empty), "ended" or "all".
	State string
	// Source selects entries of one source, empty for all.
	Source Source
	// Author selects the entries that one author made, empty for all.
	Author string
	// Search selects patterns or reasons that contain this text, without case.
	Search string
	// Key selects what matches this key, zero for all.
	Key keys.Key
	// Within selects patterns that this pattern covers, zero for all.
	Within keys.Pattern
	Order  Order
	Cursor string // from the page before, empty for the first
	Limit  int    // 1 to 1000, 0 means 100
	At     time.Time
	// Uncounted leaves Page.Total 0: to count all takes longer than to list a few.
	Uncounted bool
}

// Page is one page of a listing. Next is the cursor of the page after, empty
// on the last. Total counts all that the filter selects.
type Page struct {
	Items []*Entry
	Next  string
	Total int
}

// Update changes an entry in place; nil leaves a field as it is.
type Update struct {
	Reason  *string
	Expires *time.Time // zero time: permanent
	// Revision is the revision that the change expects, 0 for any.
	Revision int64
}

// Outcome says what adding did.
type Outcome string

// The outcomes of adding.
const (
	Created   Outcome = "created"
	Extended  Outcome = "extended"
	Replaced  Outcome = "replaced"
	Unchanged Outcome = "unchanged" // extending to an earlier end, or an import of an active pattern
)

// Added is what adding an entry did.
type Added struct {
	Entry   *Entry
	Outcome Outcome
	// Before is the entry that was extended or replaced, nil for none.
	Before *Entry
}

// Store keeps entries. For one pattern at most one entry of each kind is active
// at any time. Methods that take a kind and an id find the entry only where it is
// of that kind. Changes of several entries are made in one transaction: all or
// nothing. Errors that a caller can fix are *fault.Error: NotFound; Conflict for
// adding under Fail where one is active (Detail["id"] names it) and for changing
// one that has ended; Outdated for another revision than expected.
type Store interface {
	// Add adds entries, whose ID, Created and Revision the store fills in.
	Add(ctx context.Context, by audit.Actor, on Conflict, entries ...Entry) ([]Added, error)
	ByID(ctx context.Context, kind Kind, id string) (*Entry, error)
	Find(ctx context.Context, f Filter) (Page, error)
	// Each ranges over what Find would page through, for exports.
	Each(ctx context.Context, f Filter) iter.Seq2[*Entry, error]
	Update(ctx context.Context, by audit.Actor, kind Kind, id string, u Update) (*Entry, error)
	// End ends active entries; reason, which may be empty, is for the audit.
	End(ctx context.Context, by audit.Actor, kind Kind, reason string, ids ...string) ([]*Entry, error)
	// Restore makes ended entries active again, with their ids and until their
	// former expiry. An entry that has not ended stays as it is.
	Restore(ctx context.Context, by audit.Actor, kind Kind, ids ...string) ([]*Entry, error)
	// Import adds many blocks in one transaction, in batches: all or nothing.
	// A pattern with an active block keeps it under Fail, counted as unchanged,
	// or is handled as on says. progress, which may be nil, is called with the
	// number of rows that are done.
	Import(ctx context.Context, by audit.Actor, all iter.Seq2[Entry, error], on Conflict, progress func(done int)) (ImportResult, error)
}

// ImportResult counts what an import did.
type ImportResult struct {
	Created   int
	Extended  int
	Replaced  int
	Unchanged int // rows whose pattern kept its block
	// RecordID is the id of the audit record, 0 where nothing was changed.
	RecordID int64
}
