package sqlstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/offenders"
)

const (
	findLadders      = `SELECT ` + ladderColumns + ` FROM ladders WHERE `
	findLadderCounts = `SELECT policy_id, key, start, offences FROM ladder_counts WHERE `
	findEvents       = `SELECT id, at, policy_id, policy, key, kind, step, offences, length, block_id, detail FROM ladder_events WHERE `
	findStops        = `SELECT policy_id, policy, stopped_at, would_block, allowed, seen, detail FROM ladder_stops WHERE stopped_at > resumed_at`
	resumeStop       = `UPDATE ladder_stops SET resumed_at = $2 WHERE policy_id = $1 AND stopped_at > resumed_at RETURNING policy`
	orderedByNewID   = ` ORDER BY id DESC LIMIT `
)

// LadderStates implements offenders.Store.
func (s *Store) LadderStates(ctx context.Context, page []string) (all []offenders.LadderState, err error) {
	if len(page) == 0 {
		return nil, nil
	}
	err = s.view(ctx, func(t *tx) error {
		c := &conditions{}
		c.keyIn(page)
		q := &selection{}
		all, err = each(t, scanLadder, findLadders+q.fill("1 = 1"+c.text, c.args...), q.args...)
		return err
	})
	return all, err
}

// LadderCounts implements offenders.Store.
func (s *Store) LadderCounts(ctx context.Context, page []string, from int64) (all []offenders.LadderCount, err error) {
	if len(page) == 0 {
		return nil, nil
	}
	err = s.view(ctx, func(t *tx) error {
		c := &conditions{}
		c.keyIn(page)
		q := &selection{}
		all, err = each(t, func(r row) (c offenders.LadderCount, err error) {
			return c, r.Scan(&c.Policy, &c.Key, &c.Minute, &c.Offences)
		}, findLadderCounts+q.fill("start >= ?"+c.text, append([]any{from}, c.args...)...), q.args...)
		return err
	})
	return all, err
}

// LadderEvents implements offenders.Store.
func (s *Store) LadderEvents(ctx context.Context, f offenders.LadderFilter) (all []offenders.LadderEvent, err error) {
	limit, err := pageLimit(f.Limit)
	if err != nil {
		return nil, err
	}
	q := &selection{}
	if !f.From.IsZero() {
		q.and("at >= ?", toMS(f.From))
	}
	if !f.To.IsZero() {
		q.and("at < ?", toMS(f.To))
	}
	if f.Policy != 0 {
		q.and("policy_id = ?", f.Policy)
	}
	if f.Key != "" {
		q.and("key = ?", f.Key)
	}
	err = s.view(ctx, func(t *tx) error {
		all, err = each(t, func(r row) (e offenders.LadderEvent, err error) {
			var at, length int64
			err = r.Scan(&e.ID, &at, &e.Policy, &e.Name, &e.Key, &e.Kind, &e.Step, &e.Offences, &length, &e.BlockID, &e.Detail)
			e.At, e.Length = fromMS(at), time.Duration(length)*time.Millisecond
			return e, err
		}, findEvents+q.String()+orderedByNewID+strconv.Itoa(limit), q.args...)
		return err
	})
	return all, err
}

// LadderStops implements offenders.Store.
func (s *Store) LadderStops(ctx context.Context) (all []offenders.LadderStop, err error) {
	err = s.view(ctx, func(t *tx) error {
		all, err = each(t, func(r row) (l offenders.LadderStop, err error) {
			var at int64
			err = r.Scan(&l.Policy, &l.Name, &at, &l.WouldBlock, &l.Allowed, &l.Seen, &l.Detail)
			l.At = fromMS(at)
			return l, err
		}, findStops)
		return err
	})
	return all, err
}

// ResumeLadder implements offenders.Store.
func (s *Store) ResumeLadder(ctx context.Context, by audit.Actor, policy int64) error {
	return s.change(ctx, by, func(t *tx) error {
		var name string
		stopped, err := t.one(resumeStop, []any{policy, toMS(t.now)}, &name)
		if err != nil {
			return err
		}
		if !stopped {
			return fault.New(fault.NotFound, "The ladder of this policy has not stopped.")
		}
		detail := fmt.Sprintf("Resumed the ladder of policy %s.", name)
		if err := t.record("ladder.resume", "policy", name, detail, nil, nil); err != nil {
			return err
		}
		id, err := newID()
		if err != nil {
			return err
		}
		return t.insertEvents(offenders.LadderEvent{ID: id, At: t.now, Policy: policy, Name: name, Kind: offenders.LadderResumed, Detail: detail})
	})
}
