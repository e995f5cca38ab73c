package api

import (
	"strings"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
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
	return []route{
		routes.Answers(wire.ListAlgorithms, h.listAlgorithms),
		routes.Answers(wire.ListPolicies, h.listPolicies),
		routes.Answers(wire.GetPolicy, h.getPolicy),
		routes.Answers(wire.ListPolicyVersions, h.listPolicyVersions),
		routes.Answers(wire.DiffPolicy, h.diffPolicy),
		routes.Answers(wire.ExplainPolicy, h.explainPolicy),
		routes.Answers(wire.ExplainDraft, h.explainDraft),
		routes.Answers(wire.TryPolicy, h.tryPolicy),
		routes.Answers(wire.BacktestPolicy, h.backtestPolicy),
		routes.Makes(wire.PutPolicy, h.putPolicy),
		routes.Answers(wire.DeletePolicy, h.deletePolicy),
		routes.Answers(wire.CompareDraft, h.compareDraft),
		routes.Answers(wire.PromotePolicy, h.promotePolicy),
		routes.Answers(wire.RenamePolicy, h.renamePolicy),
		routes.Answers(wire.RollBackPolicy, h.rollBackPolicy),
		routes.Answers(wire.ListPresets, h.listPresets),
		routes.Answers(wire.PreviewPreset, h.previewPreset),
		routes.Does(wire.ListConditionLists, admin.ConditionLists),
		routes.Does(wire.GetConditionList, admin.FindConditionList),
		routes.Writes(wire.ExportPolicies, openapi.Answer{Body: wire.PolicyFile{}, Types: []string{"application/yaml"}}, h.exportPolicies),
		routes.Answers(wire.PlanPolicies, h.planPolicies),
		routes.Answers(wire.ApplyPolicies, h.applyPolicies),
	}
}

// listAlgorithms answers with the ways to count that a policy may name.
func (h *policyHandler) listAlgorithms(*httpserver.Call, wire.None) (wire.Page[wire.Algorithm], error) {
	return wire.WholePage(algorithms.All(), fromAlgorithm), nil
}

func (h *policyHandler) listPolicies(c *httpserver.Call, in wire.PolicyList) (wire.Page[wire.Policy], error) {
	page, err := h.policies.FindPolicies(c.Context(), rules.PolicyFilter{Search: in.Search, Order: rules.PolicyOrder(in.Order), Limit: in.Limit, Cursor: in.Cursor})
	if err != nil {
		return wire.Page[wire.Policy]{}, err
	}
	out := wire.NewPage(page.Items, page.Next, h.fromActive)
	out.Total = &page.Total
	return out, nil
}

func (h *policyHandler) getPolicy(c *httpserver.Call, in wire.ByName) (wire.Policy, error) {
	p, err := h.policies.FindPolicyByName(c.Context(), in.Name)
	if err != nil {
		return wire.Policy{}, err
	}
	return h.withBlocks(p), nil
}

// fromActive converts a policy with the warnings about what this node has noticed of it.
func (h *policyHandler) fromActive(p *rules.Policy) wire.Policy {
	out := fromPolicy(p)
	out.Warnings = append(out.Warnings, h.catalog.Selector().Unsaid(p.ID)...)
	return out
}

// withBlocks is fromActive, with a warning about automatic blocks that outlast the mode enforce.
func (h *policyHandler) withBlocks(p *rules.Policy) wire.Policy {
	out := h.fromActive(p)
	out.Warnings = append(out.Warnings, h.policies.BlocksLeft(p, p)...)
	return out
}

// shown returns what a change of a policy answers.
func (h *policyHandler) shown(p *rules.Policy, err error) (wire.Policy, error) {
	if err != nil {
		return wire.Policy{}, err
	}
	return h.withBlocks(p), nil
}

func (h *policyHandler) listPolicyVersions(c *httpserver.Call, in wire.ByName) (wire.Page[wire.Policy], error) {
	all, err := h.policies.PolicyVersions(c.Context(), in.Name)
	return wire.WholePage(all, fromPolicy), err
}

func (h *policyHandler) putPolicy(c *httpserver.Call, in wire.PolicyPut) (out wire.Policy, path string, err error) {
	wanted, err := policyOf(&in.PolicyRequest, h.catalog.Parser(), in.Of)
	if err != nil {
		return out, "", err
	}
	_, existed := h.catalog.Selector().ByName(wanted.Name) // or another node has just made it
	p, err := h.policies.Put(c.Context(), callerOf(c), wanted, etag.Tag(in.Expect), in.Confirm)
	if err != nil {
		return out, "", err
	}
	if !existed && p.Version == 1 {
		path = wire.PathPolicies + "/" + p.Name
	}
	return h.withBlocks(p), path, nil
}

// rollBackPolicy restores an earlier version of a policy.
func (h *policyHandler) rollBackPolicy(c *httpserver.Call, in wire.PolicyRollback) (wire.Policy, error) {
	if in.Version < 0 {
		return wire.Policy{}, fault.Field("version", "must be the number of a version; leave it out for the one before the newest")
	}
	return h.shown(h.policies.Rollback(c.Context(), callerOf(c), in.Name, in.Version, etag.Tag(in.Expect), in.Confirm))
}

func (h *policyHandler) deletePolicy(c *httpserver.Call, in wire.PolicyDeletion) (wire.None, error) {
	return wire.None{}, h.policies.Delete(c.Context(), callerOf(c), in.Name, etag.Tag(in.Expect), in.Confirm)
}

// diffPolicy compares two versions of a policy.
func (h *policyHandler) diffPolicy(c *httpserver.Call, in wire.PolicyDiffOf) (out wire.PolicyDiff, err error) {
	from := int64(-1)
	if in.From != nil {
		from = int64(*in.From)
	}
	diff, err := h.policies.Diff(c.Context(), in.Name, from, int64(in.To))
	if err != nil {
		return out, err
	}
	out = wire.PolicyDiff{Name: in.Name, From: diff.From, To: diff.To, Fields: fromFieldChanges(diff.Fields)}
	out.Text = strings.Join(wire.Lines(out.Fields, escape.Log), "\n")
	return out, nil
}
