package profiles

import (
	"context"
	"iter"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/paging"
)

// Store keeps profiles. Each change is recorded in the audit. Errors that an operator can
// fix are *fault.Error: NotFound for a key of which nothing is kept, and those of etag.Check
// for another state than expect.
type Store interface {
	// FindProfile returns the profile of a key, nil if nothing is kept of it.
	FindProfile(ctx context.Context, key string) (*Profile, error)
	// FindProfilesByKey returns the profiles of those of the keys that have one.
	FindProfilesByKey(ctx context.Context, keys []string) ([]*Profile, error)
	// FindProfiles returns one page, by key.
	FindProfiles(ctx context.Context, f Filter) (paging.Page[*Profile], error)
	// PutProfile replaces the plan, the labels and the note of a key, and leaves its limit.
	PutProfile(ctx context.Context, by audit.Actor, p Profile, expect etag.Tag) (*Profile, error)
	// DeleteProfile deletes all that is kept of a key, its limit included.
	DeleteProfile(ctx context.Context, by audit.Actor, key string, expect etag.Tag) (*Profile, error)
	// PutLimit gives a key a limit of its own, in place of one that it has.
	PutLimit(ctx context.Context, by audit.Actor, key string, l *Limit) (*Profile, error)
	// EndLimit ends a key's own limit.
	EndLimit(ctx context.Context, by audit.Actor, key, reason string) (*Profile, error)
	// ImportProfiles replaces the plans, labels and notes of many keys, all or nothing.
	// The rows are normalized and have different keys.
	ImportProfiles(ctx context.Context, by audit.Actor, all iter.Seq2[*Profile, error]) (ImportResult, error)
	// CountPlans returns how many keys each plan has, the most first, at most MaxPlans.
	CountPlans(ctx context.Context) ([]PlanCount, error)
}

// Filter selects profiles. The zero value selects all.
type Filter struct {
	Plan, Label string // "" for any
	Search      string // part of the key or the note
	// Limited selects the keys with a limit of their own that holds at At.
	Limited bool
	At      time.Time // zero: now
	Limit   int       // of the page, 0 for the usual
	Cursor  string    // Next of the page before
	// Uncounted leaves the Total of the page at 0: counting all takes longer than reading a page.
	Uncounted bool
}

// ImportResult counts what an import did.
type ImportResult struct {
	Created, Replaced, Unchanged int
}

// Count counts a row that makes after of what was kept of its key, nil for nothing, and
// reports whether they are the same.
func (r *ImportResult) Count(before, after *Profile) (isSame bool) {
	switch {
	case Same(before, after):
		r.Unchanged++
		return true
	case before == nil || before.IsZero():
		r.Created++
	default:
		r.Replaced++
	}
	return false
}

// CheckPlanCount returns a fault where a file of keys makes more different plans than there
// may be.
func CheckPlanCount(before, after int) error {
	if after > MaxPlans && after > before {
		return fault.New(fault.Invalid, "With this file keys would have %d different plans; at most %d are allowed.", after, MaxPlans)
	}
	return nil
}

// PlanCount is how many keys have a plan.
type PlanCount struct {
	Plan string
	Keys int
}
