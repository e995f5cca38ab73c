package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	v1 "github.com/stint-dev/stint/internal/api/v1"
)

// AnyVersion matches any version of a policy.
const AnyVersion int64 = -1

// Policies returns every policy.
func (c *Client) Policies(ctx context.Context) ([]v1.Policy, error) {
	return whole[v1.Policy](ctx, c, v1.PathPolicies)
}

// Algorithms returns the ways to count that a policy may name.
func (c *Client) Algorithms(ctx context.Context) ([]v1.Algorithm, error) {
	return whole[v1.Algorithm](ctx, c, v1.PathAlgorithms)
}

// Policy returns the current version of a policy.
func (c *Client) Policy(ctx context.Context, name string) (*v1.Policy, error) {
	p := &v1.Policy{}
	err := c.do(ctx, request{method: http.MethodGet, path: policyPath(name)}, p)
	return p, err
}

// PutPolicy creates a policy, where expect is 0, or replaces its version
// expect. A broad one needs its name as confirm, "" elsewhere.
func (c *Client) PutPolicy(ctx context.Context, p v1.PolicyRequest, expect int64, confirm string) (*v1.Policy, error) {
	stored := &v1.Policy{}
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
func (c *Client) PolicyVersions(ctx context.Context, name string) ([]v1.Policy, error) {
	return whole[v1.Policy](ctx, c, policyPath(name)+"/versions")
}

func policyPath(name string) string { return v1.PathPolicies + "/" + url.PathEscape(name) }

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
func (c *Client) ApplyPolicies(ctx context.Context, file v1.PolicyFileRequest, prune bool, confirm string) (*v1.PolicyPlan, error) {
	plan := &v1.PolicyPlan{}
	query := url.Values{"prune": {strconv.FormatBool(prune)}}
	if confirm != "" {
		query.Set("confirm", confirm)
	}
	err := c.do(ctx, request{method: http.MethodPost, path: v1.PathPolicyFile, query: query, body: file}, plan)
	return plan, err
}
