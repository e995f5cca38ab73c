package api

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/policyfile"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// exportPolicies answers with all policies as one document, YAML or JSON.
func (s *API) exportPolicies(c *httpserver.Call) error {
	q := c.ParseQuery("format")
	format := q.OneOf("format", "json", "yaml")
	if q.Err() != nil {
		return q.Err()
	}
	ctx := c.Context()
	all, err := s.Policies.Policies(ctx)
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
func (s *API) applyPolicies(c *httpserver.Call) error {
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
	wanted, err := s.canonical(request.Policies)
	if err != nil {
		return err
	}
	ctx := c.Context()
	standing, err := s.Policies.Policies(ctx)
	if err != nil {
		return err
	}
	plan := wire.PolicyPlan{DryRun: dryRun, Warnings: []string{}}
	plan.Changes, err = policyfile.Plan(wholePage(standing, fromPolicy).Items, wanted, prune)
	if err != nil {
		return err
	}
	changes, err := s.policyChanges(plan.Changes, request.Expect)
	if err != nil {
		return err
	}
	plan.Changed = len(changes) > 0
	needs, why := broadChanges(standing, changes)
	if needs != "" && dryRun {
		plan.Warnings = append(plan.Warnings, "It needs confirm="+needs+": "+why+".")
	} else if needs != confirm || confirm == "" {
		if err := blocklist.NeedConfirmPolicy(needs, why); err != nil {
			return err
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
		if _, err := s.Policies.ApplyPolicies(ctx, c.Actor(), changes); err != nil {
			return err
		}
	}
	return c.SendJSON(http.StatusOK, plan)
}

// broadChanges returns the names of the policies that must be confirmed, with
// commas between them, and why.
func broadChanges(standing []*rules.Policy, changes []rules.PolicyChange) (names, why string) {
	var all, whys []string
	for _, change := range changes {
		var before *rules.Policy
		for _, p := range standing {
			if p.Name == change.Name {
				before = p
			}
		}
		if w := blocklist.BroadPolicy(before, change.Policy); w != "" {
			all, whys = append(all, change.Name), append(whys, change.Name+": "+w)
		}
	}
	return strings.Join(all, ","), strings.Join(whys, "; ")
}

// canonical returns the policies of a document in canonical form; its errors
// say which is wrong.
func (s *API) canonical(all []wire.PolicyRequest) ([]wire.PolicyRequest, error) {
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
		parsed, err := policyOf(&p, s.Catalog.Parser(), p.Name)
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
func (s *API) policyChanges(plan []wire.PolicyChange, expect map[string]int64) ([]rules.PolicyChange, error) {
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
			if change.Policy, err = policyOf(p.After, s.Catalog.Parser(), p.Name); err != nil {
				return nil, err
			}
		}
		changes = append(changes, change)
	}
	return changes, nil
}

// diffPolicy compares two versions of a policy.
func (s *API) diffPolicy(c *httpserver.Call) error {
	name, err := c.PathParam("name")
	if err != nil {
		return err
	}
	q := c.ParseQuery("from", "to")
	from, to := int64(q.Number("from", 0, maxVersion)), int64(q.Number("to", 1, maxVersion))
	if q.Err() != nil {
		return q.Err()
	}
	ctx := c.Context()
	versions, err := s.Policies.PolicyVersions(ctx, name)
	if err != nil {
		return err
	}
	if to == 0 {
		to = versions[0].Version
	}
	if !q.Given("from") {
		from = to - 1
	}
	before, err := versionOf(versions, from)
	if err != nil {
		return err
	}
	after, err := versionOf(versions, to)
	if err != nil {
		return err
	}
	answer := wire.PolicyDiff{Name: name, From: from, To: to, Fields: policyfile.Diff(before, after)}
	answer.Text = strings.Join(policyfile.Lines(answer.Fields, escape.Log), "\n")
	return c.SendJSON(http.StatusOK, answer)
}

// maxVersion is more versions than a policy will ever have.
const maxVersion = 1 << 30

// versionOf returns one version in canonical form, nil for version 0, which is
// before there was a policy.
func versionOf(all []*rules.Policy, version int64) (*wire.PolicyRequest, error) {
	if version == 0 {
		return nil, nil
	}
	for _, p := range all {
		if p.Version == version {
			shown := fromPolicy(p)
			request, err := policyfile.Canonical(shown.Request())
			return &request, err
		}
	}
	return nil, fault.New(fault.NotFound, "The policy %q has no version %d; it has 1 to %d.", all[0].Name, version, all[0].Version)
}
