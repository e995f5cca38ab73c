package api

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

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
	file := wire.PolicyFile{Policies: []wire.PolicyRequest{}}
	for _, p := range all {
		shown := fromPolicy(p)
		request, err := policyfile.Canonical(shown.Request())
		if err != nil {
			return err
		}
		file.Policies = append(file.Policies, request)
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
	wanted, err := h.canonical(request.Policies)
	if err != nil {
		return err
	}
	ctx := c.Context()
	existing, err := h.policies.Policies(ctx)
	if err != nil {
		return err
	}
	plan := wire.PolicyPlan{DryRun: dryRun, Warnings: []string{}}
	plan.Changes, err = policyfile.Plan(singlePage(existing, fromPolicy).Items, wanted, prune)
	if err != nil {
		return err
	}
	changes, err := h.policyChanges(plan.Changes, request.Expect)
	if err != nil {
		return err
	}
	plan.Changed = len(changes) > 0
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

// canonical returns the policies of a document in canonical form; its errors
// say which is wrong.
func (h *policyHandler) canonical(all []wire.PolicyRequest) ([]wire.PolicyRequest, error) {
	if all == nil {
		return nil, fault.Field("policies", "is missing; send a list, [] for none")
	}
	wanted := make([]wire.PolicyRequest, len(all))
	seen := map[string]bool{}
	for i, p := range all {
		at := "policies[" + strconv.Itoa(i) + "]"
		if seen[p.Name] {
			return nil, fault.Field(at+".name", "names %q a second time", p.Name)
		}
		seen[p.Name] = true
		parsed, err := policyOf(&p, h.catalog.Parser(), p.Name)
		if err != nil {
			return nil, within(at, err)
		}
		shown := fromPolicy(parsed)
		if wanted[i], err = policyfile.Canonical(shown.Request()); err != nil {
			return nil, fault.Field(at, "%s", err.Error())
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

// policyChanges returns what the store has to change for a plan.
func (h *policyHandler) policyChanges(plan []wire.PolicyChange, expect map[string]int64) ([]rules.PolicyChange, error) {
	var changes []rules.PolicyChange
	for _, p := range plan {
		if p.Action == wire.PolicyKeep {
			continue
		}
		change := rules.PolicyChange{Name: p.Name, Expect: rules.ExpectNew}
		if p.Version != nil {
			change.Expect = *p.Version
		}
		if expect != nil {
			change.Expect = expect[p.Name]
			if change.Expect < 0 {
				return nil, fault.Field("expect."+p.Name, "must be the version that was seen")
			}
		}
		if p.After != nil {
			var err error
			if change.Policy, err = policyOf(p.After, h.catalog.Parser(), p.Name); err != nil {
				return nil, err
			}
		}
		changes = append(changes, change)
	}
	return changes, nil
}
