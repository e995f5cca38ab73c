package blocks

import (
	"context"
	"iter"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/paging"
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
	// Holder selects the entries in which the source of that name has a share, empty for all.
	Holder string
	// Author selects the entries in which one author has a share, empty for all.
	Author string
	// Search selects patterns or reasons that contain this text, ignoring case.
	Search string
	// Key selects entries whose pattern matches this key, zero for all.
	Key keys.Key
	// Within selects entries whose pattern is covered by this pattern, zero for all.
	Within keys.Pattern
	Order  Order
	Cursor string // from the previous page, empty for the first
	Limit  int    // 1 to 1000, 0 means 100
	At     time.Time
	// Uncounted leaves the Total of the page at 0: counting all takes longer than listing a few.
	Uncounted bool
}

// Update is a change of an entry; nil leaves a field unchanged.
type Update struct {
	Reason  *string
	Expires *time.Time // zero time: permanent
	// Revision is the expected present revision, 0 for any.
	Revision int64
}

// Outcome is the result of adding an entry.
type Outcome string

// The results of adding an entry.
const (
	Created   Outcome = "created"
	Extended  Outcome = "extended"
	Joined    Outcome = "joined" // another source holds the active entry too
	Replaced  Outcome = "replaced"
	Unchanged Outcome = "unchanged" // an extension to an earlier expiry, or the import of a pattern with an active block
)

// Added is the result of adding an entry.
type Added struct {
	Entry   *Entry
	Outcome Outcome
	// Before is the entry as it was before it was extended, joined or replaced, nil for none.
	Before *Entry
}

// Effect returns what adding an entry changed of what is in force: an entry that another source
// has joined is extended if it lasts longer, and otherwise unchanged.
func (a *Added) Effect() Outcome {
	switch {
	case a.Outcome != Joined:
		return a.Outcome
	case IsLater(a.Entry.Expires, a.Before.Expires):
		return Extended
	}
	return Unchanged
}

// Store keeps entries. For each pattern at most one entry of each kind is active at any time.
// Methods with a kind and an id find the entry only if it is of that kind. Changes of several
// entries are made in one transaction, all or nothing. Errors that a caller can fix are
// *fault.Error: NotFound; Conflict for adding an entry under Fail if one is active (Detail["id"]
// names it), and for changing an entry that has ended; Outdated for another revision than
// expected.
type Store interface {
	// Add adds entries. The store fills in their ID, Created and Revision.
	Add(ctx context.Context, by audit.Actor, on Conflict, entries ...Entry) ([]Added, error)
	ByID(ctx context.Context, kind Kind, id string) (*Entry, error)
	Find(ctx context.Context, f Filter) (paging.Page[*Entry], error)
	// Each iterates over all results of Find, for exports.
	Each(ctx context.Context, f Filter) iter.Seq2[*Entry, error]
	Update(ctx context.Context, by audit.Actor, kind Kind, id string, u Update) (*Entry, error)
	// Shares returns all shares of entries, by id, the one that lasts longest first.
	Shares(ctx context.Context, ids ...string) (map[string][]Share, error)
	// EndShare ends the share of one holder in the active entry of a kind, pattern and scope, and
	// the entry if no other holds it. The error is NotFound if the holder has no share in one.
	EndShare(ctx context.Context, by audit.Actor, kind Kind, id string, h Holder, reason string) (*Entry, error)
	// End ends active entries with the shares of all sources. reason, which may be empty, is for the audit record.
	End(ctx context.Context, by audit.Actor, kind Kind, reason string, ids ...string) ([]*Entry, error)
	// EndUnchanged ends entries that have not changed since a revision, all or none.
	EndUnchanged(ctx context.Context, by audit.Actor, kind Kind, revision int64, ids ...string) ([]*Entry, error)
	// Restore makes ended entries active again, with their ids and their former expiry. It does
	// not change entries that have not ended.
	Restore(ctx context.Context, by audit.Actor, kind Kind, ids ...string) ([]*Entry, error)
	// Import adds many blocks in batches but in one transaction, all or nothing. Under Fail, a
	// pattern with an active block keeps that block and is counted as unchanged; otherwise on
	// decides. progress, which may be nil, is called with the number of rows done.
	Import(ctx context.Context, by audit.Actor, all iter.Seq2[Entry, error], on Conflict, progress func(done int)) (ImportResult, error)
}

// ImportResult has the numbers of an import.
type ImportResult struct {
	Created   int
	Extended  int
	Replaced  int
	Unchanged int // rows whose pattern kept its active block
	// RecordID is the id of the audit record, 0 if nothing was changed.
	RecordID int64
}
