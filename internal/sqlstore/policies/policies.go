// Package policies stores policies with all their versions, each as its document.
package policies

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

var _ rules.Store = (*Store)(nil)

// Store implements rules.Store.
type Store struct{ db *db.DB }

// New returns the store of the policies in a database.
func New(d *db.DB) *Store { return &Store{d} }

// Tx is a transaction that reads and changes policies.
type Tx struct{ *db.Tx }

func In(t *db.Tx) Tx { return Tx{t} }

const (
	PolicyColumns = `
SELECT p.id, v.version, v.generation, v.document, v.author, p.created_at, v.created_at, v.replaced_at, v.revision
FROM policies p JOIN policy_versions v ON v.policy_id = p.id `

	readPolicies     = PolicyColumns + `WHERE p.deleted_at = 0 AND v.version = p.version ORDER BY p.name`
	readPolicyByName = PolicyColumns + `WHERE p.deleted_at = 0 AND v.version = p.version AND p.name = $1`
	// readReplaced reads the versions whose limits may still apply to a log.
	readReplaced = PolicyColumns + `WHERE p.deleted_at = 0 AND v.replaced_at > $1`
	// readVersions reads the newest policy of a name, deleted or not.
	readVersions = PolicyColumns + `
WHERE p.id = (SELECT max(id) FROM policies WHERE name = $1) ORDER BY v.version DESC`

	addPolicy  = `INSERT INTO policies (name, version, created_at, revision) VALUES ($1, 1, $2, $3) RETURNING id`
	addVersion = `
INSERT INTO policy_versions (policy_id, version, generation, document, author, created_at, revision)
VALUES ($1, $2, $3, $4, $5, $6, $7)`
	movePolicy     = `UPDATE policies SET version = $2, revision = $3 WHERE id = $1`
	deletePolicy   = `UPDATE policies SET deleted_at = $2, revision = $3 WHERE id = $1`
	replaceVersion = `UPDATE policy_versions SET replaced_at = $3 WHERE policy_id = $1 AND version = $2`
)

// Stored is one version of a policy as its row holds it.
type Stored struct {
	*rules.Policy
	replaced time.Time // zero: not replaced
}

func Scan(r db.Row) (*Stored, error) {
	p := &Stored{Policy: &rules.Policy{}}
	var document string
	err := r.Scan(&p.ID, &p.Version, &p.Generation, &document, &p.UpdatedBy, db.MS(&p.Created), db.MS(&p.Updated), db.MS(&p.replaced), &p.Revision)
	if err != nil {
		return nil, err
	}
	if err := p.parse(document); err != nil {
		return nil, err
	}
	p.Retention = rules.Retention{}.Cover(p.Rules)
	return p, nil
}

// retain extends the retention of a policy for a version that was replaced recently: its log
// could still refuse.
func (p *Stored) retain(old *Stored, now time.Time) {
	if old.ID != p.ID {
		return
	}
	age := now.Sub(old.replaced)
	if age < old.Rules.LongestWindow() {
		p.Retention = p.Retention.Cover(old.Rules)
	}
	p.Also = p.Also.Retain(old.Also, age)
}

// Policies returns the policies that exist, by name, with their retention.
func (t Tx) Policies() ([]*Stored, error) {
	all, err := db.Each(t.Tx, Scan, readPolicies)
	if err != nil {
		return nil, err
	}
	replaced, err := db.Each(t.Tx, Scan, readReplaced, db.ToMS(t.Now.Add(-rules.MaxWindow)))
	if err != nil {
		return nil, err
	}
	byID := make(map[int64]*Stored, len(all))
	for _, p := range all {
		byID[p.ID] = p
	}
	for _, old := range replaced {
		if p := byID[old.ID]; p != nil {
			p.retain(old, t.Now)
		}
	}
	return all, nil
}

func PlainPolicies(all []*Stored) []*rules.Policy {
	plain := make([]*rules.Policy, len(all))
	for i, p := range all {
		plain[i] = p.Policy
	}
	return plain
}

// Policies implements rules.Store.
func (s *Store) Policies(ctx context.Context) (all []*rules.Policy, err error) {
	err = s.db.View(ctx, func(t *db.Tx) error {
		stored, err := In(t).Policies()
		all = PlainPolicies(stored)
		return err
	})
	return all, err
}

