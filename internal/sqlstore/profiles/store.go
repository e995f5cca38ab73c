package profiles

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

var _ profiles.Store = (*Store)(nil)

// Store implements profiles.Store.
type Store struct{ db *db.DB }

// New returns the store of the profiles in a database.
func New(d *db.DB) *Store { return &Store{d} }

// FindProfile implements profiles.Store.
func (s *Store) FindProfile(ctx context.Context, key string) (p *profiles.Profile, err error) {
	err = s.db.View(ctx, func(t *db.Tx) error {
		p, err = In(t).find(key)
		return err
	})
	if err != nil || p == nil || p.IsZero() {
		return nil, err
	}
	return p, nil
}

// FindProfilesByKey implements profiles.Store.
func (s *Store) FindProfilesByKey(ctx context.Context, keys []string) (all []*profiles.Profile, err error) {
	err = s.db.View(ctx, func(t *db.Tx) error {
		all, err = In(t).findAll(keys)
		return err
	})
	return slices.DeleteFunc(all, (*profiles.Profile).IsZero), err
}

func (t Tx) findAll(keys []string) ([]*profiles.Profile, error) {
	asked := make([][]any, len(keys))
	for i, key := range keys {
		asked[i] = []any{key}
	}
	return db.EachOf(t.Tx, Scan, findMany, asked)
}

