package api

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/policyfile"
	"github.com/stint-dev/stint/internal/presets"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// listPresets lists the policy files that Stint ships.
func (h *policyHandler) listPresets(*httpserver.Call, wire.None) (wire.Page[wire.Preset], error) {
	return wire.WholePage(presets.All(), func(p presets.Preset) wire.Preset {
		preset := wire.Preset{Name: p.Name, Title: p.Title, Summary: p.Summary, Policies: make([]wire.PolicyRequest, len(p.Policies))}
		for i, policy := range p.Policies {
			preset.Policies[i] = *requestOf(policy)
		}
		return preset
	}), nil
}

// exportPolicies answers with all policies as one document, YAML or JSON.
func (h *policyHandler) exportPolicies(c *httpserver.Call, in wire.PolicyExport) error {
	all, err := h.policies.Policies(c.Context())
	if err != nil {
		return err
	}
	file := wire.PolicyFile{Policies: make([]wire.PolicyRequest, len(all))}
	for i, p := range all {
		file.Policies[i] = *requestOf(p)
	}
	if in.Format != "yaml" {
		return c.SendJSON(http.StatusOK, file)
	}
	var text bytes.Buffer
	if err := policyfile.Write(&text, file.Policies); err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, "application/yaml")
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	return c.Send(text.Bytes())
}

// planPolicies answers with the changes that applying a document would make.
func (h *policyHandler) planPolicies(c *httpserver.Call, in wire.PolicyPlanOf) (out wire.PolicyPlan, err error) {
	plan, err := h.planOf(c, in.PolicyFileRequest, in.PolicyApplicationFlags)
	if err != nil {
		return out, err
	}
	out = h.fromPlan(plan)
	out.DryRun = true
	return out, nil
}

// applyPolicies replaces the policies with those of a document, all or nothing.
func (h *policyHandler) applyPolicies(c *httpserver.Call, in wire.PolicyApplication) (out wire.PolicyPlan, err error) {
	plan, err := h.planOf(c, in.PolicyFileRequest, in.PolicyApplicationFlags)
	if err != nil {
		return out, err
	}
	if err := h.policies.Apply(c.Context(), callerOf(c), plan, in.Confirm); err != nil {
		return out, err
	}
	return h.fromPlan(plan), nil
}

// planOf returns the plan of a document.
func (h *policyHandler) planOf(c *httpserver.Call, request wire.PolicyFileRequest, flags wire.PolicyApplicationFlags) (*admin.PolicyPlan, error) {
	wanted, err := h.policiesOf(request.Policies)
	if err != nil {
		return nil, err
	}
	var expect map[string]etag.Tag
	if request.Expect != nil {
		expect = map[string]etag.Tag{}
	}
	for name, text := range request.Expect {
		if expect[name], err = etag.Parse("expect."+name, text); err != nil {
			return nil, err
		}
	}
	plan, err := h.policies.Plan(c.Context(), wanted, flags.Prune, flags.Shadow, expect)
	if err == nil {
		err = plan.Problem
	}
	return plan, err
}

// fromPlan returns a plan as the API shows it.
func (h *policyHandler) fromPlan(p *admin.PolicyPlan) wire.PolicyPlan {
	plan := wire.PolicyPlan{
		Changed: len(p.Changed()) > 0, Changes: make([]wire.PolicyChange, len(p.Changes)), Warnings: []string{},
		Confirm: wire.NullString(p.Confirm), ConfirmReason: wire.NullString(p.ConfirmReason),
	}
	for i := range p.Changes {
		plan.Changes[i] = fromPlannedChange(&p.Changes[i])
	}
	for i := range p.Changes {
		c := &p.Changes[i]
		if len(c.Fields) == 0 {
			continue
		}
		var warnings []string
		if c.After != nil {
			warnings = fromPolicy(c.After).Warnings
		}
		if c.Before != nil {
			warnings = append(warnings, h.policies.BlocksLeft(c.Before, c.After)...)
		}
		for _, w := range warnings {
			plan.Warnings = append(plan.Warnings, "Policy "+c.Name()+": "+w)
		}
	}
	return plan
}

// policiesOf returns the policies of a document; its errors say which is wrong.
func (h *policyHandler) policiesOf(all []wire.PolicyRequest) ([]*rules.Policy, error) {
	if all == nil {
		return nil, fault.Field("policies", "is missing; send a list, [] for none")
	}
	wanted := make([]*rules.Policy, len(all))
	seen := map[string]bool{}
	for i, p := range all {
		at := "policies[" + strconv.Itoa(i) + "]"
		if seen[p.Name] {
			return nil, fault.Field(at+".name", "names %q a second time", p.Name)
		}
		seen[p.Name] = true
		var err error
		if wanted[i], err = policyOf(&p, h.catalog.Parser(), p.Name); err != nil {
			return nil, within(at, err)
		}
	}
	return wanted, nil
}

// within prefixes the field of a fault with its place in a list.
func within(at string, err error) error {
	var mistake *fault.Error
	if !errors.As(err, &mistake) {
		return err
	}
	moved := *mistake
	moved.Field = strings.TrimSuffix(at+"."+mistake.Field, ".")
	return &moved
}

// fromPlannedChange returns a change of a plan as the API shows it.
func fromPlannedChange(c *admin.PlannedChange) wire.PolicyChange {
	out := wire.PolicyChange{Name: c.Name(), Action: wire.PolicyReplace, Before: requestOf(c.Before), After: requestOf(c.After), Fields: fromFieldChanges(c.Fields)}
	switch {
	case c.Before == nil:
		out.Action = wire.PolicyCreate
	case c.After == nil:
		out.Action = wire.PolicyDelete
	case len(c.Fields) == 0:
		out.Action = wire.PolicyKeep
	}
	if c.Before != nil {
		out.Version, out.ETag = &c.Before.Version, wire.NullString(rules.TagOf(c.Before))
	}
	return out
}

// requestOf returns the canonical request that creates a policy, nil for nil.
func requestOf(p *rules.Policy) *wire.PolicyRequest {
	if p == nil {
		return nil
	}
	request := p.Document()
	slices.Sort(request.Match)
	return &request
}
