package entries

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// endImported ends the entries of a kind that one import created and nobody has changed since.
const endImported = `
UPDATE entries SET ended_at = $2, ended_by = $3, place = id, revision = $4
WHERE revision = $1 AND kind = $5 AND place = scope AND ended_at = 0 AND expires_at > $2`

// Undo undoes a change of a block or exemption, or an import of them.
func (t Tx) Undo(e *audit.Record, action string) error {
	if action == "import" {
		return t.undoImport(e)
	}
	if action == "end_import" { // the record names no entry
		return db.NotUndoable(e)
	}
	kind := blocks.Kind(e.Object)
	now, err := t.find(kind, e.ObjectID)
	if err != nil {
		return err
	}
	if now.Revision != e.Revision {
		return db.ChangedSince(e)
	}
	switch action {
	case "add", "restore":
		_, err = t.end(kind, now.ID, "")
	case "extend", "update":
		err = t.undoUpdate(e, now)
	case "replace":
		err = t.undoReplace(e, now)
	case "end":
		_, err = t.restore(kind, now.ID)
	default:
		err = db.NotUndoable(e)
	}
	return err
}

// undoUpdate restores the former texts and shares of an entry, with their reasons and expiries.
func (t Tx) undoUpdate(e *audit.Record, now *blocks.Entry) error {
	former, snapshot, err := formerEntry(e)
	if err != nil {
		return err
	}
	if !now.ActiveAt(t.Now) {
		return notActive(now)
	}
	all := snapshot.sharesIn(t.Now)
	if len(all) == 0 {
		return expiredSince(former)
	}
	was, err := t.sharesOf(now)
	if err != nil {
		return err
	}
	restored := *now
	restored.Apply(former.Patch())
	after, err := t.hold(&restored, was, all)
	if err != nil {
		return err
	}
	return t.noteShares("update", "Changed", "", now, after, was, all)
}

// undoReplace ends an entry and restores the one that it replaced. It writes a single record of
// a replacement, so that undoing that record does both again.
func (t Tx) undoReplace(e *audit.Record, now *blocks.Entry) error {
	replaced, _, err := formerEntry(e)
	if err != nil {
		return err
	}
	former, err := t.find(replaced.Kind, replaced.ID)
	if err != nil {
		return err
	}
	if !now.ActiveAt(t.Now) {
		return notActive(now)
	}
	if former.ExpiredAt(t.Now) {
		return expiredSince(former)
	}
	if _, err := t.Exec(endEntry, now.ID, db.ToMS(t.Now), t.By.Name, t.Revision); err != nil {
		return err
	}
	after := *former
	after.End, after.Revision = nil, t.Revision
	if _, err := t.Exec(restoreEntry, after.ID, after.Revision); err != nil {
		return err
	}
	was, err := t.sharesOf(now)
	if err != nil {
		return err
	}
	all, err := t.sharesOf(former)
	if err != nil {
		return err
	}
	return t.noteShares("replace", "Restored", "", now, &after, was, all)
}

// formerEntry returns what a record says of an entry before its change.
func formerEntry(e *audit.Record) (*blocks.Entry, *entrySnapshot, error) {
	was := &entrySnapshot{}
	if err := json.Unmarshal(e.Before, was); err != nil {
		return nil, nil, fmt.Errorf("audit entry %d: %w", e.ID, err)
	}
	former, err := was.Entry()
	if err == nil && former.Pattern.IsZero() {
		err = fmt.Errorf("the pattern %q cannot be read", was.Pattern)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("audit entry %d: %w", e.ID, err)
	}
	return former, was, nil
}

// importCounts is the form of an import in the audit log.
type importCounts struct {
	Created   int `json:"created"`
	Extended  int `json:"extended"`
	Replaced  int `json:"replaced"`
	Unchanged int `json:"unchanged"`
}

// undoImport ends the entries that an import created. An import that extended or replaced some
// cannot be undone, since their former expiries are not stored.
func (t Tx) undoImport(e *audit.Record) error {
	var did importCounts
	if err := json.Unmarshal(e.After, &did); err != nil {
		return fmt.Errorf("audit entry %d: %w", e.ID, err)
	}
	if did.Extended+did.Replaced > 0 {
		return fault.New(fault.Conflict, "The import of entry %d extended or replaced %d %ss, whose former expiry is not kept; it cannot be undone.",
			e.ID, did.Extended+did.Replaced, e.Object)
	}
	ended, err := t.Exec(endImported, e.Revision, db.ToMS(t.Now), t.By.Name, t.Revision, e.Object)
	if err != nil {
		return err
	}
	if ended == 0 {
		return db.ErrUnchanged
	}
	summary := fmt.Sprintf("Ended %s of the %s of an import.", phrase.Number(ended), phrase.Count(did.Created, e.Object))
	return t.Record(e.Object+".end_import", e.Object, strconv.FormatInt(t.Revision, 10), summary, did, struct {
		Ended int64 `json:"ended"`
	}{ended})
}
