package api

import (
	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

// compareDraft compares a policy with its draft.
func (h *policyHandler) compareDraft(c *httpserver.Call, in wire.ByName) (out wire.DraftComparison, err error) {
	draft, err := h.policies.Draft(c.Context(), in.Name)
	if err != nil {
		return out, err
	}
	active, _ := h.catalog.Selector().ByName(in.Name)
	compared, err := admin.CompareDraft(c.Context(), h.detection, active, draft, h.now())
	if err != nil {
		return out, err
	}
	return fromDraftComparison(compared), nil
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
func (h *policyHandler) promotePolicy(c *httpserver.Call, in wire.PolicyPromotion) (wire.Policy, error) {
	return h.shown(h.policies.Promote(c.Context(), callerOf(c), in.Name, etag.Tag(in.Expect), in.Confirm))
}

// renamePolicy gives a policy another name.
func (h *policyHandler) renamePolicy(c *httpserver.Call, in wire.PolicyRename) (wire.Policy, error) {
	return h.shown(h.policies.Rename(c.Context(), callerOf(c), in.Of, in.Name, etag.Tag(in.Expect)))
}
