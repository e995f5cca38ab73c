// Package profiles stores the profiles of keys.
package profiles

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

const (
	// Fields are the columns that Scan reads.
	Fields = `key, plan, labels, note, limit_rules, limit_reason, limit_author, limit_created_at, limit_expires_at, updated_at, updated_by, revision`

	findProfile = `SELECT ` + Fields + ` FROM profiles WHERE key = $1`
	intoProfile = `INSERT INTO profiles (` + Fields + `, deleted_at) `
	onConflict  = ` ON CONFLICT (key) DO UPDATE SET plan = excluded.plan, labels = excluded.labels, note = excluded.note,
	limit_rules = excluded.limit_rules, limit_reason = excluded.limit_reason, limit_author = excluded.limit_author,
	limit_created_at = excluded.limit_created_at, limit_expires_at = excluded.limit_expires_at,
	updated_at = excluded.updated_at, updated_by = excluded.updated_by, revision = excluded.revision, deleted_at = excluded.deleted_at`

	loadActive = `SELECT ` + Fields + ` FROM profiles WHERE plan <> '' OR limit_rules <> ''`
	loadSince  = `SELECT ` + Fields + ` FROM profiles WHERE revision > $1`
)

var (
	rowTypes = []string{
		db.TextColumn, db.TextColumn, db.TextColumn, db.TextColumn, db.TextColumn, db.TextColumn, db.TextColumn, db.IntColumn, db.IntColumn,
		db.Parameter(2, db.IntColumn), db.Parameter(3, db.TextColumn), db.Parameter(4, db.IntColumn), db.IntColumn,
	}
	putProfiles  = intoProfile + db.BulkSelect(rowTypes) + onConflict
	findMany     = db.Asked([]string{db.TextColumn}, "key") + `SELECT ` + Fields + ` FROM profiles WHERE key IN (SELECT key FROM asked)`
	deleteLabels = db.Asked([]string{db.TextColumn}, "key") + `DELETE FROM profile_labels WHERE key IN (SELECT key FROM asked)`
	insertLabels = `INSERT INTO profile_labels (label, key) ` + db.BulkSelect([]string{db.TextColumn, db.TextColumn}) + ` ON CONFLICT (label, key) DO NOTHING`
)

// Scan reads a row of Fields.
func Scan(r db.Row) (*profiles.Profile, error) {
	p := &profiles.Profile{}
	var labels, stack, reason, author string
	var created, expires, updated int64
	if err := r.Scan(&p.Key, &p.Plan, &labels, &p.Note, &stack, &reason, &author, &created, &expires, &updated, &p.UpdatedBy, &p.Revision); err != nil {
		return nil, err
	}
	p.Labels, p.Updated = strings.Fields(labels), db.FromMS(updated)
	if stack == "" {
		return p, nil
	}
	parsed, err := rules.ParseStack(strings.Fields(stack))
	if err != nil {
		return nil, fmt.Errorf("the limit of the key %s: %w", db.Quote(p.Key), err)
	}
	p.Limit = &profiles.Limit{Rules: parsed, Reason: reason, Author: author, Created: db.FromMS(created), Expires: db.ExpiryFromMS(expires)}
	return p, nil
}

// Tx is a transaction on the profiles.
type Tx struct{ *db.Tx }

// In returns t for use with the profiles.
func In(t *db.Tx) Tx { return Tx{t} }

// Changes iterates over the profiles that changed since a revision, deleted ones included. For
// 0 it iterates over all profiles with a plan or a limit. It runs no query if count is 0.
func (t Tx) Changes(since, count int64) iter.Seq2[*profiles.Profile, error] {
	if count == 0 {
		return nil
	}
	if since == 0 {
		return db.Rows(t.Tx, Scan, loadActive)
	}
	return db.Rows(t.Tx, Scan, loadSince, since)
}

// find returns the row of a key, nil if there never was one. A deleted profile has only its
// revision.
func (t Tx) find(key string) (*profiles.Profile, error) {
	all, err := db.Each(t.Tx, Scan, findProfile, key)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

// row returns p as a row for putProfiles.
func (t Tx) row(p *profiles.Profile) []any {
	var stack, reason, author string
	var created, expires, deleted int64
	if l := p.Limit; l != nil {
		stack, reason, author = strings.Join(l.Rules.Strings(), " "), l.Reason, l.Author
		created, expires = db.ToMS(l.Created), db.ExpiryToMS(l.Expires)
	}
	if p.IsZero() {
		deleted = db.ToMS(t.Now)
	}
	return []any{p.Key, p.Plan, strings.Join(p.Labels, " "), p.Note, stack, reason, author, created, expires, deleted}
}

// write stores profiles of different keys. The number of statements does not depend on the
// number of profiles.
func (t Tx) write(all ...*profiles.Profile) error {
	rows, asked, labels := make([][]any, len(all)), make([][]any, len(all)), [][]any(nil)
	for i, p := range all {
		rows[i], asked[i] = t.row(p), []any{p.Key}
		for _, label := range p.Labels {
			labels = append(labels, []any{label, p.Key})
		}
		p.Updated, p.UpdatedBy, p.Revision = t.Now, t.By.Name, t.Revision
	}
	if err := t.ExecOf(putProfiles, rows, db.ToMS(t.Now), t.By.Name, t.Revision); err != nil {
		return err
	}
	if err := t.ExecOf(deleteLabels, asked); err != nil {
		return err
	}
	return t.ExecOf(insertLabels, labels)
}

// snapshot is the form of a profile in the audit log.
type snapshot struct {
	Key    string         `json:"key"`
	Plan   string         `json:"plan"`
	Labels []string       `json:"labels"`
	Note   string         `json:"note"`
	Limit  *limitSnapshot `json:"limit"`
}

type limitSnapshot struct {
	Rules   []string  `json:"rules"`
	Reason  string    `json:"reason"`
	Author  string    `json:"author"`
	Created time.Time `json:"created_at"`
	Expires time.Time `json:"expires_at"` // zero: until it is ended
}

// snapshotOf returns the audit log's form of p, nil if p is empty.
func snapshotOf(p *profiles.Profile) any {
	if p == nil || p.IsZero() {
		return nil
	}
	s := snapshot{Key: p.Key, Plan: p.Plan, Labels: slices.Clone(p.Labels), Note: p.Note}
	if l := p.Limit; l != nil {
		s.Limit = &limitSnapshot{l.Rules.Strings(), l.Reason, l.Author, l.Created, l.Expires}
	}
	return s
}

// profile converts a snapshot back to a profile.
func (s *snapshot) profile() (*profiles.Profile, error) {
	p := &profiles.Profile{Key: s.Key, Plan: s.Plan, Labels: s.Labels, Note: s.Note}
	if s.Limit == nil {
		return p, nil
	}
	stack, err := rules.ParseStack(s.Limit.Rules)
	if err != nil {
		return nil, err
	}
	p.Limit = &profiles.Limit{Rules: stack, Reason: s.Limit.Reason, Author: s.Limit.Author, Created: s.Limit.Created, Expires: s.Limit.Expires}
	return p, nil
}
