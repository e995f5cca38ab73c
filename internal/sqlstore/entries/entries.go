// Package entries stores blocks and exemptions: single ones, imports of a million, the sources that
// hold them, and what bouncers are sent of their changes.
package entries

import (
	"fmt"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

const (
	EntryFields = `id, kind, pattern, reason, author, source, policy_id, level, created_at, expires_at, revision, scope, action, ended_at, ended_by`

	intoEntries = `INSERT INTO entries (id, kind, pattern, low, high, reason, author, source, policy_id, level, created_at, expires_at, revision, scope, action, place, source_name, source_ref) `

	findEntry   = `SELECT ` + EntryFields + ` FROM entries WHERE id = $1`
	findHolder  = `SELECT ` + EntryFields + ` FROM entries WHERE kind = $1 AND pattern = $2 AND place = $3`
	insertEntry = intoEntries + `VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`
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
	row  keptEntry
	into []any // the fields of row in the order of EntryFields: made for each row, it would be a third of the garbage of a node that starts

	reason, author, scope string // of the previous row
}

func (s *EntryScanner) Scan(r db.Row) (*blocks.Entry, error) {
	if k := &s.row; s.into == nil {
		s.into = []any{&k.ID, &k.Kind, &k.Pattern, &k.Reason, &k.Author, &k.Source, &k.PolicyID, &k.Level,
			&k.Created, &k.Expires, &k.Revision, &k.Scope, &k.Action, &k.Ended, &k.EndedBy}
	}
	if err := r.Scan(s.into...); err != nil {
		return nil, err
	}
	return s.entry(&s.row)
}

func (s *EntryScanner) entry(k *keptEntry) (*blocks.Entry, error) {
	kind, err := kindOf(k.Kind)
	if err != nil {
		return nil, fmt.Errorf("row %s: %w", k.ID, err)
	}
	// A stored pattern is canonical: its meaning does not depend on settings. A pattern that
	// only earlier versions accepted can still be listed and ended.
	pattern, err := (keys.Parser{}).Pattern(k.Pattern)
	if err != nil {
		pattern = keys.Unreadable(k.Pattern)
	}
	s.reason, s.author, s.scope = share(k.Reason, s.reason), share(k.Author, s.author), share(k.Scope, s.scope)
	return &blocks.Entry{
		ID: k.ID, Kind: kind, Pattern: pattern, Scope: s.scope, Action: actionOf(k.Action), Reason: s.reason, Author: s.author, Source: sourceOf(k.Source),
		PolicyID: k.PolicyID, Level: int(k.Level), Created: blocks.Moment(k.Created), Expires: db.ExpiryFromMS(k.Expires),
		End: blocks.EndingOf(db.FromMS(k.Ended), k.EndedBy), Revision: k.Revision,
	}, nil
}

func kindOf(text string) (blocks.Kind, error) {
	for _, kind := range blocks.Kinds {
		if text == string(kind) {
			return kind, nil
		}
	}
	return "", fmt.Errorf("%q is not a kind of entry", db.Clip(text))
}

// actionOf returns the action of a row. One that this version does not know is of a later one, and
// refuses.
func actionOf(text string) blocks.Action {
	if text == string(blocks.Challenge) {
		return blocks.Challenge
	}
	return blocks.Refuse
}

// sourceOf returns the constant of a source, so that rows do not keep copies.
func sourceOf(text string) blocks.Source {
	for _, source := range [...]blocks.Source{blocks.Manual, blocks.Automatic, blocks.Imported, blocks.Listed} {
		if text == string(source) {
			return source
		}
	}
	return blocks.Source(strings.Clone(text))
}

func share(text, known string) string {
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
	if e.Scope != "" && e.Kind != blocks.Block {
		return fault.Field("scope", "is possible for blocks only")
	}
	if e.Scope != "" && !e.HasListScope() && conditions.CheckScope(e.Scope) != nil {
		return fault.Field("scope", "%s", conditions.CheckScope(e.Scope))
	}
	if err := blocks.CheckAction(e.Kind, e.Action); err != nil {
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

func (t Tx) insert(e *blocks.Entry) error {
	low, high := db.NetworkBounds(e.Pattern)
	from := storedHolder(e)
	_, err := t.Exec(insertEntry, e.ID, string(e.Kind), e.Pattern.String(), low, high, e.Reason, e.Author, string(e.Source), e.PolicyID, e.Level,
		int64(e.Created), db.ExpiryToMS(e.Expires), e.Revision, e.Scope, string(e.Action), e.Scope, from.Name, from.Ref)
	return err
}

// notActive returns the error that an entry has ended or expired.
func notActive(e *blocks.Entry) error {
	if e.End == nil {
		return fault.New(fault.Conflict, "The %s expired at %s.", e.Kind, e.Expires.Format(time.RFC3339))
	}
	return fault.New(fault.Conflict, "The %s was ended at %s by %q.", e.Kind, e.End.At.Format(time.RFC3339), e.End.By)
}

// entrySnapshot is the form of an entry in the audit log.
type entrySnapshot struct {
	ID       string    `json:"id"`
	Kind     string    `json:"kind"`
	Pattern  string    `json:"pattern"`
	Scope    string    `json:"scope,omitzero"` // omitted: every check
	Action   string    `json:"action,omitzero"`
	Reason   string    `json:"reason"`
	Author   string    `json:"author"`
	Source   string    `json:"source"`
	PolicyID int64     `json:"policy_id,omitzero"`
	Level    int       `json:"level,omitzero"`
	Created  time.Time `json:"created_at"`
	Expires  time.Time `json:"expires_at,omitzero"` // omitted: permanent
	Ended    time.Time `json:"ended_at,omitzero"`
	EndedBy  string    `json:"ended_by,omitzero"`
	// Sources are omitted if the author is the only one.
	Sources []shareSnapshot `json:"sources,omitempty"`
}

// snapshotOf returns the audit log's form of e without its sources.
func snapshotOf(e *blocks.Entry) entrySnapshot {
	return entrySnapshot{e.ID, string(e.Kind), e.Pattern.String(), e.Scope, string(e.Action), e.Reason, e.Author, string(e.Source), e.PolicyID, e.Level,
		e.Created.Time(), e.Expires, e.Ended(), e.EndedBy(), nil}
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
