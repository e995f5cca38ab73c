package offences

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

const (
	findEscalations      = `SELECT ` + escalationColumns + ` FROM escalations WHERE `
	findEscalationCounts = `SELECT policy_id, key, start, offences FROM escalation_counts WHERE `
	findEvents           = `SELECT id, at, policy_id, policy, key, kind, level, offences, length, block_id, detail FROM escalation_events WHERE `
	findStops            = `SELECT policy_id, policy, paused_at, would_block, allowed, seen, detail FROM escalation_pauses WHERE paused_at > resumed_at`
	resumeStop           = `UPDATE escalation_pauses SET resumed_at = $2 WHERE policy_id = $1 AND paused_at > resumed_at RETURNING policy`
	orderedByNewID       = ` ORDER BY id DESC LIMIT `
)

// EscalationStates implements admin.DetectionStore.
func (s *Store) EscalationStates(ctx context.Context, page []string) ([]offences.State, error) {
	if len(page) == 0 {
		return nil, nil
	}
	where, args := ofKeys(page, "1 = 1")
	return db.List(ctx, s.db, scanEscalation, findEscalations+where, args...)
}

// EscalationCounts implements admin.DetectionStore.
func (s *Store) EscalationCounts(ctx context.Context, page []string, from int64) ([]offences.EscalationCount, error) {
	if len(page) == 0 {
		return nil, nil
	}
	where, args := ofKeys(page, "start >= ?", from)
	return db.List(ctx, s.db, func(r db.Row) (c offences.EscalationCount, err error) {
		err = r.Scan(&c.Policy, &c.Key, &c.Minute, &c.Offences)
		return c, err
	}, findEscalationCounts+where, args...)
}

// ofKeys returns a condition for the rows of keys, with its arguments.
func ofKeys(keys []string, condition string, args ...any) (where string, all []any) {
	c := &conditions{}
	c.keyIn(keys)
	q := &db.Selection{}
	return q.Fill(condition+c.text, append(args, c.args...)...), q.Args
}

// EscalationEvents implements admin.DetectionStore.
func (s *Store) EscalationEvents(ctx context.Context, f offences.EscalationFilter) (page []offences.EscalationEvent, next string, err error) {
	limit, err := paging.Limit(f.Limit)
	if err != nil {
		return nil, "", err
	}
	q := &db.Selection{}
	if err := q.AfterID(f.Cursor); err != nil {
		return nil, "", err
	}
	if !f.From.IsZero() {
		q.And("at >= ?", db.ToMS(f.From))
	}
	if !f.To.IsZero() {
		q.And("at < ?", db.ToMS(f.To))
	}
	if f.Policy != 0 {
		q.And("policy_id = ?", f.Policy)
	}
	if f.Key != "" {
		q.And("key = ?", f.Key)
	}
	err = s.db.View(ctx, func(t *db.Tx) error {
		all, err := db.Each(t, func(r db.Row) (e offences.EscalationEvent, err error) {
			var length int64
			err = r.Scan(&e.ID, db.MS(&e.At), &e.Policy, &e.Name, &e.Key, &e.Kind, &e.Level, &e.Offences, &length, &e.BlockID, &e.Detail)
			e.Length = time.Duration(length) * time.Millisecond
			return e, err
		}, findEvents+q.String()+orderedByNewID+strconv.Itoa(limit+1), q.Args...)
		page, next = db.CutPage(all, limit, func(e offences.EscalationEvent) string { return paging.Cursor(e.ID) })
		return err
	})
	return page, next, err
}

// EscalationPauses implements admin.DetectionStore.
func (s *Store) EscalationPauses(ctx context.Context) ([]offences.EscalationPause, error) {
	return db.List(ctx, s.db, func(r db.Row) (l offences.EscalationPause, err error) {
		err = r.Scan(&l.Policy, &l.Name, db.MS(&l.At), &l.WouldBlock, &l.Allowed, &l.Seen, &l.Detail)
		return l, err
	}, findStops)
}

// ResumeEscalation implements admin.DetectionStore.
func (s *Store) ResumeEscalation(ctx context.Context, by audit.Actor, policy int64) error {
	return s.db.Change(ctx, by, func(t *db.Tx) error {
		var name string
		stopped, err := t.One(resumeStop, []any{policy, db.ToMS(t.Now)}, &name)
		if err != nil {
			return err
		}
		if !stopped {
			return fault.New(fault.NotFound, "The escalation of this policy is not paused.")
		}
		detail := fmt.Sprintf("Resumed the escalation of policy %s.", name)
		if err := t.Record("escalation.resume", "policy", name, detail, nil, nil); err != nil {
			return err
		}
		id, err := db.NewID()
		if err != nil {
			return err
		}
		return in(t).insertEvents(offences.EscalationEvent{ID: id, At: t.Now, Policy: policy, Name: name, Kind: offences.EscalationResumed, Detail: detail})
	})
}
