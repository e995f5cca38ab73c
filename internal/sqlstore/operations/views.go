package operations

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// Views stores the saved views of the report of offenders.
type Views struct{ db *db.DB }

// NewViews returns the store of the saved views in a database.
func NewViews(d *db.DB) *Views { return &Views{d} }

const (
	viewColumns   = `id, name, query, author, created_at, updated_at, updated_by`
	readViews     = `SELECT ` + viewColumns + ` FROM saved_views `
	insertView    = `INSERT INTO saved_views (` + viewColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7)`
	updateView    = `UPDATE saved_views SET name = $2, query = $3, updated_at = $4, updated_by = $5 WHERE id = $1`
	deleteView    = `DELETE FROM saved_views WHERE id = $1`
	countViews    = `SELECT count(*) FROM saved_views`
	countSameName = `SELECT count(*) FROM saved_views WHERE name = $1 AND id <> $2`
)

func scanView(r db.Row) (v offences.SavedView, err error) {
	var created, updated int64
	err = r.Scan(&v.ID, &v.Name, &v.Query, &v.Author, &created, &updated, &v.UpdatedBy)
	v.Created, v.Updated = db.FromMS(created), db.FromMS(updated)
	return v, err
}

// viewSnapshot is the form of a saved view in the audit log.
type viewSnapshot struct {
	Name    string    `json:"name"`
	Query   string    `json:"query"`
	Author  string    `json:"author"`
	Created time.Time `json:"created_at"`
}

func viewSnapshotOf(v *offences.SavedView) viewSnapshot {
	return viewSnapshot{v.Name, v.Query, v.Author, v.Created}
}

// FindViews returns all saved views by name.
func (s *Views) FindViews(ctx context.Context) (all []offences.SavedView, err error) {
	err = s.db.View(ctx, func(t *db.Tx) error {
		all, err = db.Each(t, scanView, readViews+`ORDER BY name`)
		return err
	})
	return all, err
}

// FindView returns a saved view. The error is a *fault.Error if there is none.
func (s *Views) FindView(ctx context.Context, id string) (v offences.SavedView, err error) {
	err = s.db.View(ctx, func(t *db.Tx) error {
		v, err = findView(t, id)
		return err
	})
	return v, err
}

func findView(t *db.Tx, id string) (v offences.SavedView, err error) {
	none := fault.New(fault.NotFound, "There is no saved view with the id %q.", db.Clip(id))
	if db.CheckText("id", id) != nil {
		return v, none
	}
	all, err := db.Each(t, scanView, readViews+`WHERE id = $1`, id)
	if err != nil {
		return v, err
	}
	if len(all) == 0 {
		return v, none
	}
	return all[0], nil
}

// checkViewName returns an error if another view has the same name as v.
func checkViewName(t *db.Tx, v *offences.SavedView) error {
	var same int64
	if _, err := t.One(countSameName, []any{v.Name, v.ID}, &same); err != nil {
		return err
	}
	if same > 0 {
		return &fault.Error{Code: fault.Conflict, Field: "name", Message: "is the name of another view"}
	}
	return nil
}

// AddView stores a new view.
func (s *Views) AddView(ctx context.Context, by audit.Actor, name, query string) (v offences.SavedView, err error) {
	id, err := db.NewID()
	if err != nil {
		return v, err
	}
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		v = offences.SavedView{ID: id, Name: name, Query: query, Author: by.Name, Created: t.Now, Updated: t.Now, UpdatedBy: by.Name}
		if err := checkViewName(t, &v); err != nil {
			return err
		}
		var all int64
		if _, err := t.One(countViews, nil, &all); err != nil {
			return err
		}
		if all >= offences.MaxSavedViews {
			return fault.New(fault.Conflict, "There are %d saved views; no more are allowed. Delete one first.", all)
		}
		if _, err := t.Exec(insertView, v.ID, v.Name, v.Query, v.Author, db.ToMS(v.Created), db.ToMS(v.Updated), v.UpdatedBy); err != nil {
			return err
		}
		return t.Record("view.add", "view", v.ID, fmt.Sprintf("Saved the view %q of the offenders.", v.Name), nil, viewSnapshotOf(&v))
	})
	return v, err
}

// ChangeView changes the name or query of a view; nil keeps a value.
func (s *Views) ChangeView(ctx context.Context, by audit.Actor, id string, name, query *string) (v offences.SavedView, err error) {
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		if v, err = findView(t, id); err != nil {
			return err
		}
		before := v
		if name != nil {
			v.Name = *name
		}
		if query != nil {
			v.Query = *query
		}
		if v == before {
			return db.ErrUnchanged
		}
		if err := checkViewName(t, &v); err != nil {
			return err
		}
		v.Updated, v.UpdatedBy = t.Now, by.Name
		if _, err := t.Exec(updateView, id, v.Name, v.Query, db.ToMS(v.Updated), v.UpdatedBy); err != nil {
			return err
		}
		summary := fmt.Sprintf("Changed the view %q of the offenders.", v.Name)
		if v.Name != before.Name {
			summary = fmt.Sprintf("Renamed the view %q of the offenders to %q.", before.Name, v.Name)
		}
		return t.Record("view.update", "view", id, summary, viewSnapshotOf(&before), viewSnapshotOf(&v))
	})
	return v, err
}

// DeleteView deletes a saved view.
func (s *Views) DeleteView(ctx context.Context, by audit.Actor, id string) error {
	return s.db.Change(ctx, by, func(t *db.Tx) error {
		v, err := findView(t, id)
		if err != nil {
			return err
		}
		if _, err := t.Exec(deleteView, id); err != nil {
			return err
		}
		return t.Record("view.delete", "view", id, fmt.Sprintf("Deleted the view %q of the offenders.", v.Name), viewSnapshotOf(&v), nil)
	})
}