// FindPolicyByName implements rules.Store.
func (s *Store) FindPolicyByName(ctx context.Context, name string) (*rules.Policy, error) {
	var found *Stored
	err := s.db.View(ctx, func(t *db.Tx) error {
		all, err := In(t).Policies()
		if err != nil {
			return err
		}
		if found = named(all, name); found == nil {
			return In(t).noPolicy(name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found.Policy, nil
}

// readLastDeletion reads when the newest policy of a name was deleted, and the record of that if it is kept.
const readLastDeletion = `
SELECT p.deleted_at, coalesce(a.id, 0), coalesce(a.actor_name, '') FROM policies p LEFT JOIN audit a
ON a.object = 'policy' AND a.object_id = p.name AND a.action = 'policy.delete' AND a.revision = p.revision
WHERE p.id = (SELECT max(id) FROM policies WHERE name = $1) AND p.deleted_at > 0`

// noPolicy returns the error that there is no policy of a name. It says how one that was deleted comes back.
func (t Tx) noPolicy(name string) error {
	e := fault.New(fault.NotFound, "There is no policy named %q.", db.Clip(name))
	if db.CheckText("name", name) != nil {
		return e
	}
	var at, record int64
	var by string
	deleted, err := t.One(readLastDeletion, []any{name}, &at, &record, &by)
	switch {
	case err != nil:
		return err
	case !deleted:
	case record == 0:
		e.Message = fmt.Sprintf("There is no policy named %q: it was deleted on %s. A rollback to one of its versions creates it again.", name, db.FromMS(at).Format(time.RFC3339))
	default:
		e.Message = fmt.Sprintf("There is no policy named %q: %s deleted it on %s. Undoing entry %d of the audit brings it back.", name, by, db.FromMS(at).Format(time.RFC3339), record)
		e.Detail = map[string]any{"undo": record, "policy": name}
	}
	return e
}

// PolicyVersions implements rules.Store. The versions of a deleted policy stay readable until
// the name is used again.
func (s *Store) PolicyVersions(ctx context.Context, name string) (versions []*rules.Policy, err error) {
	err = s.db.View(ctx, func(t *db.Tx) error {
		if db.CheckText("name", name) != nil {
			return In(t).noPolicy(name)
		}
		stored, err := db.Each(t, Scan, readVersions, name)
		if versions = PlainPolicies(stored); err == nil && len(versions) == 0 {
			return In(t).noPolicy(name)
		}
		return err
	})
	return versions, err
}

// PutPolicy implements rules.Store.
func (s *Store) PutPolicy(ctx context.Context, by audit.Actor, p *rules.Policy, expect etag.Tag) (put *rules.Policy, err error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		all, err := In(t).Policies()
		if err != nil {
			return err
		}
		current := named(all, p.Name)
		if err := In(t).checkExpected(p.Name, current, expect); err != nil {
			return err
		}
		if err := checkPatterns(p, all); err != nil {
			return err
		}
		if current == nil {
			put, err = In(t).CreatePolicy(p)
			return err
		}
		put, err = In(t).replacePolicy(current, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	return put, nil
}

func (t Tx) checkExpected(name string, current *Stored, expect etag.Tag) error {
	now := etag.New
	if current != nil {
		now = rules.TagOf(current.Policy)
	} else if expect != etag.New && expect != etag.Any {
		return t.noPolicy(name)
	}
	return etag.Check(fmt.Sprintf("policy %q", db.Clip(name)), now, expect)
}

// checkPatterns refuses a pattern that another policy of the same role has. Policies that
// monitor have one role, all others the second. Policies with conditions or an outcome may
// share patterns; their number is limited.
func checkPatterns(p *rules.Policy, all []*Stored) error {
	if p.IsConditional() {
		return checkConditional(p, all)
	}
	owners := map[string]string{}
	for _, other := range all {
		if other.IsConditional() {
			continue
		}
		if other.Name == p.Name || (other.Mode == rules.Shadow) != (p.Mode == rules.Shadow) {
			continue
		}
		for _, m := range other.Match {
			owners[m.String()] = other.Name
		}
	}
	for i, m := range p.Match {
		if owner, taken := owners[m.String()]; taken {
			e := fault.New(fault.Conflict, "The pattern %[1]q belongs to the policy %[2]q; one pattern belongs to one policy. Change the rules of %[2]q, take the pattern out of it, "+
				"or give this policy a narrower pattern or a condition (when), by which it applies beside %[2]q.", m, owner)
			e.Field = "match[" + strconv.Itoa(i) + "]"
			e.Detail = map[string]any{"policy": owner}
			return e
		}
	}
	return nil
}

// checkConditional refuses a policy with which a check would need more logs than allowed.
func checkConditional(p *rules.Policy, all []*Stored) error {
	count := 0
	for _, other := range all {
		if other.Name != p.Name {
			count += other.Logs()
		}
	}
	if p.Logs() > 0 && count+p.Logs() > rules.MaxConditional {
		e := fault.New(fault.Conflict, "There are enforcing policies with conditions or an outcome, and further keys of policies, that need %d logs in one check; "+
			"the most is %d, and this policy needs %d more. Only traps, whose rule is 0/s, are not limited.", count, rules.MaxConditional, p.Logs())
		switch e.Field = "when"; {
		case len(p.Also) > 0:
			e.Field = "also"
		case p.IsReported():
			e.Field = "outcome"
		}
		return e
	}
	return nil
}

func (t Tx) CreatePolicy(p *rules.Policy) (*rules.Policy, error) {
	return t.createPolicy(p, fmt.Sprintf("Created the policy %q.", p.Name))
}

func (t Tx) createPolicy(p *rules.Policy, summary string) (*rules.Policy, error) {
	made := *p
	made.Version, made.Generation = 1, 1
	made.Created, made.Updated, made.UpdatedBy, made.Revision = t.Now, t.Now, t.By.Name, t.Revision
	made.Retention = rules.Retention{}.Cover(made.Rules)
	if _, err := t.One(addPolicy, []any{p.Name, db.ToMS(t.Now), t.Revision}, &made.ID); err != nil {
		return nil, err
	}
	if err := t.addVersion(&made); err != nil {
		return nil, err
	}
	return &made, t.Record("policy.create", "policy", p.Name, summary, nil, made.Stored())
}

// replacePolicy creates the next version. If nothing differs, it returns the current version
// with errUnchanged.
func (t Tx) replacePolicy(current *Stored, p *rules.Policy) (*rules.Policy, error) {
	before, err := textOf(current.Policy) // not its row, which an earlier version may have written
	if err != nil {
		return nil, err
	}
	after, err := textOf(p)
	if err != nil {
		return nil, err
	}
	if before == after {
		return current.Policy, db.ErrUnchanged
	}
	return t.nextVersion(current, p, "policy.replace", "")
}

// nextVersion makes p the next version of a policy and records it as an action. The summary "" says
// what the version changes.
func (t Tx) nextVersion(current *Stored, p *rules.Policy, action, summary string) (*rules.Policy, error) {
	made := *p
	made.ID, made.Version, made.Generation = current.ID, current.Version+1, current.Generation
	if current.MovesGeneration(p) {
		// The generation must exceed every earlier one: a restore brings back the generation of
		// the backup, while the node keeps the logs of later generations.
		made.Generation = max(made.Generation+1, t.Revision)
	}
	made.Created, made.Updated, made.UpdatedBy, made.Revision = current.Created, t.Now, t.By.Name, t.Revision
	made.Retention, made.Also = current.Retention.Cover(made.Rules), made.Also.Retain(current.Also, 0)
	if _, err := t.Exec(replaceVersion, current.ID, current.Version, db.ToMS(t.Now)); err != nil {
		return nil, err
	}
	if err := t.addVersion(&made); err != nil {
		return nil, err
	}
	if _, err := t.Exec(movePolicy, made.ID, made.Version, t.Revision); err != nil {
		return nil, err
	}
	if summary == "" {
		summary = fmt.Sprintf("Changed the policy %q to version %d: %s.", p.Name, made.Version, whatChanged(current.Policy, &made))
	}
	return &made, t.Record(action, "policy", p.Name, summary, current.Stored(), made.Stored())
}

// maxChangesNamed bounds the changed fields in a summary.
const maxChangesNamed = 3

// whatChanged describes the fields in which two versions differ: "rules 1/1s to 2/1s".
func whatChanged(before, after *rules.Policy) string {
	var all []string
	changes := rules.Diff(before, after)
	for _, c := range changes[:min(len(changes), maxChangesNamed)] {
		values := func(texts []string) string {
			if text := strings.Join(texts, " "); text != "" {
				return text
			}
			return "none"
		}
		all = append(all, c.Field+" "+values(c.Before)+" to "+values(c.After))
	}
	if more := len(changes) - len(all); more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, ", ")
}

func (t Tx) addVersion(p *rules.Policy) error {
	text, err := textOf(p)
	if err != nil {
		return err
	}
	_, err = t.Exec(addVersion, p.ID, p.Version, p.Generation, text, p.UpdatedBy, db.ToMS(p.Updated), p.Revision)
	return err
}

// DeletePolicy implements rules.Store.
func (s *Store) DeletePolicy(ctx context.Context, by audit.Actor, name string, expect etag.Tag) error {
	return s.db.Change(ctx, by, func(t *db.Tx) error {
		if db.CheckText("name", name) != nil {
			return In(t).noPolicy(name)
		}
		stored, err := db.Each(t, Scan, readPolicyByName, name)
		if err != nil {
			return err
		}
		if len(stored) == 0 {
			return In(t).noPolicy(name)
		}
		p := stored[0]
		if err := In(t).checkExpected(name, p, expect); err != nil {
			return err
		}
		return In(t).deletePolicy(p)
	})
}

func (t Tx) deletePolicy(p *Stored) error {
	if _, err := t.Exec(deletePolicy, p.ID, db.ToMS(t.Now), t.Revision); err != nil {
		return err
	}
	return t.Record("policy.delete", "policy", p.Name, fmt.Sprintf("Deleted the policy %q.", p.Name), p.Stored(), nil)
}
