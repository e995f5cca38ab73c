// Package operations has small stores that no consumer needs two of: audit, jobs, nodes, notes,
// outbox, reports and retention.
package operations

import (
	"context"
	"iter"
	"strconv"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

var (
	_ audit.Store    = (*Audit)(nil)
	_ audit.Recorder = (*Audit)(nil)
	_ audit.Verifier = (*Audit)(nil)
)

// Audit implements audit.Store, audit.Recorder and audit.Verifier.
type Audit struct{ leases }

// NewAudit returns the store of the audit records in a database.
func NewAudit(d *db.DB) *Audit { return &Audit{leases{d}} }

// recordSelection returns the conditions of f, including its cursor.
func (s *Audit) recordSelection(f audit.Filter) (*db.Selection, error) {
	for field, text := range map[string]string{
		"actor": f.Actor, "action": f.Action, "object": f.Object, "object_id": f.ObjectID, "search": f.Search,
	} {
		if err := db.CheckText(field, text); err != nil {
			return nil, err
		}
	}
	q := &db.Selection{}
	if !f.From.IsZero() {
		q.And("at >= ?", db.ToMS(f.From))
	}
	if !f.To.IsZero() {
		q.And("at < ?", db.ToMS(f.To))
	}
	if f.Actor != "" {
		q.And("actor_name = ?", f.Actor)
	}
	if f.Action != "" {
		q.And("(action = ? OR (action >= ? AND action < ?))", f.Action, f.Action+".", db.AfterPrefix(f.Action+"."))
	}
	if f.Object != "" {
		q.And("object = ?", f.Object)
	}
	if f.ObjectID != "" {
		q.And("object_id = ?", f.ObjectID)
	}
	if f.Search != "" {
		clause, args := s.db.Containing(f.Search, "summary", "object_id")
		q.And(clause, args...)
	}
	if f.Cursor != "" {
		id, err := strconv.ParseInt(f.Cursor, 36, 64)
		if err != nil || id < 1 {
			return nil, fault.Field("cursor", paging.BadCursor)
		}
		q.And("id < ?", id)
	}
	return q, nil
}

// newestRecords returns the query for the newest records of a selection.
func newestRecords(q *db.Selection, limit int) string {
	return db.RecordColumns + q.String() + " ORDER BY id DESC LIMIT " + strconv.Itoa(limit)
}

// FindRecords implements audit.Store.
func (s *Audit) FindRecords(ctx context.Context, f audit.Filter) (page audit.Page, err error) {
	limit, err := paging.Limit(f.Limit)
	if err != nil {
		return page, err
	}
	q, err := s.recordSelection(f)
	if err != nil {
		return page, err
	}
	err = s.db.View(ctx, func(t *db.Tx) error {
		page.Next = ""
		// Read one row more than the page has, to know whether another page follows.
		page.Records, err = db.Each(t, db.ScanRecord, newestRecords(q, limit+1), q.Args...)
		if len(page.Records) > limit {
			page.Records = page.Records[:limit]
			page.Next = strconv.FormatInt(page.Records[limit-1].ID, 36)
		}
		return err
	})
	return page, err
}

// FindRecordByID implements audit.Store.
func (s *Audit) FindRecordByID(ctx context.Context, id int64) (*audit.Record, error) {
	return db.Read(ctx, s.db, func(t *db.Tx) (*audit.Record, error) { return t.FindRecord(id) })
}

// EachRecord implements audit.Store. It reads page by page, so that a slow reader keeps no
// transaction open.
func (s *Audit) EachRecord(ctx context.Context, f audit.Filter) iter.Seq2[*audit.Record, error] {
	return func(yield func(*audit.Record, error) bool) {
		f.Limit = paging.MaxLimit
		for {
			page, err := s.FindRecords(ctx, f)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, e := range page.Records {
				if !yield(e, nil) {
					return
				}
			}
			if f.Cursor = page.Next; f.Cursor == "" {
				return
			}
		}
	}
}

// AddRecord implements audit.Recorder.
func (s *Audit) AddRecord(ctx context.Context, e audit.Record) error {
	return s.db.Change(ctx, e.Actor, func(t *db.Tx) error {
		return t.AddRecord(e)
	})
}

const (
	writtenUntil    = `SELECT audit FROM event_log`
	setWrittenUntil = `INSERT INTO event_log (id, audit) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET audit = excluded.audit`
)

// WrittenUntil implements eventlog.ChangeStore.
func (s *Audit) WrittenUntil(ctx context.Context) (id int64, known bool, err error) {
	err = s.db.View(ctx, func(t *db.Tx) error {
		known, err = t.One(writtenUntil, nil, &id)
		return err
	})
	return id, known, err
}

// SetWrittenUntil implements eventlog.ChangeStore.
func (s *Audit) SetWrittenUntil(ctx context.Context, id int64) error {
	return s.db.Run(ctx, setWrittenUntil, id)
}
