package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/stint-dev/stint/internal/wire"
)

// AnyVersion matches any version of a policy.
const AnyVersion int64 = -1

// Policies returns every policy.
func (c *Client) Policies(ctx context.Context) ([]wire.Policy, error) {
	return whole[wire.Policy](ctx, c, wire.PathPolicies)
}

// Algorithms returns the ways to count that a policy may name.
func (c *Client) Algorithms(ctx context.Context) ([]wire.Algorithm, error) {
	return whole[wire.Algorithm](ctx, c, wire.PathAlgorithms)
}

// Policy returns the current version of a policy.
func (c *Client) Policy(ctx context.Context, name string) (*wire.Policy, error) {
	p := &wire.Policy{}
	err := c.do(ctx, request{method: http.MethodGet, path: policyPath(name)}, p)
	return p, err
}

// PutPolicy creates a policy, where expect is 0, or replaces its version
// expect. A broad one needs its name as confirm, "" elsewhere.
func (c *Client) PutPolicy(ctx context.Context, p wire.PolicyRequest, expect int64, confirm string) (*wire.Policy, error) {
	stored := &wire.Policy{}
	query := url.Values{}
	if confirm != "" {
		query.Set("confirm", confirm)
	}
	err := c.do(ctx, request{method: http.MethodPut, path: policyPath(p.Name), query: query, header: ifMatch(expect), body: p}, stored)
	return stored, err
}

// DeletePolicy removes version expect of a policy.
func (c *Client) DeletePolicy(ctx context.Context, name string, expect int64) error {
	err := c.do(ctx, request{method: http.MethodDelete, path: policyPath(name), header: ifMatch(expect)}, nil)
	return err
}

// PolicyVersions returns the versions of a policy, the newest first.
func (c *Client) PolicyVersions(ctx context.Context, name string) ([]wire.Policy, error) {
	return whole[wire.Policy](ctx, c, policyPath(name)+"/versions")
}

func policyPath(name string) string { return wire.PathPolicies + "/" + url.PathEscape(name) }

// ifMatch returns the header that names the version to replace.
func ifMatch(expect int64) map[string]string {
	switch expect {
	case 0:
		return nil
	case AnyVersion:
		return map[string]string{"If-Match": "*"}
	default:
		return map[string]string{"If-Match": strconv.Quote(strconv.FormatInt(expect, 10))}
	}
}

// ApplyPolicies makes the policies what a file says, all or nothing.
// Broad ones need confirm, "" elsewhere.
func (c *Client) ApplyPolicies(ctx context.Context, file wire.PolicyFileRequest, prune bool, confirm string) (*wire.PolicyPlan, error) {
	plan := &wire.PolicyPlan{}
	query := url.Values{"prune": {strconv.FormatBool(prune)}}
	if confirm != "" {
		query.Set("confirm", confirm)
	}
	err := c.do(ctx, request{method: http.MethodPost, path: wire.PathPolicyFile, query: query, body: file}, plan)
	return plan, err
}
