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
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/policyfile"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

var (
	opExportPolicies = &openapi.Operation{
		ID: "exportPolicies", Tag: "policies", Summary: "Export all policies as one document.",
		Query:   []openapi.Param{{Name: "format", Doc: "json where it is left out.", Enum: []string{"json", "yaml"}}},
		Answers: []openapi.Answer{{Status: http.StatusOK, Doc: "The document.", Body: wire.PolicyFile{}, Types: []string{"application/yaml"}}},
	}
	opApplyPolicies = &openapi.Operation{
		ID: "applyPolicies", Tag: "policies", Summary: "Make the policies what a document says, all or nothing.",
		Query: []openapi.Param{
			{Name: "dry_run", Doc: "Change nothing and show the difference.", Boolean: true},
			{Name: "confirm", Doc: "The names, with commas between them, of the policies that newly refuse every request of a broad pattern, as the answer 409 confirmation_required gives them."},
			{Name: "prune", Doc: "Delete the policies that the document does not name.", Boolean: true},
		},
		Body: wire.PolicyFileRequest{}, Answers: ok("What was changed.", wire.PolicyPlan{}),
	}
)

// exportPolicies answers with all policies as one document, YAML or JSON.
func (h *policyHandler) exportPolicies(c *httpserver.Call) error {
	q := c.ParseQuery("format")
	format := q.OneOf("format", "json", "yaml")
	if q.Err() != nil {
		return q.Err()
	}
	all, err := h.policies.Policies(c.Context())
	if err != nil {
		return err
	}
	file := wire.PolicyFile{Policies: make([]wire.PolicyRequest, len(all))}
	for i, p := range all {
		file.Policies[i] = *requestOf(p)
	}
	if format != "yaml" {
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

// applyPolicies makes the policies what a document says, all or nothing.
func (h *policyHandler) applyPolicies(c *httpserver.Call) error {
	q := c.ParseQuery("dry_run", "prune", "confirm")
	confirm := q.Line("confirm")
	dryRun, prune := q.Flag("dry_run"), q.Flag("prune")
	if q.Err() != nil {
		return q.Err()
	}
	var request wire.PolicyFileRequest
	if err := c.DecodeJSON(&request); err != nil {
		return err
	}
	wanted, err := h.policiesOf(request.Policies)
	if err != nil {
		return err
	}
	ctx := c.Context()
	planned, err := h.policies.Plan(ctx, wanted, prune, request.Expect)
	if err != nil {
		return err
	}
	changes := admin.ChangesOf(planned)
	plan := wire.PolicyPlan{DryRun: dryRun, Changed: len(changes) > 0, Changes: make([]wire.PolicyChange, len(planned)), Warnings: []string{}}
	for i := range planned {
		plan.Changes[i] = fromPlannedChange(&planned[i])
	}
	if dryRun {
		names, reason, err := h.policies.ConfirmReason(ctx, changes)
		if err != nil {
			return err
		}
		if names != "" {
			plan.Warnings = append(plan.Warnings, "It needs confirm="+names+": "+reason+".")
		}
	}
	for _, change := range changes {
		if change.Policy != nil {
			for _, w := range fromPolicy(change.Policy).Warnings {
				plan.Warnings = append(plan.Warnings, "Policy "+change.Name+": "+w)
			}
		}
	}
	if plan.Changed && !dryRun {
		if err := h.policies.Apply(ctx, callerOf(c), changes, confirm); err != nil {
			return err
		}
	}
	return c.SendJSON(http.StatusOK, plan)
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

// within says where in a list the field of a mistake stands.
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
		out.Version = &c.Before.Version
	}
	return out
}

// requestOf returns the request that makes a policy, always the same one; nil for nil.
func requestOf(p *rules.Policy) *wire.PolicyRequest {
	if p == nil {
		return nil
	}
	shown := fromPolicy(p)
	request := shown.Request()
	slices.Sort(request.Match)
	return &request
}
