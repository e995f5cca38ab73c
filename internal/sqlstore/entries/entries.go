// Package entries stores blocks and exemptions: single ones, imports of a million, the sources that
// hold them, and what bouncers are sent of their changes.
package entries

import (
	"fmt"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/wire"
)

// newColumns are the further columns of a new row: the bounds of its network, its place, and who
// holds it.
const newColumns = `low, high, place, source_name, source_ref`

var insertEntries = `INSERT INTO entries (` + EntryFields + `, ` + newColumns + `) ` +
	db.BulkSelect(append(slices.Clone(entryColumns.types), db.BytesColumn, db.BytesColumn, db.TextColumn, db.TextColumn, db.TextColumn))

// newRow returns a row of insertEntries.
func newRow(e *blocks.Entry) []any {
	row := e.Row()
	low, high := db.NetworkBounds(e.Pattern)
	from := storedHolder(e)
	return append(entryColumns.appendValues(nil, &row), low, high, e.Scope, from.Name, from.Ref)
}

var (
	findEntry  = `SELECT ` + EntryFields + ` FROM entries WHERE id = $1`
	findHolder = `SELECT ` + EntryFields + ` FROM entries WHERE kind = $1 AND pattern = $2 AND place = $3`
	// An expired row releases its pattern. Nodes need not be informed, so the revision stays.
	giveUp = `UPDATE entries SET place = id WHERE kind = $1 AND pattern = $2 AND place = $4 AND expires_at <= $3`
	// The conditions are repeated for an entry that another transaction has just changed.
	giveUpAll = `
UPDATE entries SET place = id WHERE place = scope AND expires_at <= $1 AND id IN (
    SELECT id FROM entries WHERE kind IN ('block', 'exemption') AND place = scope AND expires_at <= $1 LIMIT $2)`

	endEntry     = `UPDATE entries SET ended_at = $2, ended_by = $3, place = id, revision = $4 WHERE id = $1`
	restoreEntry = `UPDATE entries SET ended_at = 0, ended_by = '', place = scope, revision = $2 WHERE id = $1`
)

// EntryScanner reads rows of entries. It keeps one copy of a text that consecutive rows share,
// such as the reason and author of an import.
type EntryScanner struct {
	row  blocks.Row
	into []any // the fields of row: made for each row, it would be a third of the garbage of a node that starts

	reason, author string // of the previous row, as terms
	terms          wire.EntryTerms
}

func (s *EntryScanner) Scan(r db.Row) (*blocks.Entry, error) {
	if s.into == nil {
		s.into = entryColumns.appendPointers(nil, &s.row)
	}
	if err := r.Scan(s.into...); err != nil {
		return nil, err
	}
	return s.entry(&s.row)
}

func (s *EntryScanner) entry(r *blocks.Row) (*blocks.Entry, error) {
	s.reason, s.author, s.terms = share(r.Reason, s.reason), share(r.Author, s.author), share(r.EntryTerms, s.terms)
	r.Reason, r.Author, r.EntryTerms = s.reason, s.author, s.terms
	return r.Entry()
}

func share[T comparable](text, known T) T {
	if text == known {
		return known
	}
	return text
}

// Tx is a transaction that reads and changes entries.
type Tx struct{ *db.Tx }

func In(t *db.Tx) Tx { return Tx{t} }

func (t Tx) findOne(query string, args ...any) (*blocks.Entry, error) {
	all, err := db.Each(t.Tx, new(EntryScanner).Scan, query, args...)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

// find returns the entry of a kind with an id. The error is NotFound if there is none.
func (t Tx) find(kind blocks.Kind, id string) (*blocks.Entry, error) {
	none := fault.New(fault.NotFound, "There is no %s with the id %q.", kind, id)
	if db.CheckText("id", id) != nil {
		return nil, none
	}
	e, err := t.findOne(findEntry, id)
	if err != nil {
		return nil, err
	}
	if e == nil || e.Kind != kind {
		return nil, none
	}
	return e, nil
}

// holder returns the active entry of a kind, pattern and scope, nil if there is none.
func (t Tx) holder(kind blocks.Kind, p keys.Pattern, scope string) (*blocks.Entry, error) {
	e, err := t.findOne(findHolder, string(kind), p.String(), scope)
	if err != nil || e == nil || e.ActiveAt(t.Now) {
		return e, err
	}
	_, err = t.Exec(giveUp, string(kind), p.String(), db.ToMS(t.Now), scope)
	return nil, err
}

// checkEntry returns an error if an entry cannot become active.
func checkEntry(e *blocks.Entry, now time.Time) error {
	if e.Kind != blocks.Block && e.Kind != blocks.Exemption {
		return fault.Field("kind", "must be block or exemption")
	}
	if e.Pattern.IsZero() {
		return fault.Field("pattern", "is missing")
	}
	terms := e.EntryTerms
	if e.HasListScope() {
		terms.Scope = ""
	}
	if err := blocks.CheckTerms(e.Kind, terms); err != nil {
		return err
	}
	if e.ExpiredAt(now) {
		return fault.Field("expires_at", "must be in the future")
	}
	if err := db.CheckText("reason", e.Reason); err != nil {
		return err
	}
	return db.CheckText("author", e.Author)
}

func (t Tx) insert(e *blocks.Entry) error { return t.ExecOf(insertEntries, [][]any{newRow(e)}) }

// notActive returns the error that an entry has ended or expired.
func notActive(e *blocks.Entry) error {
	if e.End == nil {
		return fault.New(fault.Conflict, "The %s expired at %s.", e.Kind, e.Expires.Format(time.RFC3339))
	}
	return fault.New(fault.Conflict, "The %s was ended at %s by %q.", e.Kind, e.End.At.Format(time.RFC3339), e.End.By)
}

// entrySnapshot is the form of an entry in the audit log.
type entrySnapshot struct {
	blocks.Row
	// Sources are omitted if the author is the only one.
	Sources []blocks.Share `json:"sources,omitempty"`
}

// snapshotOf returns the audit log's form of e without its sources.
func snapshotOf(e *blocks.Entry) entrySnapshot {
	row := e.Row()
	row.Revision = 0 // the record has that of the change
	return entrySnapshot{Row: row}
}

// note records a change of an entry that its new state has one share.
func (t Tx) note(action, past, reason string, before, after *blocks.Entry) error {
	return t.noteShares(action, past, reason, before, after, nil, []blocks.Share{after.ShareOf()})
}

// noteShares records a change of an entry and of its shares; past is the verb that begins the
// summary, and before is nil for a new entry.
func (t Tx) noteShares(action, past, reason string, before, after *blocks.Entry, was, is []blocks.Share) error {
	kind := string(after.Kind)
	summary := fmt.Sprintf("%s the %s of %q", past, kind, after.Pattern)
	if after.Action == blocks.Challenge {
		summary = fmt.Sprintf("%s the challenge of %q", past, after.Pattern)
	}
	if after.ScopeOfChecks() != "" {
		summary += " in the scope " + after.Scope
	}
	if reason != "" {
		summary += fmt.Sprintf(": %q", reason)
	}
	var former any
	if before != nil {
		former = snapshotWith(before, was)
	}
	return t.Record(kind+"."+action, kind, after.ID, summary+".", former, snapshotWith(after, is))
}
