// Command go calls a node by the client that oapi-codegen generates from openapi.json:
// the script of calls that scripts/test-clients.sh runs with every generated client.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/stint-dev/stint/tools/clients/go/stint"
)

func main() {
	if err := run(context.Background(), os.Getenv("STINT_CHECK_URL"), os.Getenv("STINT_ADMIN_URL"), os.Getenv("STINT_ADMIN_TOKEN")); err != nil {
		fmt.Fprintln(os.Stderr, "oapi-codegen:", err)
		os.Exit(1)
	}
	fmt.Println("oapi-codegen: all calls were answered as described")
}

func run(ctx context.Context, checkURL, adminURL, token string) error {
	authorize := stint.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	})
	checks, err := stint.NewClientWithResponses(checkURL)
	if err != nil {
		return err
	}
	admin, err := stint.NewClientWithResponses(adminURL, authorize)
	if err != nil {
		return err
	}
	// Replace a policy, only if it is still the version that was read.
	rules := []string{"2/1h"}
	created, err := admin.PutPolicyWithResponse(ctx, "oapi", &stint.PutPolicyParams{}, stint.PolicyRequest{Match: []string{"oapi:*"}, Rules: rules})
	if err != nil || created.JSON201 == nil {
		return unexpected("create a policy", created.HTTPResponse, err)
	}
	version := fmt.Sprintf("%q", created.JSON201.Etag)
	wanted := stint.PolicyRequest{Match: []string{"oapi:*"}, Rules: []string{"1/1h"}}
	replaced, err := admin.PutPolicyWithResponse(ctx, "oapi", &stint.PutPolicyParams{IfMatch: &version}, wanted)
	if err != nil || replaced.JSON200 == nil {
		return unexpected("replace the policy", replaced.HTTPResponse, err)
	}
	again, err := admin.PutPolicyWithResponse(ctx, "oapi", &stint.PutPolicyParams{IfMatch: &version}, wanted)
	if err != nil || again.ApplicationproblemJSON412 == nil {
		return unexpected("replace a version that was replaced", again.HTTPResponse, err)
	}
	// Check a key until it is limited.
	for n, want := range []stint.DecisionDecision{stint.DecisionDecisionAllowed, stint.DecisionDecisionLimited} {
		var body stint.CheckBody
		if err := body.FromCheckRequest(stint.CheckRequest{Key: "oapi:alice"}); err != nil {
			return err
		}
		answer, err := checks.CheckWithResponse(ctx, body)
		if err != nil {
			return err
		}
		decided := answer.JSON200
		if want == stint.DecisionDecisionLimited {
			decided = answer.JSON429
		}
		if decided == nil {
			return unexpected(fmt.Sprintf("check %d", n+1), answer.HTTPResponse, nil)
		}
		if d, err := decided.AsDecision(); err != nil || d.Decision != want {
			return fmt.Errorf("check %d is %s, %v, want %s", n+1, d.Decision, err, want)
		}
	}
	reported, err := checks.ReportOutcomeWithResponse(ctx, stint.OutcomeReport{Key: "oapi:alice", Outcome: "login_failed"})
	if err != nil || reported.JSON200 == nil {
		return unexpected("report an outcome", reported.HTTPResponse, err)
	}
	// Block keys, and read all blocks page by page.
	for n := range 3 {
		added, err := admin.AddBlockWithResponse(ctx, stint.AddEntry{Pattern: fmt.Sprintf("oapi:block-%d", n), Reason: pointer("a test")})
		if err != nil || added.JSON201 == nil {
			return unexpected("block a key", added.HTTPResponse, err)
		}
	}
	seen := 0
	params := &stint.ListBlocksParams{Limit: pointer(int64(2)), Within: pointer("oapi:*")}
	for pages := 1; ; pages++ {
		page, err := admin.ListBlocksWithResponse(ctx, params)
		if err != nil || page.JSON200 == nil {
			return unexpected("list the blocks", page.HTTPResponse, err)
		}
		seen += len(page.JSON200.Items)
		if params.Cursor = page.JSON200.NextCursor; params.Cursor == nil {
			if seen != 3 || pages != 2 {
				return fmt.Errorf("%d blocks on %d pages, want 3 on 2", seen, pages)
			}
			return nil
		}
	}
}

func pointer[T any](v T) *T { return &v }

func unexpected(what string, answer *http.Response, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: the answer is %s, %s", what, answer.Status, strings.Join(answer.Header["Content-Type"], ""))
}
