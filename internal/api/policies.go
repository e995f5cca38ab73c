package api

import (
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// policyHandler serves the policies and the algorithms that they may name.
type policyHandler struct {
	common
	policies  *admin.Policies
	detection *admin.Detection
}

func (h *policyHandler) routes() []route {
	const policy = wire.PathPolicies + "/:name"
	return []route{
		onAdmin(get, wire.PathAlgorithms, identity.Read, h.listAlgorithms, opListAlgorithms),
		onAdmin(get, wire.PathPolicies, identity.Read, h.listPolicies, opListPolicies),
		onAdmin(get, policy, identity.Read, h.getPolicy, opGetPolicy),
		onAdmin(get, policy+"/versions", identity.Read, h.listPolicyVersions, opPolicyVersions),
		onAdmin(get, policy+"/diff", identity.Read, h.diffPolicy, opDiffPolicy),
		onAdmin(get, policy+"/explain", identity.Read, h.explainPolicy, opExplainPolicy),
		onAdmin(post, policy+"/explain", identity.Read, h.explainDraft, opExplainDraft),
		onAdmin(post, policy+"/try", identity.Admin, h.tryPolicy, opTryPolicy),
		streamed(post, policy+"/backtest", identity.Admin, h.backtestPolicy, opBacktestPolicy),
		onAdmin(put, policy, identity.Admin, h.putPolicy, opPutPolicy),
		onAdmin(del, policy, identity.Admin, h.deletePolicy, opDeletePolicy),
		onAdmin(get, policy+"/draft", identity.Read, h.compareDraft, opCompareDraft),
		onAdmin(post, policy+"/promote", identity.Admin, h.promotePolicy, opPromotePolicy),
		onAdmin(post, policy+"/rename", identity.Admin, h.renamePolicy, opRenamePolicy),
		onAdmin(post, policy+"/rollback", identity.Admin, h.rollBackPolicy, opRollBackPolicy),
		onAdmin(get, wire.PathPresets, identity.Read, h.listPresets, opListPresets),
		onAdmin(get, wire.PathPresets+"/:name/preview", identity.Admin, h.previewPreset, opPreviewPreset),
		routes.Does(wire.ListConditionLists, admin.ConditionLists),
		routes.Does(wire.GetConditionList, admin.FindConditionList),
		onAdmin(get, wire.PathPolicySet, identity.Read, h.exportPolicies, opExportPolicies),
		onAdmin(post, wire.PathPolicySet+"/plan", identity.Read, h.planPolicies, opPlanPolicies),
		onAdmin(post, wire.PathPolicySet, identity.Admin, h.applyPolicies, opApplyPolicies),
	}
}

var (
	opListAlgorithms = &openapi.Operation{ID: "listAlgorithms", Tag: "policies", Summary: "List the algorithms that a policy may use.", Answers: ok("The algorithms, the default first.", wire.Page[wire.Algorithm]{})}
	opListPolicies   = &openapi.Operation{
		ID: "listPolicies", Tag: "policies", Summary: "List the policies, all or a page.",
		Query: routes.WholeList("Only policies whose name or pattern contains this text, case-insensitive.",
			"name, also if omitted; mode: enforce, shadow, off; version: the most often changed first; updated: the last changed first.", rules.PolicyOrders),
		Answers: ok("The policies.", wire.Page[wire.Policy]{}),
	}
	opGetPolicy      = &openapi.Operation{ID: "getPolicy", Tag: "policies", Summary: "Show a policy.", Answers: []openapi.Answer{{Status: http.StatusOK, Doc: "The policy.", Body: wire.Policy{}, Headers: []openapi.Header{openapi.ETag}}}}
	opPolicyVersions = &openapi.Operation{ID: "listPolicyVersions", Tag: "policies", Summary: "List the versions of a policy, the newest first.", Answers: ok("The versions.", wire.Page[wire.Policy]{})}
	opDiffPolicy     = &openapi.Operation{
		ID: "diffPolicy", Tag: "policies", Summary: "Compare two versions of a policy.",
		Query: []openapi.Param{
			{Name: "from", Doc: "The earlier version, 0 for none; by default the one before to.", Integer: true},
			{Name: "to", Doc: "The later version; by default the newest.", Integer: true},
		},
		Answers: ok("What differs.", wire.PolicyDiff{}),
	}
	opPutPolicy = &openapi.Operation{
		ID: "putPolicy", Tag: "policies", Summary: "Create a policy, or replace the one whose ETag If-Match has.",
		IfMatch: true, Body: wire.PolicyRequest{},
		Query: confirmPolicyParam,
		Answers: []openapi.Answer{
			{Status: http.StatusOK, Doc: "Replaced.", Body: wire.Policy{}, Headers: []openapi.Header{openapi.ETag}},
			{Status: http.StatusCreated, Doc: "Created.", Body: wire.Policy{}, Headers: []openapi.Header{openapi.ETag, openapi.Location}},
		},
	}
	opRollBackPolicy = &openapi.Operation{
		ID: "rollBackPolicy", Tag: "policies", Summary: "Restore an earlier version of a policy as a new version, in place of the one whose ETag If-Match has.",
		IfMatch: true, Query: confirmPolicyParam, Body: wire.PolicyRollback{}, BodyOptional: true,
		Answers: []openapi.Answer{{Status: http.StatusOK, Doc: "The new version.", Body: wire.Policy{}, Headers: []openapi.Header{openapi.ETag}}},
	}
	opDeletePolicy = &openapi.Operation{
		ID: "deletePolicy", Tag: "policies", Summary: "Delete the policy whose ETag If-Match has.",
		IfMatch: true, Query: confirmPolicyParam, Answers: []openapi.Answer{{Status: http.StatusNoContent, Doc: "Deleted."}},
	}
)

var confirmPolicyParam = []openapi.Param{{
	Name: "confirm", Doc: "The policy's name. It is needed if every request of a broad pattern is newly refused, or if keys leave an enforcing policy for another one or for none: by a deletion, by a change of mode, patterns or conditions, or by a policy that is off. The answer 409 confirmation_required says to which, and how many keys of the recorded traffic.",
}}

// listAlgorithms answers with the ways to count that a policy may name.
func (h *policyHandler) listAlgorithms(c *httpserver.Call) error {
	if err := c.ParseQuery().Err(); err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, singlePage(algorithms.All(), fromAlgorithm))
}

