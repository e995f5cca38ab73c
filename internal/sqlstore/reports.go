package sqlstore

import (
	"context"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/reports"
)

var _ reports.Store = (*Store)(nil)

const (
	putDocument = `
INSERT INTO documents (id, kind, start, ends, created_at, body) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (kind, start) DO UPDATE SET id = excluded.id, ends = excluded.ends, created_at = excluded.created_at, body = excluded.body`
	findDocuments     = `SELECT body FROM documents WHERE `
	countBlockChanges = `
SELECT COALESCE(sum(CASE WHEN created_at >= $1 AND created_at < $2 THEN 1 ELSE 0 END), 0),
    COALESCE(sum(CASE WHEN created_at >= $1 AND created_at < $2 AND source = 'automatic' THEN 1 ELSE 0 END), 0),
    COALESCE(sum(CASE WHEN ended_at >= $1 AND ended_at < $2 THEN 1 ELSE 0 END), 0),
    COALESCE(sum(CASE WHEN ended_at = 0 AND expires_at >= $1 AND expires_at < $2 THEN 1 ELSE 0 END), 0)
FROM entries WHERE kind = 'block' AND created_at < $2 AND expires_at >= $1`
)

// PutDocument implements reports.Store. It gives d its id.
func (s *operationStore) PutDocument(ctx context.Context, d *reports.Document) (err error) {
	if d.ID, err = newID(); err != nil {
		return err
	}
	body, err := json.Marshal(d, json.FormatNilSliceAsNull(false))
	if err != nil {
		return err
	}
	return s.write(ctx, func(t *tx) error {
		_, err := t.exec(putDocument, d.ID, string(d.Kind), toMS(d.From), toMS(d.To), toMS(d.Created), string(body))
		return err
	})
}

func scanDocument(r row) (*reports.Document, error) {
	var body string
	if err := r.Scan(&body); err != nil {
		return nil, err
	}
	d := &reports.Document{}
	return d, json.Unmarshal([]byte(body), d)
}

// FindDocuments implements reports.Store.
func (s *operationStore) FindDocuments(ctx context.Context, kind reports.Kind, limit int) (all []*reports.Document, err error) {
	if limit, err = pageLimit(limit); err != nil {
		return nil, err
	}
	q := &selection{}
	if kind != "" {
		q.and("kind = ?", string(kind))
	}
	err = s.view(ctx, func(t *tx) error {
		all, err = each(t, scanDocument, findDocuments+q.String()+" ORDER BY start DESC, kind LIMIT "+strconv.Itoa(limit), q.args...)
		return err
	})
	return all, err
}

// FindDocumentByID implements reports.Store.
func (s *operationStore) FindDocumentByID(ctx context.Context, id string) (*reports.Document, error) {
	none := fault.New(fault.NotFound, "There is no report with the id %q.", id)
	if checkText("id", id) != nil {
		return nil, none
	}
	var all []*reports.Document
	err := s.view(ctx, func(t *tx) (err error) {
		all, err = each(t, scanDocument, findDocuments+"id = $1", id)
		return err
	})
	if err == nil && len(all) == 0 {
		err = none
	}
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// CountBlockChanges implements reports.Store.
func (s *operationStore) CountBlockChanges(ctx context.Context, from, to time.Time) (b reports.Blocks, err error) {
	err = s.view(ctx, func(t *tx) error {
		_, err := t.one(countBlockChanges, []any{toMS(from), toMS(to)}, &b.Made, &b.Automatic, &b.Lifted, &b.Expired)
		return err
	})
	return b, err
}

// NewOffenders implements reports.Store.
func (s *offenceStore) NewOffenders(ctx context.Context, since, from, to time.Time, limit int) (all []offences.Ranked, n int64, err error) {
	err = s.read(ctx, from, to, 0, func(t *tx, span offences.Span, segments []segment) error {
		n = 0
		c := &conditions{}
		c.and("kind < ? AND key <> ?", int64(offences.Shadow), "")
		q := &selection{}
		text := "WITH counted AS (SELECT key, CAST(sum(offences) AS BIGINT) AS n, min(first_at) AS f, max(last_at) AS l FROM (" +
			q.union("key, offences, first_at, last_at", "offences", segments, c.text, c.args...) + ") AS rows_of_it GROUP BY key), " +
			"fresh AS (SELECT key, n, f, l FROM counted WHERE NOT EXISTS (SELECT 1 FROM offences AS earlier WHERE earlier.key = counted.key AND " +
			q.fill("earlier.span IN (1, 2, 3) AND earlier.start >= ? AND earlier.start < ? AND earlier.kind < ?", toMS(since), span.From.UnixMilli(), int64(offences.Shadow)) +
			")) SELECT key, n, f, l, (SELECT count(*) FROM fresh) FROM fresh ORDER BY n DESC, key LIMIT " + strconv.Itoa(max(1, limit))
		all, err = each(t, func(r row) (k offences.Ranked, err error) {
			var first, last int64
			err = r.Scan(&k.Key, &k.Offences, &first, &last, &n)
			k.First, k.Last = fromMS(first), fromMS(last)
			return k, err
		}, text, q.args...)
		return err
	})
	return all, n, err
}
