package operations

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

const (
	silenceColumns = `id, channel, kind, reason, author, created_at, until_at`
	readSilences   = `SELECT ` + silenceColumns + ` FROM silences `
	insertSilence  = `INSERT INTO silences (` + silenceColumns + `, revision) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`
	deleteSilence  = `DELETE FROM silences WHERE id = $1`
	deleteOver     = `DELETE FROM silences WHERE until_at <= $1`
)

// MaxSilences is the maximum number of silences.
const MaxSilences = 100

func scanSilence(r db.Row) (s notify.Silence, err error) {
	err = r.Scan(&s.ID, &s.Channel, &s.Kind, &s.Reason, &s.Author, db.MS(&s.Created), db.MS(&s.Until))
	return s, err
}

// silenceSnapshot is the form of a silence in the audit log.
type silenceSnapshot struct {
	Channel string      `json:"channel"`
	Kind    notify.Kind `json:"kind"`
	Reason  string      `json:"reason"`
	Author  string      `json:"author"`
	Until   time.Time   `json:"until"`
}

func silenceSnapshotOf(s *notify.Silence) silenceSnapshot {
	return silenceSnapshot{s.Channel, s.Kind, s.Reason, s.Author, s.Until}
}

// FindSilences returns the active silences, the first to end first.
func (s *Channels) FindSilences(ctx context.Context) ([]notify.Silence, error) {
	return db.Read(ctx, s.db, silences)
}

func silences(t *db.Tx) ([]notify.Silence, error) {
	return db.Each(t, scanSilence, readSilences+`WHERE until_at > $1 ORDER BY until_at, id`, db.ToMS(t.Now))
}

// AddSilence stores a silence and gives it an id. check may refuse it and gets the active
// silences. AddSilence deletes the silences that have ended.
func (s *Channels) AddSilence(ctx context.Context, by audit.Actor, n notify.Silence, check func(active []notify.Silence) error) (notify.Silence, error) {
	id, err := db.NewID()
	if err != nil {
		return n, err
	}
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		if _, err := t.Exec(deleteOver, db.ToMS(t.Now)); err != nil {
			return err
		}
		active, err := silences(t)
		if err != nil {
			return err
		}
		if len(active) >= MaxSilences {
			return fault.New(fault.Conflict, "There are %d silences; no more are allowed.", len(active))
		}
		if err := check(active); err != nil {
			return err
		}
		n.ID, n.Author, n.Created = id, by.Name, t.Now
		if _, err := t.Exec(insertSilence, n.ID, n.Channel, string(n.Kind), n.Reason, n.Author, db.ToMS(n.Created), db.ToMS(n.Until), t.Revision); err != nil {
			return err
		}
		summary := "Silenced " + n.Subject() + " until " + n.Until.UTC().Format("2006-01-02 15:04") + " UTC."
		return changed(t, "silence.add", n.ID, summary, nil, silenceSnapshotOf(&n))
	})
	return n, err
}

// EndSilence ends a silence early. check may refuse that.
func (s *Channels) EndSilence(ctx context.Context, by audit.Actor, id string, check func(notify.Silence) error) (n notify.Silence, err error) {
	none := fault.New(fault.NotFound, "There is no silence with the id %q; it may be over.", db.Clip(id))
	if db.CheckText("id", id) != nil {
		return n, none
	}
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		if n, err = db.Find(t, none, scanSilence, readSilences+`WHERE id = $1 AND until_at > $2`, id, db.ToMS(t.Now)); err != nil {
			return err
		}
		if err := check(n); err != nil {
			return err
		}
		if _, err := t.Exec(deleteSilence, id); err != nil {
			return err
		}
		return changed(t, "silence.end", id, "Ended the silence of "+n.Subject()+".", silenceSnapshotOf(&n), nil)
	})
	return n, err
}
