package rules

import (
	"context"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/paging"
)

// Store keeps policies and their versions. Errors that an operator can fix are *fault.Error:
// NotFound for an unknown name, Conflict (naming the other policy) for a pattern that belongs to
// another policy of the same role, and the errors of etag.Check if expect does not match the
// present policy.
type Store interface {
	// Policies returns the policies that exist, by name, with their Retention.
	Policies(ctx context.Context) ([]*Policy, error)
	// FindPolicies returns a page of the policies that exist.
	FindPolicies(ctx context.Context, f PolicyFilter) (paging.Page[*Policy], error)
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
	// RenamePolicy gives a policy another name, and its draft the name of that policy's draft. They
	// keep their ids and get a new version. Errors are those of PutPolicy, and Conflict if the
	// name is taken.
	RenamePolicy(ctx context.Context, by audit.Actor, name, to string, expect etag.Tag) (*Policy, error)
	// CheckPolicies returns the error of ApplyPolicies, and changes nothing.
	CheckPolicies(ctx context.Context, changes []PolicyChange) error
	// ApplyPolicies makes several changes at once, all or nothing. Pattern conflicts are checked
	// only after all changes, so that two policies may swap patterns. It returns the policy after
	// each change, nil after a deletion.
	ApplyPolicies(ctx context.Context, by audit.Actor, changes []PolicyChange) ([]*Policy, error)
}

// PolicyOrder is the order of a list of policies.
type PolicyOrder string

// The orders. Policies that are equal in one are by name.
const (
	ByName    PolicyOrder = "name"
	ByMode    PolicyOrder = "mode"    // enforce, shadow, off
	ByVersion PolicyOrder = "version" // the most often changed first
	ByUpdated PolicyOrder = "updated" // the last changed first
)

// PolicyOrders are the orders, the default first.
var PolicyOrders = []PolicyOrder{ByName, ByMode, ByVersion, ByUpdated}

// PolicyFilter selects policies for a list.
type PolicyFilter struct {
	// Search selects policies of which the name or a pattern contains this text, ignoring case.
	Search string
	Order  PolicyOrder // "" means ByName
	Cursor string      // from the previous page, empty for the first
	Limit  int         // 1 to 1000, 0 means all
}

// Matches reports whether the name or a pattern of p contains f.Search.
func (f *PolicyFilter) Matches(p *Policy) bool {
	search := strings.ToLower(f.Search)
	contains := func(text string) bool { return strings.Contains(strings.ToLower(text), search) }
	return contains(p.Name) || slices.ContainsFunc(p.Match, func(m keys.Pattern) bool { return contains(m.String()) })
}

// PolicyChange is one of the changes of ApplyPolicies.
type PolicyChange struct {
	Name string
	// Policy is the new state of the policy with that name, nil to delete it.
	Policy *Policy
	// Expect is the expected present state; see PutPolicy.
	Expect etag.Tag
}
