package sqlstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/rules"
)

var _ rules.Store = (*Store)(nil)

const (
	policyColumns = `
SELECT p.id, v.version, v.generation, v.document, v.author, p.created_at, v.created_at, v.replaced_at, v.revision
FROM policies p JOIN policy_versions v ON v.policy_id = p.id `

	readPolicies     = policyColumns + `WHERE p.deleted_at = 0 AND v.version = p.version ORDER BY p.name`
	readPolicyByName = policyColumns + `WHERE p.deleted_at = 0 AND v.version = p.version AND p.name = $1`
	// readReplaced reads the versions that may still bind a log.
	readReplaced = policyColumns + `WHERE p.deleted_at = 0 AND v.replaced_at > $1`
	// readVersions reads the newest policy of a name, deleted or not.
	readVersions = policyColumns + `
WHERE p.id = (SELECT max(id) FROM policies WHERE name = $1) ORDER BY v.version DESC`

	addPolicy  = `INSERT INTO policies (name, version, created_at, revision) VALUES ($1, 1, $2, $3) RETURNING id`
	addVersion = `
INSERT INTO policy_versions (policy_id, version, generation, document, author, created_at, revision)
VALUES ($1, $2, $3, $4, $5, $6, $7)`
	movePolicy     = `UPDATE policies SET version = $2, revision = $3 WHERE id = $1`
	deletePolicy   = `UPDATE policies SET deleted_at = $2, revision = $3 WHERE id = $1`
	replaceVersion = `UPDATE policy_versions SET replaced_at = $3 WHERE policy_id = $1 AND version = $2`
)

// storedPolicy is one version of a policy as its row holds it.
type storedPolicy struct {
	*rules.Policy
	document string
	replaced time.Time // zero: not replaced
}

func scanPolicy(r row) (*storedPolicy, error) {
	p := &storedPolicy{Policy: &rules.Policy{}}
	var created, updated, replaced int64
	err := r.Scan(&p.ID, &p.Version, &p.Generation, &p.document, &p.UpdatedBy, &created, &updated, &replaced, &p.Revision)
	if err != nil {
		return nil, err
	}
	p.Created, p.Updated, p.replaced = fromMS(created), fromMS(updated), fromMS(replaced)
	if err := p.parse(p.document); err != nil {
		return nil, err
	}
	p.Retention = rules.Retention{}.Cover(p.Rules)
	return p, nil
}

// retain widens the retention of a policy by a version replaced so lately that
// the log of then could still refuse.
func (p *storedPolicy) retain(old *storedPolicy, now time.Time) {
	if old.ID == p.ID && now.Sub(old.replaced) < old.Rules.LongestWindow() {
		p.Retention = p.Retention.Cover(old.Rules)
	}
}

// policies returns those that exist, by name, with their retention.
func (t policyTx) policies() ([]*storedPolicy, error) {
	all, err := each(t.tx, scanPolicy, readPolicies)
	if err != nil {
		return nil, err
	}
	replaced, err := each(t.tx, scanPolicy, readReplaced, toMS(t.now.Add(-rules.MaxWindow)))
	if err != nil {
		return nil, err
	}
	byID := make(map[int64]*storedPolicy, len(all))
	for _, p := range all {
		byID[p.ID] = p
	}
	for _, old := range replaced {
		if p := byID[old.ID]; p != nil {
			p.retain(old, t.now)
		}
	}
	return all, nil
}

func plainPolicies(all []*storedPolicy) []*rules.Policy {
	plain := make([]*rules.Policy, len(all))
	for i, p := range all {
		plain[i] = p.Policy
	}
	return plain
}

// Policies implements rules.Store.
func (s *policyStore) Policies(ctx context.Context) (all []*rules.Policy, err error) {
	err = s.view(ctx, func(t *tx) error {
		stored, err := policiesIn(t).policies()
		all = plainPolicies(stored)
		return err
	})
	return all, err
}

// FindPolicyByName implements rules.Store.
func (s *policyStore) FindPolicyByName(ctx context.Context, name string) (*rules.Policy, error) {
	all, err := s.Policies(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if p.Name == name {
			return p, nil
		}
	}
	return nil, noPolicy(name)
}

func noPolicy(name string) error {
	return fault.New(fault.NotFound, "There is no policy named %q.", name)
}

// PolicyVersions implements rules.Store. The versions of a deleted policy stay
// readable until its name is used again.
func (s *policyStore) PolicyVersions(ctx context.Context, name string) (versions []*rules.Policy, err error) {
	if checkText("name", name) != nil {
		return nil, noPolicy(name)
	}
	err = s.view(ctx, func(t *tx) error {
		stored, err := each(t, scanPolicy, readVersions, name)
		versions = plainPolicies(stored)
		return err
	})
	if err == nil && len(versions) == 0 {
		err = noPolicy(name)
	}
	return versions, err
}

