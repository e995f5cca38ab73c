package rules

import (
	"context"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/etag"
)

// Store keeps policies and their versions. Errors that an operator can fix are *fault.Error:
// NotFound for an unknown name, Conflict (naming the other policy) for a pattern that belongs to
// another policy of the same role, and the errors of etag.Check if expect does not match the
// present policy.
type Store interface {
	// Policies returns the policies that exist, by name, with their Retention.
	Policies(ctx context.Context) ([]*Policy, error)
	// FindPolicyByName returns one policy.
	FindPolicyByName(ctx context.Context, name string) (*Policy, error)
	// PolicyVersions returns every version of a policy, the newest first.
	PolicyVersions(ctx context.Context, name string) ([]*Policy, error)
	// PutPolicy creates or replaces the whole policy named p.Name, and returns it with its id,
	// version, generation and retention. Replacing a policy by an equal one changes nothing and
	// makes no version.
	PutPolicy(ctx context.Context, by audit.Actor, p *Policy, expect etag.Tag) (*Policy, error)
	// DeletePolicy removes a policy; its id is never used again.
	DeletePolicy(ctx context.Context, by audit.Actor, name string, expect etag.Tag) error
	// ApplyPolicies makes several changes at once, all or nothing. Pattern conflicts are checked
	// only after all changes, so that two policies may swap patterns. It returns the policy after
	// each change, nil after a deletion.
	ApplyPolicies(ctx context.Context, by audit.Actor, changes []PolicyChange) ([]*Policy, error)
}

// PolicyChange is one of the changes of ApplyPolicies.
type PolicyChange struct {
	Name string
	// Policy is the new state of the policy with that name, nil to delete it.
	Policy *Policy
	// Expect is the expected present state; see PutPolicy.
	Expect etag.Tag
}
