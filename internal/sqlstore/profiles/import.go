package profiles

import (
	"context"
	"fmt"
	"iter"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// importPiece is how many rows are written at once, by a constant number of statements.
const importPiece = 2000

// importCounts is the form of an import in the audit log.
type importCounts struct {
	Created   int `json:"created"`
	Replaced  int `json:"replaced"`
	Unchanged int `json:"unchanged"`
}

// ImportProfiles implements profiles.Store.
func (s *Store) ImportProfiles(ctx context.Context, by audit.Actor, all iter.Seq2[*profiles.Profile, error]) (result profiles.ImportResult, err error) {
	rows, err := db.WriteTempRows(ctx, importRows(all))
	if err != nil {
		return result, err
	}
	defer rows.Close()
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		run := &importRun{Tx: In(t)}
		before, err := run.countDifferentPlans()
		if err != nil {
			return err
		}
		if err := run.all(rows.All()); err != nil {
			return err
		}
		after, err := run.countDifferentPlans()
		if err == nil {
			err = profiles.CheckPlanCount(before, after)
		}
		if err != nil {
			return err
		}
		if result = run.result; result.Created+result.Replaced == 0 {
			return db.ErrUnchanged
		}
		summary := fmt.Sprintf("Imported plans, labels and notes of keys: %s created, %s replaced, %s unchanged.",
			phrase.Number(result.Created), phrase.Number(result.Replaced), phrase.Number(result.Unchanged))
		return t.Record("profile.import", "profile", strconv.FormatInt(t.Revision, 10), summary, nil, importCounts(result))
	})
	return result, err
}

// importRow is a row of an import in the temporary file.
type importRow struct {
	Key, Plan, Note string
	Labels          []string
}

func importRows(all iter.Seq2[*profiles.Profile, error]) iter.Seq2[importRow, error] {
	return func(yield func(importRow, error) bool) {
		for p, err := range all {
			var row importRow
			if err == nil {
				row = importRow{p.Key, p.Plan, p.Note, p.Labels}
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// importRun is one attempt at an import inside its transaction.
type importRun struct {
	Tx
	piece  []*profiles.Profile
	result profiles.ImportResult
}

func (r *importRun) all(rows iter.Seq2[*importRow, error]) error {
	for row, err := range rows {
		if err != nil {
			return err
		}
		r.piece = append(r.piece, &profiles.Profile{Key: row.Key, Plan: row.Plan, Labels: row.Labels, Note: row.Note})
		if len(r.piece) == importPiece {
			if err := r.flush(); err != nil {
				return err
			}
		}
	}
	return r.flush()
}

func (r *importRun) flush() error {
	if len(r.piece) == 0 {
		return nil
	}
	keys := make([]string, len(r.piece))
	for i, p := range r.piece {
		keys[i] = p.Key
	}
	known, err := r.findAll(keys)
	if err != nil {
		return err
	}
	before := make(map[string]*profiles.Profile, len(known))
	for _, p := range known {
		before[p.Key] = p
	}
	changed := r.piece[:0]
	for _, p := range r.piece {
		was := before[p.Key]
		if was != nil {
			p.Limit = was.Limit
		}
		if !r.result.Count(was, p) {
			changed = append(changed, p)
		}
	}
	if len(changed) > 0 {
		if err := r.write(changed...); err != nil {
			return err
		}
	}
	r.piece = r.piece[:0]
	return nil
}

// Undo undoes a change of a profile.
func (t Tx) Undo(e *audit.Record, action string) error {
	switch action {
	case "set", "delete", "limit", "end_limit", "restore":
	case "import":
		return t.undoImport(e)
	default:
		return db.NotUndoable(e)
	}
	now, err := t.find(e.ObjectID)
	if err != nil {
		return err
	}
	if now == nil || now.Revision != e.Revision {
		return db.ChangedSince(e)
	}
	former := &profiles.Profile{Key: e.ObjectID}
	if len(e.Before) > 0 {
		var was snapshot
		if err := json.Unmarshal(e.Before, &was); err != nil {
			return fmt.Errorf("audit entry %d: %w", e.ID, err)
		}
		if former, err = was.profile(); err != nil {
			return fmt.Errorf("audit entry %d: %w", e.ID, err)
		}
	}
	if former.Limit != nil && !former.Limit.ActiveAt(t.Now) && now.LimitAt(t.Now) == nil && action == "end_limit" {
		return fault.New(fault.Conflict, "The limit of %q has expired since; set a new one.", e.ObjectID)
	}
	_, err = t.change(e.ObjectID, etag.Any, "restore", fmt.Sprintf("Restored the plan, labels, note and limit of %q.", e.ObjectID), func(p *profiles.Profile) error {
		p.Plan, p.Labels, p.Note, p.Limit = former.Plan, former.Labels, former.Note, former.Limit
		return nil
	})
	return err
}

const (
	deleteImportedLabels = `DELETE FROM profile_labels WHERE key IN (SELECT key FROM profiles WHERE revision = $1)`
	deleteImported       = `
UPDATE profiles SET plan = '', labels = '', note = '', deleted_at = $2, updated_at = $2, updated_by = $3, revision = $4
WHERE revision = $1 AND deleted_at = 0`
)

// undoImport deletes the profiles that an import created and nobody has changed since. An
// import that replaced profiles cannot be undone, since the former profiles are not stored.
func (t Tx) undoImport(e *audit.Record) error {
	var did importCounts
	if err := json.Unmarshal(e.After, &did); err != nil {
		return fmt.Errorf("audit entry %d: %w", e.ID, err)
	}
	if did.Replaced > 0 {
		return fault.New(fault.Conflict, "The import of entry %d replaced the plans, labels and notes of %d keys, which are no longer known; it cannot be undone.", e.ID, did.Replaced)
	}
	if _, err := t.Exec(deleteImportedLabels, e.Revision); err != nil {
		return err
	}
	deleted, err := t.Exec(deleteImported, e.Revision, db.ToMS(t.Now), t.By.Name, t.Revision)
	if err != nil {
		return err
	}
	if deleted == 0 {
		return db.ErrUnchanged
	}
	return t.Record("profile.end_import", "profile", strconv.FormatInt(t.Revision, 10),
		fmt.Sprintf("Deleted the plans, labels and notes that an import set for %s of %s.", phrase.Number(deleted), phrase.Count(did.Created, "key")), did, nil)
}