// PutPolicy implements rules.Store.
func (s *policyStore) PutPolicy(ctx context.Context, by audit.Actor, p *rules.Policy, expect int64) (put *rules.Policy, err error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	err = s.change(ctx, by, func(t *tx) error {
		all, err := policiesIn(t).policies()
		if err != nil {
			return err
		}
		var current *storedPolicy
		for _, other := range all {
			if other.Name == p.Name {
				current = other
			}
		}
		if err := checkExpected(p.Name, current, expect); err != nil {
			return err
		}
		if err := checkPatterns(p, all); err != nil {
			return err
		}
		if current == nil {
			put, err = policiesIn(t).createPolicy(p)
			return err
		}
		put, err = policiesIn(t).replacePolicy(current, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	return put, nil
}

func checkExpected(name string, current *storedPolicy, expect int64) error {
	switch {
	case expect == rules.ExpectAny:
		return nil
	case current == nil && expect == rules.ExpectNew:
		return nil
	case current == nil:
		return noPolicy(name)
	case expect == rules.ExpectNew:
		return fault.New(fault.NeedVersion, "There is a policy named %q; replacing it needs the version that it replaces, which is %d.", name, current.Version)
	case expect != current.Version:
		e := fault.New(fault.Outdated, "The policy %q is at version %d, not %d: somebody changed it meanwhile; read it again.", name, current.Version, expect)
		e.Detail = map[string]any{"version": current.Version}
		return e
	}
	return nil
}

// checkPatterns refuses a pattern that belongs to another policy of the same
// role: those that watch are one role, those that decide or are off the other.
func checkPatterns(p *rules.Policy, all []*storedPolicy) error {
	owners := map[string]string{}
	for _, other := range all {
		if other.Name == p.Name || (other.Mode == rules.Shadow) != (p.Mode == rules.Shadow) {
			continue
		}
		for _, m := range other.Match {
			owners[m.String()] = other.Name
		}
	}
	for i, m := range p.Match {
		if owner, taken := owners[m.String()]; taken {
			e := fault.New(fault.Conflict, "The pattern %q belongs to the policy %q; one pattern belongs to one policy.", m, owner)
			e.Field = "match[" + strconv.Itoa(i) + "]"
			e.Detail = map[string]any{"policy": owner}
			return e
		}
	}
	return nil
}

func (t policyTx) createPolicy(p *rules.Policy) (*rules.Policy, error) {
	made := *p
	made.Version, made.Generation = 1, 1
	made.Created, made.Updated, made.UpdatedBy, made.Revision = t.now, t.now, t.by.Name, t.revision
	made.Retention = rules.Retention{}.Cover(made.Rules)
	if _, err := t.one(addPolicy, []any{p.Name, toMS(t.now), t.revision}, &made.ID); err != nil {
		return nil, err
	}
	if err := t.addVersion(&made); err != nil {
		return nil, err
	}
	return &made, t.record("policy.create", "policy", p.Name, fmt.Sprintf("Created the policy %q.", p.Name), nil, documentOf(&made))
}

// replacePolicy makes the next version, or returns the current one with
// errUnchanged where both say the same.
func (t policyTx) replacePolicy(current *storedPolicy, p *rules.Policy) (*rules.Policy, error) {
	text, err := documentOf(p).text()
	if err != nil {
		return nil, err
	}
	if text == current.document {
		return current.Policy, errUnchanged
	}
	made := *p
	made.ID, made.Version, made.Generation = current.ID, current.Version+1, current.Generation
	if current.MovesGeneration(p) {
		made.Generation++
	}
	made.Created, made.Updated, made.UpdatedBy, made.Revision = current.Created, t.now, t.by.Name, t.revision
	made.Retention = current.Retention.Cover(made.Rules)
	if _, err := t.exec(replaceVersion, current.ID, current.Version, toMS(t.now)); err != nil {
		return nil, err
	}
	if err := t.addVersion(&made); err != nil {
		return nil, err
	}
	if _, err := t.exec(movePolicy, made.ID, made.Version, t.revision); err != nil {
		return nil, err
	}
	summary := fmt.Sprintf("Replaced version %d of the policy %q.", current.Version, p.Name)
	return &made, t.record("policy.replace", "policy", p.Name, summary, documentOf(current.Policy), documentOf(&made))
}

func (t policyTx) addVersion(p *rules.Policy) error {
	text, err := documentOf(p).text()
	if err != nil {
		return err
	}
	_, err = t.exec(addVersion, p.ID, p.Version, p.Generation, text, p.UpdatedBy, toMS(p.Updated), p.Revision)
	return err
}

// DeletePolicy implements rules.Store.
func (s *policyStore) DeletePolicy(ctx context.Context, by audit.Actor, name string, expect int64) error {
	if checkText("name", name) != nil {
		return noPolicy(name)
	}
	return s.change(ctx, by, func(t *tx) error {
		stored, err := each(t, scanPolicy, readPolicyByName, name)
		if err != nil {
			return err
		}
		if len(stored) == 0 {
			return noPolicy(name)
		}
		p := stored[0]
		if err := checkExpected(name, p, expect); err != nil {
			return err
		}
		return policiesIn(t).deletePolicy(p)
	})
}

func (t policyTx) deletePolicy(p *storedPolicy) error {
	if _, err := t.exec(deletePolicy, p.ID, toMS(t.now), t.revision); err != nil {
		return err
	}
	return t.record("policy.delete", "policy", p.Name, fmt.Sprintf("Deleted the policy %q.", p.Name), documentOf(p.Policy), nil)
}
