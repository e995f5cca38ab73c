package audit

import (
	"context"
	"iter"
	"time"
)

// Filter selects records. Zero fields select all.
type Filter struct {
	From, To time.Time // From inclusive, To exclusive
	Actor    string    // the actor's name
	Action   string    // an action, or the part before the dot
	Object   string
	ObjectID string
	Search   string // in summary and object id, without case
	Cursor   string
	Limit    int // 1 to 1000, 0 means 100
}

// Page is one page of records, the newest first.
type Page struct {
	Records []*Record
	Next    string
}

// Store reads the record of changes. Nothing in Stint changes or removes a
// record but retention; VerifyAudit finds where anything else did. Records are
// written by the stores that make the changes, in the same transaction.
type Store interface {
	Verifier
	FindRecords(ctx context.Context, f Filter) (Page, error)
	FindRecordByID(ctx context.Context, id int64) (*Record, error)
	EachRecord(ctx context.Context, f Filter) iter.Seq2[*Record, error]
}
