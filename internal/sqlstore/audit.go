package sqlstore

import (
	"context"
	"fmt"
	"iter"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
)

var _ audit.Store = (*Store)(nil)

const insertEntries = `
INSERT INTO audit (at, actor_kind, actor_id, actor_name, actor_address, action, object, object_id, summary, before, after, revision) `

const addEntry = insertEntries + `
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) RETURNING id`

var (
	auditTypes = []string{parameter(2, intColumn), parameter(3, textColumn), parameter(4, textColumn), parameter(5, textColumn), parameter(6, textColumn),
		textColumn, textColumn, textColumn, textColumn, textColumn, textColumn, parameter(7, intColumn)}
	addManyEntries = insertEntries + bulkSelect(auditTypes) + ` RETURNING id, object_id`
)

// record writes the audit entry of a change into its transaction. before and
// after are snapshots that marshal to what an operator may read, never a
// secret or its hash; nil where the thing did not exist.
func (t *tx) record(action, object, objectID, summary string, before, after any) error {
	beforeJSON, err := snapshot(before)
	if err != nil {
		return err
	}
	afterJSON, err := snapshot(after)
	if err != nil {
		return err
	}
	if t.undoing != 0 {
		summary += fmt.Sprintf(" This undoes entry %d.", t.undoing)
	}
	return t.addEntry(audit.Record{
		Action: action, Object: object, ObjectID: objectID, Summary: summary, Before: []byte(beforeJSON), After: []byte(afterJSON),
	})
}

// addEntry writes e, whose actor, time and revision are the transaction's. The
// transaction adds it to the chain before it commits.
func (t *tx) addEntry(e audit.Record) error {
	stamp(t, &e)
	t.recorded = true
	if _, err := t.one(addEntry, []any{toMS(t.now), string(t.by.Kind), t.by.ID, t.by.Name, t.by.Address,
		e.Action, e.Object, e.ObjectID, e.Summary, string(e.Before), string(e.After), t.revision}, &e.ID); err != nil {
		return err
	}
	t.entries = append(t.entries, &e)
	return nil
}

// addEntries is addEntry for many with one statement. No two may share their
// ObjectID.
func addEntries(t *tx, all []*audit.Record) error {
	rows := make([][]any, len(all))
	byObject := make(map[string]*audit.Record, len(all))
	for i, e := range all {
		stamp(t, e)
		byObject[e.ObjectID] = e
		rows[i] = []any{e.Action, e.Object, e.ObjectID, e.Summary, string(e.Before), string(e.After)}
	}
	t.recorded = true
	_, err := eachOf(t, func(r row) (none struct{}, err error) {
		var id int64
		var object string
		if err := r.Scan(&id, &object); err != nil {
			return none, err
		}
		if e := byObject[object]; e != nil {
			e.ID = id
		}
		return none, nil
	}, addManyEntries, rows, toMS(t.now), string(t.by.Kind), t.by.ID, t.by.Name, t.by.Address, t.revision)
	t.entries = append(t.entries, all...)
	return err
}

func stamp(t *tx, e *audit.Record) {
	e.Actor, e.At, e.Revision = t.by, fromMS(toMS(t.now)), t.revision
}

func snapshot(v any) (string, error) {
	if v == nil {
		return "", nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("write a snapshot for the audit: %w", err)
	}
	return string(text), nil
}

const (
	entryColumns = `
SELECT id, at, actor_kind, actor_id, actor_name, actor_address, action, object, object_id, summary, before, after, revision
FROM audit WHERE `
)

func scanEntry(r row) (*audit.Record, error) {
	e := &audit.Record{}
	var at int64
	var before, after string
	if err := r.Scan(&e.ID, &at, &e.Actor.Kind, &e.Actor.ID, &e.Actor.Name, &e.Actor.Address,
		&e.Action, &e.Object, &e.ObjectID, &e.Summary, &before, &after, &e.Revision); err != nil {
		return nil, err
	}
	e.At = fromMS(at)
	if before != "" {
		e.Before = []byte(before)
	}
	if after != "" {
		e.After = []byte(after)
	}
	return e, nil
}

// entrySelection returns what f selects, its cursor included.
func entrySelection(f audit.Filter) (*selection, error) {
	for field, text := range map[string]string{
		"actor": f.Actor, "action": f.Action, "object": f.Object, "object_id": f.ObjectID, "search": f.Search,
	} {
		if err := checkText(field, text); err != nil {
			return nil, err
		}
	}
	q := &selection{}
	if !f.From.IsZero() {
		q.and("at >= ?", toMS(f.From))
	}
	if !f.To.IsZero() {
		q.and("at < ?", toMS(f.To))
	}
	if f.Actor != "" {
		q.and("actor_name = ?", f.Actor)
	}
	if f.Action != "" {
		q.and("(action = ? OR (action >= ? AND action < ?))", f.Action, f.Action+".", after(f.Action+"."))
	}
	if f.Object != "" {
		q.and("object = ?", f.Object)
	}
	if f.ObjectID != "" {
		q.and("object_id = ?", f.ObjectID)
	}
	if f.Search != "" {
		like := holding(f.Search)
		q.and(`(lower(summary) LIKE ? ESCAPE '\' OR lower(object_id) LIKE ? ESCAPE '\')`, like, like)
	}
	if f.Cursor != "" {
		id, err := strconv.ParseInt(f.Cursor, 36, 64)
		if err != nil || id < 1 {
			return nil, fault.Field("cursor", badCursor)
		}
		q.and("id < ?", id)
	}
	return q, nil
}

// FindRecords implements audit.Store.
func (s *auditStore) FindRecords(ctx context.Context, f audit.Filter) (page audit.Page, err error) {
	limit, err := pageLimit(f.Limit)
	if err != nil {
		return page, err
	}
	q, err := entrySelection(f)
	if err != nil {
		return page, err
	}
	err = s.view(ctx, func(t *tx) error {
		page.Next = ""
		// One more than the page tells whether there is another.
		page.Records, err = each(t, scanEntry, entryColumns+q.String()+" ORDER BY id DESC LIMIT "+strconv.Itoa(limit+1), q.args...)
		if len(page.Records) > limit {
			page.Records = page.Records[:limit]
			page.Next = strconv.FormatInt(page.Records[limit-1].ID, 36)
		}
		return err
	})
	return page, err
}

// FindRecordByID implements audit.Store.
func (s *auditStore) FindRecordByID(ctx context.Context, id int64) (e *audit.Record, err error) {
	err = s.view(ctx, func(t *tx) error {
		e, err = t.entry(id)
		return err
	})
	return e, err
}

func (t *tx) entry(id int64) (*audit.Record, error) {
	all, err := each(t, scanEntry, entryColumns+"id = $1", id)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fault.New(fault.NotFound, "There is no audit entry %d.", id)
	}
	return all[0], nil
}

// EachRecord implements audit.Store. It reads page by page, so that a slow
// reader holds no transaction open.
func (s *auditStore) EachRecord(ctx context.Context, f audit.Filter) iter.Seq2[*audit.Record, error] {
	return func(yield func(*audit.Record, error) bool) {
		f.Limit = largestLimit
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

var _ audit.Recorder = (*Store)(nil)

// AddRecord implements audit.Recorder.
func (s *auditStore) AddRecord(ctx context.Context, e audit.Record) error {
	return s.change(ctx, e.Actor, func(t *tx) error {
		return t.addEntry(e)
	})
}
