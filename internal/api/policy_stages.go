package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

var (
	opCompareDraft = &openapi.Operation{
		ID: "compareDraft", Tag: "policies", Summary: "Compare a policy with its draft: the shadow policy NAME.draft, which runs beside it and decides about the same checks. To make a draft, put a policy of that name.",
		Answers: ok("What differs, and what both decided since the draft was saved, at most in the last day.", wire.DraftComparison{}),
	}
	opPromotePolicy = &openapi.Operation{
		ID: "promotePolicy", Tag: "policies", Summary: "Put the draft of a policy, whose ETag If-Match has, in force in place of the policy. To discard a draft, delete it.",
		IfMatch: true, Query: confirmPolicyParam,
		Answers: []openapi.Answer{{Status: http.StatusOK, Doc: "The new version.", Body: wire.Policy{}, Headers: []openapi.Header{openapi.ETag}}},
	}
	opRenamePolicy = &openapi.Operation{
		ID: "renamePolicy", Tag: "policies", Summary: "Rename the policy whose ETag If-Match has. It keeps its counts, versions and offences; its draft is renamed too. Checks that name the policy must use the new name.",
		IfMatch: true, Body: wire.PolicyRename{},
		Answers: []openapi.Answer{{Status: http.StatusOK, Doc: "The policy under its new name.", Body: wire.Policy{}, Headers: []openapi.Header{openapi.ETag}}},
	}
)

// compareDraft compares a policy with its draft.
func (h *policyHandler) compareDraft(c *httpserver.Call) error {
	name, err := c.PathParam("name")
	if err != nil {
		return err
	}
	if err := c.ParseQuery().Err(); err != nil {
		return err
	}
	draft, err := h.policies.Draft(c.Context(), name)
	if err != nil {
		return err
	}
	active, _ := h.catalog.Selector().ByName(name)
	compared, err := admin.CompareDraft(c.Context(), h.detection, active, draft, h.now())
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, fromDraftComparison(compared))
}

func fromDraftComparison(d *admin.DraftComparison) wire.DraftComparison {
	out := wire.DraftComparison{
		Draft: fromPolicy(d.Draft), Changes: fromFieldChanges(d.Fields), From: wire.At(d.From), To: wire.At(d.To),
		Allowed: d.Active.Totals.Allowed, Limited: d.Active.Totals.Limited,
		DraftAllowed: d.Drafted.Totals.ShadowAllowed, DraftLimited: d.Drafted.Totals.ShadowLimited,
	}
	if d.Policy != nil {
		out.Version = d.Policy.Version
	}
	return out
}

// promotePolicy puts a draft in force.
func (h *policyHandler) promotePolicy(c *httpserver.Call) error {
	name, expect, confirm, err := readTagged(c, "Promoting a draft")
	if err != nil {
		return err
	}
	p, err := h.policies.Promote(c.Context(), callerOf(c), name, expect, confirm)
	if err != nil {
		return err
	}
	return sendPolicy(c, http.StatusOK, p)
}

// renamePolicy gives a policy another name.
func (h *policyHandler) renamePolicy(c *httpserver.Call) error {
	name, expect, _, err := readTagged(c, "Renaming a policy")
	if err != nil {
		return err
	}
	var request wire.PolicyRename
	if err := c.DecodeJSON(&request); err != nil {
		return err
	}
	p, err := h.policies.Rename(c.Context(), callerOf(c), name, request.Name, expect)
	if err != nil {
		return err
	}
	return sendPolicy(c, http.StatusOK, p)
}