// change changes the profile of a key by next and records the change. next gets a copy of the
// profile, an empty one if the key had none. expect is the expected state.
func (s *Store) change(ctx context.Context, by audit.Actor, key string, expect etag.Tag, action, summary string, next func(t *db.Tx, p *profiles.Profile) error) (made *profiles.Profile, err error) {
	if err := db.CheckText("key", key); err != nil {
		return nil, err
	}
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		made, err = In(t).change(key, expect, action, summary, func(p *profiles.Profile) error { return next(t, p) })
		return err
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

func (t Tx) change(key string, expect etag.Tag, action, summary string, next func(p *profiles.Profile) error) (*profiles.Profile, error) {
	before, err := t.find(key)
	if err != nil {
		return nil, err
	}
	if err := etag.Check(fmt.Sprintf("profile of the key %q", key), profiles.TagOf(before), expect); err != nil {
		return nil, err
	}
	after := &profiles.Profile{Key: key}
	if before != nil {
		copied := *before
		after = &copied
	}
	if err := next(after); err != nil {
		return nil, err
	}
	if profiles.Same(before, after) {
		return after, db.ErrUnchanged
	}
	if before == nil || before.Plan != after.Plan {
		if err := t.checkPlan(after.Plan); err != nil {
			return nil, err
		}
	}
	if err := t.write(after); err != nil {
		return nil, err
	}
	return after, t.Record("profile."+action, "profile", key, summary, snapshotOf(before), snapshotOf(after))
}

const (
	findPlan       = `SELECT plan FROM profiles WHERE plan = $1 AND plan <> '' LIMIT 1`
	countDifferent = `SELECT count(DISTINCT plan) FROM profiles WHERE plan <> ''`
)

// checkPlan returns a fault if a new plan would exceed the maximum number of plans.
func (t Tx) checkPlan(plan string) error {
	if plan == "" {
		return nil
	}
	var known string
	if found, err := t.One(findPlan, []any{plan}, &known); err != nil || found {
		return err
	}
	count, err := t.countDifferentPlans()
	if err == nil && count >= profiles.MaxPlans {
		err = fault.Field("plan", "is a new plan, and keys have %d different ones already, of at most %d; use one of these", count, profiles.MaxPlans)
	}
	return err
}

func (t Tx) countDifferentPlans() (count int, err error) {
	_, err = t.One(countDifferent, nil, &count)
	return count, err
}

// PutProfile implements profiles.Store.
func (s *Store) PutProfile(ctx context.Context, by audit.Actor, p profiles.Profile, expect etag.Tag) (*profiles.Profile, error) {
	summary := fmt.Sprintf("Set the plan, labels and note of %q: %s.", p.Key, describe(&p))
	return s.change(ctx, by, p.Key, expect, "set", summary, func(_ *db.Tx, next *profiles.Profile) error {
		next.Plan, next.Labels, next.Note = p.Plan, p.Labels, p.Note
		return nil
	})
}

func describe(p *profiles.Profile) string {
	text := "no plan"
	if p.Plan != "" {
		text = "the plan " + p.Plan
	}
	if len(p.Labels) > 0 {
		text += ", labels " + strings.Join(p.Labels, " ")
	}
	if p.Note != "" {
		text += ", a note"
	}
	return text
}

// DeleteProfile implements profiles.Store.
func (s *Store) DeleteProfile(ctx context.Context, by audit.Actor, key string, expect etag.Tag) (before *profiles.Profile, err error) {
	_, err = s.change(ctx, by, key, expect, "delete", fmt.Sprintf("Deleted the plan, labels, note and limit of %q.", key), func(_ *db.Tx, next *profiles.Profile) error {
		if next.IsZero() {
			return fault.New(fault.NotFound, "The key %q has no plan, labels, note or limit.", key)
		}
		copied := *next
		before = &copied
		*next = profiles.Profile{Key: key}
		return nil
	})
	return before, err
}

// PutLimit implements profiles.Store.
func (s *Store) PutLimit(ctx context.Context, by audit.Actor, key string, l *profiles.Limit) (*profiles.Profile, error) {
	until := "until it is ended"
	if !l.Expires.IsZero() {
		until = "until " + l.Expires.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	summary := fmt.Sprintf("Gave %q a limit of its own, %s, %s: %s", key, l.Rules, until, l.Reason)
	return s.change(ctx, by, key, etag.Any, "limit", summary, func(t *db.Tx, next *profiles.Profile) error {
		made := &profiles.Limit{Rules: l.Rules, Reason: l.Reason, Author: by.Name, Created: t.Now, Expires: db.ExpiryFromMS(db.ExpiryToMS(l.Expires))}
		if next.Limit.Equal(made) {
			return nil
		}
		next.Limit = made
		return nil
	})
}

// EndLimit implements profiles.Store.
func (s *Store) EndLimit(ctx context.Context, by audit.Actor, key, reason string) (*profiles.Profile, error) {
	summary := fmt.Sprintf("Ended the own limit of %q.", key)
	if reason != "" {
		summary = fmt.Sprintf("Ended the own limit of %q: %s", key, reason)
	}
	return s.change(ctx, by, key, etag.Any, "end_limit", summary, func(t *db.Tx, next *profiles.Profile) error {
		if !next.Limit.ActiveAt(t.Now) {
			return fault.New(fault.NotFound, "The key %q has no limit of its own.", key)
		}
		next.Limit = nil
		return nil
	})
}

// FindProfiles implements profiles.Store.
func (s *Store) FindProfiles(ctx context.Context, f profiles.Filter) (page paging.Page[*profiles.Profile], err error) {
	limit, err := paging.Limit(f.Limit)
	if err != nil {
		return page, err
	}
	if f.At.IsZero() {
		f.At = s.db.LocalNow()
	}
	q := &db.Selection{}
	q.And("deleted_at = 0")
	if f.Plan != "" {
		q.And("plan = ? AND plan <> ''", f.Plan)
	}
	if f.Label != "" {
		q.And("key IN (SELECT key FROM profile_labels WHERE label = ?)", f.Label)
	}
	if f.Limited {
		q.And("limit_rules <> '' AND limit_expires_at > ?", db.ToMS(f.At))
	}
	for field, text := range map[string]string{"plan": f.Plan, "label": f.Label, "search": f.Search} {
		if err := db.CheckText(field, text); err != nil {
			return page, err
		}
	}
	if f.Search != "" {
		q.And("lower(key || '\n' || note) LIKE ? ESCAPE '\\'", db.LikeContaining(f.Search))
	}
	all, args := q.String(), slices.Clone(q.Args)
	if f.Cursor != "" {
		after, err := paging.ParseCursor(f.Cursor, 1)
		if err != nil {
			return page, err
		}
		if after[0] == "" || db.CheckText("cursor", after[0]) != nil {
			return page, fault.Field("cursor", paging.BadCursor)
		}
		q.And("key > ?", after[0])
	}
	err = s.db.View(ctx, func(t *db.Tx) error {
		found, err := db.Each(t, Scan, `SELECT `+Fields+` FROM profiles WHERE `+q.String()+` ORDER BY key LIMIT `+strconv.Itoa(limit+1), q.Args...)
		if err != nil {
			return err
		}
		page.Items, page.Next = db.CutPage(found, limit, func(last *profiles.Profile) string { return paging.Cursor(last.Key) })
		if !f.Uncounted {
			_, err = t.One(`SELECT count(*) FROM profiles WHERE `+all, args, &page.Total)
		}
		return err
	})
	return page, err
}

const countPlans = `
SELECT plan, count(*) FROM profiles WHERE plan <> '' GROUP BY plan ORDER BY count(*) DESC, plan LIMIT `

// CountPlans implements profiles.Store.
func (s *Store) CountPlans(ctx context.Context) ([]profiles.PlanCount, error) {
	return db.List(ctx, s.db, func(r db.Row) (c profiles.PlanCount, err error) {
		err = r.Scan(&c.Plan, &c.Keys)
		return c, err
	}, countPlans+strconv.Itoa(profiles.MaxPlans))
}
