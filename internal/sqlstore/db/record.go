package db

import (
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
)

const intoAudit = `
INSERT INTO audit (at, actor_kind, actor_id, actor_name, actor_address, action, object, object_id, summary, before, after, revision) `

const insertRecord = intoAudit + `
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) RETURNING id`

var (
	auditTypes = []string{Parameter(2, IntColumn), Parameter(3, TextColumn), Parameter(4, TextColumn), Parameter(5, TextColumn), Parameter(6, TextColumn),
		TextColumn, TextColumn, TextColumn, TextColumn, TextColumn, TextColumn, Parameter(7, IntColumn)}
	insertManyRecords = intoAudit + BulkSelect(auditTypes) + ` RETURNING id, object_id`
)

// Record writes the audit record of a change in its transaction. before and after are snapshots
// that marshal to what an operator may read, never a secret or its hash; nil if the object did
// not exist.
func (t *Tx) Record(action, object, objectID, summary string, before, after any) error {
	beforeJSON, err := Snapshot(before)
	if err != nil {
		return err
	}
	afterJSON, err := Snapshot(after)
	if err != nil {
		return err
	}
	if t.Undoing != 0 {
		summary += fmt.Sprintf(" This undoes entry %d.", t.Undoing)
	}
	return t.AddRecord(audit.Record{
		Action: action, Object: object, ObjectID: objectID, Summary: summary, Before: []byte(beforeJSON), After: []byte(afterJSON),
	})
}

// NewestRecord returns the id of the last record that a transaction wrote, 0 for none.
func NewestRecord(t *Tx) int64 {
	if len(t.records) == 0 {
		return 0
	}
	return t.records[len(t.records)-1].ID
}

// AddRecord writes e with the actor, time and revision of the transaction. The transaction adds
// it to the chain before it commits.
func (t *Tx) AddRecord(e audit.Record) error {
	stamp(t, &e)
	t.recorded = true
	if _, err := t.One(insertRecord, []any{ToMS(t.Now), string(t.By.Kind), t.By.ID, t.By.Name, t.By.Address,
		e.Action, e.Object, e.ObjectID, e.Summary, string(e.Before), string(e.After), t.Revision}, &e.ID); err != nil {
		return err
	}
	t.records = append(t.records, &e)
	return nil
}

// AddRecords is AddRecord for several records, in one statement. Their ObjectIDs must differ.
func (t *Tx) AddRecords(all []*audit.Record) error {
	rows := make([][]any, len(all))
	byObject := make(map[string]*audit.Record, len(all))
	for i, e := range all {
		stamp(t, e)
		byObject[e.ObjectID] = e
		rows[i] = []any{e.Action, e.Object, e.ObjectID, e.Summary, string(e.Before), string(e.After)}
	}
	t.recorded = true
	_, err := EachOf(t, func(r Row) (none struct{}, err error) {
		var id int64
		var object string
		if err := r.Scan(&id, &object); err != nil {
			return none, err
		}
		if e := byObject[object]; e != nil {
			e.ID = id
		}
		return none, nil
	}, insertManyRecords, rows, ToMS(t.Now), string(t.By.Kind), t.By.ID, t.By.Name, t.By.Address, t.Revision)
	t.records = append(t.records, all...)
	return err
}

func stamp(t *Tx, e *audit.Record) {
	e.Actor, e.At, e.Revision = t.By, FromMS(ToMS(t.Now)), t.Revision
}

// Snapshot returns v as JSON for the audit log, "" for nil.
func Snapshot(v any) (string, error) {
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
	// RecordColumns selects the columns for ScanRecord; a condition follows.
	RecordColumns = `
SELECT id, at, actor_kind, actor_id, actor_name, actor_address, action, object, object_id, summary, before, after, revision
FROM audit WHERE `
)

// ScanRecord reads a row that RecordColumns selected.
func ScanRecord(r Row) (*audit.Record, error) {
	e := &audit.Record{}
	var before, after string
	if err := r.Scan(&e.ID, MS(&e.At), &e.Actor.Kind, &e.Actor.ID, &e.Actor.Name, &e.Actor.Address,
		&e.Action, &e.Object, &e.ObjectID, &e.Summary, &before, &after, &e.Revision); err != nil {
		return nil, err
	}
	if before != "" {
		e.Before = []byte(before)
	}
	if after != "" {
		e.After = []byte(after)
	}
	return e, nil
}

// FindRecord returns the audit record of an id. The error is NotFound if there is none.
func (t *Tx) FindRecord(id int64) (*audit.Record, error) {
	return Find(t, fault.New(fault.NotFound, "There is no audit record %d.", id), ScanRecord, RecordColumns+"id = $1", id)
}

// HasRecorded reports whether the transaction has written an audit record.
func (t *Tx) HasRecorded() bool { return t.recorded }