func (h *policyHandler) listPolicies(c *httpserver.Call) error {
	q := c.ParseQuery(routes.WholeListParams...)
	var f rules.PolicyFilter
	f.Search, f.Order, f.Limit, f.Cursor = routes.ReadWholeList(q, rules.PolicyOrders)
	if q.Err() != nil {
		return q.Err()
	}
	page, err := h.policies.FindPolicies(c.Context(), f)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, routes.WholeListPage(page, h.fromActive))
}

// find returns the policy that the path names.
func (h *policyHandler) find(c *httpserver.Call) (*rules.Policy, error) {
	name, err := c.PathParam("name")
	if err != nil {
		return nil, err
	}
	return h.policies.FindPolicyByName(c.Context(), name)
}

func (h *policyHandler) getPolicy(c *httpserver.Call) error {
	p, err := h.find(c)
	if err != nil {
		return err
	}
	return routes.SendTagged(c, http.StatusOK, rules.TagOf(p), h.fromActive(p))
}

// fromActive converts a policy with the warnings about what this node has noticed of it.
func (h *policyHandler) fromActive(p *rules.Policy) wire.Policy {
	out := fromPolicy(p)
	out.Warnings = append(out.Warnings, h.catalog.Selector().Unsaid(p.ID)...)
	return out
}

func sendPolicy(c *httpserver.Call, status int, p *rules.Policy) error {
	return routes.SendTagged(c, status, rules.TagOf(p), fromPolicy(p))
}

func (h *policyHandler) listPolicyVersions(c *httpserver.Call) error {
	name, err := c.PathParam("name")
	if err != nil {
		return err
	}
	all, err := h.policies.PolicyVersions(c.Context(), name)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, singlePage(all, fromPolicy))
}

func (h *policyHandler) putPolicy(c *httpserver.Call) error {
	expect, err := routes.IfMatch(c)
	if err != nil {
		return err
	}
	q := c.ParseQuery("confirm")
	confirm := q.Line("confirm")
	if q.Err() != nil {
		return q.Err()
	}
	wanted, err := h.readDraft(c)
	if err != nil {
		return err
	}
	_, existed := h.catalog.Selector().ByName(wanted.Name) // or another node has just made it
	p, err := h.policies.Put(c.Context(), callerOf(c), wanted, expect, confirm)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if !existed && p.Version == 1 {
		status = http.StatusCreated
		c.Set(fiber.HeaderLocation, wire.PathPolicies+"/"+p.Name)
	}
	return sendPolicy(c, status, p)
}

// rollBackPolicy restores an earlier version of a policy.
func (h *policyHandler) rollBackPolicy(c *httpserver.Call) error {
	name, expect, confirm, err := readTagged(c, "Rolling back a policy")
	if err != nil {
		return err
	}
	var request wire.PolicyRollback
	if err := c.DecodeOptional(&request); err != nil {
		return err
	}
	if request.Version < 0 {
		return fault.Field("version", "must be the number of a version; leave it out for the one before the newest")
	}
	p, err := h.policies.Rollback(c.Context(), callerOf(c), name, request.Version, expect, confirm)
	if err != nil {
		return err
	}
	return sendPolicy(c, http.StatusOK, p)
}

func (h *policyHandler) deletePolicy(c *httpserver.Call) error {
	name, expect, confirm, err := readTagged(c, "Deleting a policy")
	if err != nil {
		return err
	}
	if err := h.policies.Delete(c.Context(), callerOf(c), name, expect, confirm); err != nil {
		return err
	}
	return c.SendStatus(http.StatusNoContent)
}

// readTagged reads a request to change an existing policy: the policy's name, the expected
// state, and the confirmation. change begins the error message for a missing state.
func readTagged(c *httpserver.Call, change string) (name string, expect etag.Tag, confirm string, err error) {
	if name, err = c.PathParam("name"); err != nil {
		return "", "", "", err
	}
	if expect, err = routes.NeedIfMatch(c, change); err != nil {
		return "", "", "", err
	}
	q := c.ParseQuery("confirm")
	return name, expect, q.Line("confirm"), q.Err()
}

// diffPolicy compares two versions of a policy.
func (h *policyHandler) diffPolicy(c *httpserver.Call) error {
	name, err := c.PathParam("name")
	if err != nil {
		return err
	}
	q := c.ParseQuery("from", "to")
	from, to := int64(q.Number("from", 0, maxVersion)), int64(q.Number("to", 1, maxVersion))
	if q.Err() != nil {
		return q.Err()
	}
	if !q.Given("from") {
		from = -1
	}
	diff, err := h.policies.Diff(c.Context(), name, from, to)
	if err != nil {
		return err
	}
	answer := wire.PolicyDiff{Name: name, From: diff.From, To: diff.To, Fields: fromFieldChanges(diff.Fields)}
	answer.Text = strings.Join(wire.Lines(answer.Fields, escape.Log), "\n")
	return c.SendJSON(http.StatusOK, answer)
}

// maxVersion is more versions than a policy will ever have.
const maxVersion = 1 << 30
