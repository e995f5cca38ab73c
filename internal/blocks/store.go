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
	ByExpiry  Order = "expiry"  // ends soonest first, for good last
)

// Filter selects blocks or exemptions for a listing.
type Filter struct {
	// State is "active" (the default when empty), "ended" or "all".
	State string
	// Source selects blocks of one source, empty for all.
	Source Source
	// Author selects what one author made, empty for all.
	Author string
	// Search selects patterns or reasons that hold this text, without case.
	Search string
	// Key selects what matches this key, zero for all.
	Key keys.Key
	// Within selects patterns that this pattern covers, zero for all.
	Within keys.Pattern
	Order  Order
	Cursor string // from the page before, empty for the first
	Limit  int    // 1 to 1000, 0 means 100
	At     time.Time
}

// Page is one page of a listing. Next is the cursor of the page after, empty
// on the last. Total counts all that the filter selects.
type Page[T any] struct {
	Items []T
	Next  string
	Total int
}

// Update changes a block or exemption in place; nil leaves a field as it is.
type Update struct {
	Reason  *string
	Expires *time.Time // zero time: for good
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
	Unchanged Outcome = "unchanged" // extending to an earlier end, or an import that knew it
)

// Added is what adding a block or exemption did.
type Added[T any] struct {
	Item    T
	Outcome Outcome
	// Before is what stood there and was extended or replaced, else zero.
	Before T
}

// Store keeps blocks and exemptions. For one pattern at most one block, and
// one exemption, is active at any time. Errors that an operator can mend are
// *fault.Error: NotFound; Conflict for adding under Fail where one stands
// (Detail["id"] names it) and for changing one that has ended; Outdated for
// another revision than expected.
type Store interface {
	// AddBlock adds b, whose ID, Created and Revision the store fills in.
	AddBlock(ctx context.Context, by audit.Actor, b Block, on Conflict) (Added[*Block], error)
	FindBlockByID(ctx context.Context, id string) (*Block, error)
	FindBlocks(ctx context.Context, f Filter) (Page[*Block], error)
	// EachBlock ranges over what FindBlocks would page through, for exports.
	EachBlock(ctx context.Context, f Filter) iter.Seq2[*Block, error]
	UpdateBlock(ctx context.Context, by audit.Actor, id string, u Update) (*Block, error)
	LiftBlock(ctx context.Context, by audit.Actor, id, reason string) (*Block, error)
	// ImportBlocks adds many in one transaction, in batches: all or nothing.
	// A pattern that is blocked already is left as it is under Fail, counted
	// as known, or handled as on says. progress, which may be nil, hears how
	// many rows are done.
	ImportBlocks(ctx context.Context, by audit.Actor, all iter.Seq2[Block, error], on Conflict, progress func(done int)) (ImportResult, error)

	AddExemption(ctx context.Context, by audit.Actor, e Exemption, on Conflict) (Added[*Exemption], error)
	FindExemptionByID(ctx context.Context, id string) (*Exemption, error)
	FindExemptions(ctx context.Context, f Filter) (Page[*Exemption], error)
	EachExemption(ctx context.Context, f Filter) iter.Seq2[*Exemption, error]
	UpdateExemption(ctx context.Context, by audit.Actor, id string, u Update) (*Exemption, error)
	RemoveExemption(ctx context.Context, by audit.Actor, id, reason string) (*Exemption, error)
}

// ImportResult counts what an import did.
type ImportResult struct {
	Created  int
	Extended int
	Replaced int
	Known    int // left as they were
}
