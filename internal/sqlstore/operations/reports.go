package operations

import (
	"context"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/reports"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

var _ reports.Store = (*Reports)(nil)

// Reports implements reports.Store.
type Reports struct{ db *db.DB }

// NewReports returns the store of the reports in a database.
func NewReports(d *db.DB) *Reports { return &Reports{d} }

const (
	putDocument = `
INSERT INTO documents (id, kind, start, ends, created_at, body) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (kind, start) DO UPDATE SET ends = excluded.ends, created_at = excluded.created_at, body = excluded.body`
	findDocumentID    = `SELECT id FROM documents WHERE kind = $1 AND start = $2`
	findDocuments     = `SELECT body FROM documents WHERE `
	countBlockChanges = `
SELECT (SELECT count(*) FROM entries WHERE kind = 'block' AND created_at >= $1 AND created_at < $2),
    (SELECT count(*) FROM entries WHERE kind = 'block' AND created_at >= $1 AND created_at < $2 AND source = 'automatic'),
    (SELECT count(*) FROM entries WHERE kind = 'block' AND ended_at > 0 AND ended_at >= $1 AND ended_at < $2 AND +expires_at >= $1),
    (SELECT count(*) FROM entries WHERE kind = 'block' AND ended_at = 0 AND expires_at >= $1 AND expires_at < $2)`
)

// PutDocument implements reports.Store. It sets the id of d. A document that replaces another
// keeps its id, since there may be links to it.
func (s *Reports) PutDocument(ctx context.Context, d *reports.Document) error {
	return s.db.Write(ctx, func(t *db.Tx) error {
		found, err := t.One(findDocumentID, []any{string(d.Kind), db.ToMS(d.From)}, &d.ID)
		if err == nil && !found {
			d.ID, err = db.NewID()
		}
		if err != nil {
			return err
		}
		body, err := json.Marshal(d, json.FormatNilSliceAsNull(false))
		if err != nil {
			return err
		}
		_, err = t.Exec(putDocument, d.ID, string(d.Kind), db.ToMS(d.From), db.ToMS(d.To), db.ToMS(d.Created), string(body))
		return err
	})
}

func scanDocument(r db.Row) (*reports.Document, error) {
	var body string
	if err := r.Scan(&body); err != nil {
		return nil, err
	}
	d := &reports.Document{}
	return d, json.Unmarshal([]byte(body), d)
}

// FindDocuments implements reports.Store.
func (s *Reports) FindDocuments(ctx context.Context, kind reports.Kind, cursor string, limit int) (page []*reports.Document, next string, err error) {
	if limit, err = paging.Limit(limit); err != nil {
		return nil, "", err
	}
	q := &db.Selection{}
	if kind != "" {
		q.And("kind = ?", string(kind))
	}
	if cursor != "" {
		last, err := paging.ParseCursor(cursor, 2)
		if err != nil {
			return nil, "", err
		}
		start, err := strconv.ParseInt(last[0], 36, 64)
		if err != nil || db.CheckText("cursor", last[1]) != nil {
			return nil, "", fault.Field("cursor", paging.BadCursor)
		}
		q.And("(start < ? OR start = ? AND kind > ?)", start, start, last[1])
	}
	err = s.db.View(ctx, func(t *db.Tx) error {
		all, err := db.Each(t, scanDocument, findDocuments+q.String()+" ORDER BY start DESC, kind LIMIT "+strconv.Itoa(limit+1), q.Args...)
		page, next = db.CutPage(all, limit, func(d *reports.Document) string {
			return paging.Cursor(strconv.FormatInt(db.ToMS(d.From), 36), string(d.Kind))
		})
		return err
	})
	return page, next, err
}

// FindDocumentByID implements reports.Store.
func (s *Reports) FindDocumentByID(ctx context.Context, id string) (*reports.Document, error) {
	none := fault.New(fault.NotFound, "There is no report with the id %q.", id)
	if db.CheckText("id", id) != nil {
		return nil, none
	}
	return db.Read(ctx, s.db, func(t *db.Tx) (*reports.Document, error) {
		return db.Find(t, none, scanDocument, findDocuments+"id = $1", id)
	})
}

// CountBlockChanges implements reports.Store.
func (s *Reports) CountBlockChanges(ctx context.Context, from, to time.Time) (b reports.Blocks, err error) {
	err = s.db.View(ctx, func(t *db.Tx) error {
		_, err := t.One(countBlockChanges, []any{db.ToMS(from), db.ToMS(to)}, &b.Made, &b.Automatic, &b.Ended, &b.Expired)
		return err
	})
	return b, err
}
