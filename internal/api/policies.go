package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

func (s *API) listPolicies(c *httpserver.Call) error {
	if err := c.ParseQuery().Err(); err != nil {
		return err
	}
	ctx := c.Context()
	all, err := s.Policies.Policies(ctx)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wholePage(all, fromPolicy))
}

// wholePage is a list that fits one page.
func wholePage[T, W any](all []T, convert func(T) W) wire.Page[W] {
	total := len(all)
	page := wire.Page[W]{Items: make([]W, 0, total), Total: &total}
	for _, item := range all {
		page.Items = append(page.Items, convert(item))
	}
	return page
}

func (s *API) getPolicy(c *httpserver.Call) error {
	name, err := c.PathParam("name")
	if err != nil {
		return err
	}
	ctx := c.Context()
	p, err := s.Policies.FindPolicyByName(ctx, name)
	if err != nil {
		return err
	}
	return sendPolicy(c, http.StatusOK, p)
}

func sendPolicy(c *httpserver.Call, status int, p *rules.Policy) error {
	c.Set(fiber.HeaderETag, `"`+strconv.FormatInt(p.Version, 10)+`"`)
	return c.SendJSON(status, fromPolicy(p))
}

func (s *API) listPolicyVersions(c *httpserver.Call) error {
	name, err := c.PathParam("name")
	if err != nil {
		return err
	}
	ctx := c.Context()
	all, err := s.Policies.PolicyVersions(ctx, name)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wholePage(all, fromPolicy))
}

func (s *API) putPolicy(c *httpserver.Call) error {
	name, err := c.PathParam("name")
	if err != nil {
		return err
	}
	expect, _, err := ifMatch(c)
	if err != nil {
		return err
	}
	q := c.ParseQuery("confirm")
	confirm := q.Line("confirm")
	if q.Err() != nil {
		return q.Err()
	}
	var request wire.PolicyRequest
	if err := c.DecodeJSON(&request); err != nil {
		return err
	}
	wanted, err := policyOf(&request, s.Catalog.Parser(), name)
	if err != nil {
		return err
	}
	_, stood := s.Catalog.Selector().ByName(name) // or another node has just made it
	ctx := c.Context()
	if confirm != name {
		if expect, err = s.confirmPolicy(ctx, wanted, expect); err != nil {
			return err
		}
	}
	p, err := s.Policies.PutPolicy(ctx, c.Actor(), wanted, expect)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if !stood && p.Version == 1 {
		status = http.StatusCreated
		c.Set(fiber.HeaderLocation, wire.PathPolicies+"/"+name)
	}
	return sendPolicy(c, status, p)
}

// confirmPolicy refuses a policy that is broad and was not confirmed. It returns
// the version to expect: where any will do, that which it compared.
func (s *API) confirmPolicy(ctx context.Context, wanted *rules.Policy, expect int64) (int64, error) {
	if blocklist.BroadPolicy(nil, wanted) == "" {
		return expect, nil
	}
	before, err := s.Policies.FindPolicyByName(ctx, wanted.Name)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return expect, err
	}
	if expect == rules.ExpectAny {
		expect = rules.ExpectNew
		if before != nil {
			expect = before.Version
		}
	}
	return expect, blocklist.NeedConfirmPolicy(wanted.Name, blocklist.BroadPolicy(before, wanted))
}

func (s *API) deletePolicy(c *httpserver.Call) error {
	name, err := c.PathParam("name")
	if err != nil {
		return err
	}
	expect, given, err := ifMatch(c)
	if err != nil {
		return err
	}
	if !given {
		return fault.New(fault.NeedVersion, "Deleting a policy needs the header If-Match with the version that you have seen, or * for any.")
	}
	ctx := c.Context()
	if err := s.Policies.DeletePolicy(ctx, c.Actor(), name, expect); err != nil {
		return err
	}
	return c.SendStatus(http.StatusNoContent)
}

// ifMatch returns the version that a change expects: rules.ExpectAny for "*",
// rules.ExpectNew and false where the header is not there.
func ifMatch(c *httpserver.Call) (expect int64, given bool, err error) {
	text := strings.TrimSpace(c.Get(fiber.HeaderIfMatch))
	switch text {
	case "":
		return rules.ExpectNew, false, nil
	case "*":
		return rules.ExpectAny, true, nil
	}
	version, err := strconv.ParseInt(strings.Trim(text, `"`), 10, 64)
	if err != nil || version < 1 {
		return 0, true, fault.Field(fiber.HeaderIfMatch, `must be one version in quotes, for example "3", or *`)
	}
	return version, true, nil
}
