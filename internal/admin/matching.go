package admin

import (
	"context"
	"iter"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/wire"
)

// MaxMatching bounds the keys that can be blocked at once by a query.
const MaxMatching = 5000

// BlockMatching is a request to block every key that a query of offences selects.
type BlockMatching struct {
	Query offences.Query // its order, cursor and limit are ignored
	// Count is the number of matching keys that the operator has seen. If it has changed, the
	// error is a fault of the field count.
	Count int
	// Its pattern is ignored, and on a conflict it keeps (also for ""), extends or replaces.
	wire.AddEntry
}

// Matching returns the patterns of the keys that a query selects. The error is a fault if there
// are none, or more than MaxMatching.
func (e *Entries) Matching(ctx context.Context, q offences.Query) ([]keys.Pattern, error) {
	if e.Offences == nil {
		return nil, ErrNotCounted
	}
	q.Sort, q.Limit, q.Cursor = offences.ByKey, 1000, ""
	var all []keys.Pattern
	for {
		ranking, err := e.Offences.Rank(ctx, q)
		if err != nil {
			return nil, err
		}
		if ranking.Keys > MaxMatching {
			return nil, fault.New(fault.Invalid, "Nothing was changed: %d keys match, and at most %d are blocked at once. Narrow the filters.", ranking.Keys, MaxMatching)
		}
		for _, row := range ranking.Rows {
			k, err := offences.ParseKey(row.Key)
			if err != nil {
				continue // the settings have changed since it was counted
			}
			if p := keys.PatternOf(k); BroadReason(p) == "" {
				all = append(all, p)
			}
		}
		if q.Cursor = ranking.Next; q.Cursor == "" {
			break
		}
	}
	if len(all) == 0 {
		return nil, fault.New(fault.Invalid, "Nothing was changed: no key matches these filters.")
	}
	return all, nil
}

// BlockMatching blocks the matching keys, all or none, and records one change.
func (e *Entries) BlockMatching(ctx context.Context, c Caller, b BlockMatching) (blocks.ImportResult, error) {
	patterns, err := e.Matching(ctx, b.Query)
	if err != nil {
		return blocks.ImportResult{}, err
	}
	if len(patterns) != b.Count {
		return blocks.ImportResult{}, fault.Field("count", "Nothing was changed: %d keys match now. Check them again.", len(patterns))
	}
	if err := fault.CheckLine("reason", b.Reason, blocks.MaxReason); err != nil {
		return blocks.ImportResult{}, err
	}
	if err := blocks.CheckTerms(blocks.Block, b.EntryTerms); err != nil {
		return blocks.ImportResult{}, err
	}
	on := blocks.Conflict(b.OnConflict)
	if err := checkConflict(on, blocks.Keep, blocks.Extend, blocks.Replace); err != nil {
		return blocks.ImportResult{}, err
	}
	expires, err := ExpiryOf(b.ExpiresIn, b.ExpiresAt).At(e.Now())
	if err != nil {
		return blocks.ImportResult{}, err
	}
	like := blocks.Entry{Kind: blocks.Block, EntryTerms: b.EntryTerms, Reason: b.Reason, Author: c.Actor.Name, Source: blocks.Manual, Expires: expires}
	return e.Store.Import(ctx, c.Actor, entriesOf(patterns, like), on, nil)
}

// entriesOf returns entries that differ only in their patterns.
func entriesOf(patterns []keys.Pattern, like blocks.Entry) iter.Seq2[blocks.Entry, error] {
	return func(yield func(blocks.Entry, error) bool) {
		for _, p := range patterns {
			like.Pattern = p
			if !yield(like, nil) {
				return
			}
		}
	}
}
