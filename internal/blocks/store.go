package blocks

import (
	"cmp"
	"math"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/stint-dev/stint/internal/fault"
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
	// Lists selects rows of lists too. They are left out otherwise unless another field selects
	// some entries, such as Source or Search.
	Lists bool
	// Uncounted leaves the Total of the page at 0: counting all takes longer than listing a few.
	Uncounted bool
}

// Position is the place of an entry in a list.
type Position struct {
	Expires int64 // Unix milliseconds, math.MaxInt64 for a permanent entry
	ID      string
}

// PositionOf returns the place of an entry.
func PositionOf(e *Entry) Position {
	if e.Expires.IsZero() {
		return Position{math.MaxInt64, e.ID}
	}
	return Position{e.Expires.UnixMilli(), e.ID}
}

// Cursor returns the cursor of what follows p in an order.
func (p Position) Cursor(order Order) string {
	return paging.Cursor(string(cmp.Or(order, ByCreated)), strconv.FormatInt(p.Expires, 10), p.ID)
}

// ParsePosition returns the place at which a page in an order begins, by its cursor.
func ParsePosition(cursor string, order Order) (Position, error) {
	values, err := paging.ParseCursor(cursor, 3)
	if err != nil {
		return Position{}, err
	}
	expires, err := strconv.ParseInt(values[1], 10, 64)
	if err != nil || values[0] != string(cmp.Or(order, ByCreated)) || uuid.Validate(values[2]) != nil {
		return Position{}, fault.Field("cursor", paging.BadCursor)
	}
	return Position{expires, values[2]}, nil
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

// ImportResult has the numbers of an import.
type ImportResult struct {
	Created   int
	Extended  int
	Replaced  int
	Unchanged int // rows whose pattern kept its active block
	// RecordID is the id of the audit record, 0 if nothing was changed.
	RecordID int64
}
