package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/api/checkjson"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

// Limits of the bodies of checks.
const (
	checkBody = 64 << 10
	batchBody = httpserver.MaxCheckListenerBody
)

// statusOfOutcome is the one place where a decision becomes HTTP.
var statusOfOutcome = map[gate.Outcome]int{
	gate.Allowed:     http.StatusOK,
	gate.Limited:     http.StatusTooManyRequests,
	gate.Blocked:     http.StatusForbidden,
	gate.Unavailable: http.StatusServiceUnavailable,
}

func (s *API) handleCheck(c *httpserver.Call) error {
	if err := c.RequireJSON(); err != nil {
		return err
	}
	body, err := c.ReadBody(checkBody)
	if err != nil {
		return err
	}
	in, err := checkjson.Decode(body)
	if err != nil {
		return err
	}
	if in.Keys != nil {
		return s.checkKeys(c, &in)
	}
	check, err := in.GateCheck(s.Catalog.Parser(), wire.DetailRules)
	if err != nil {
		return err
	}
	k := s.takeScratch()
	defer s.putScratch(k)
	k.checks = append(k.checks, check)
	s.decide(k)
	if k.errs[0] != nil {
		return k.errs[0]
	}
	d := &k.decisions[0]
	k.buffer = checkjson.AppendDecision(k.buffer, d)
	s.setRateLimit(c, k, d)
	return k.send(c, statusOfOutcome[d.Outcome])
}

// decide asks the gate about all of k.checks.
func (s *API) decide(k *checkScratch) {
	n := len(k.checks)
	k.decisions = slices.Grow(k.decisions[:0], n)[:n]
	k.errs = slices.Grow(k.errs[:0], n)[:n]
	// The gate has its own deadline. A caller who has gone is charged all the
	// same, since the answer may be on its way.
	s.Gate.Decide(context.Background(), k.checks, k.decisions, k.errs)
}

// send answers with a copy of the buffer.
func (k *checkScratch) send(c *httpserver.Call, status int) error {
	c.Status(status)
	c.Response().SetBody(k.buffer)
	c.Response().Header.SetContentType(fiber.MIMEApplicationJSON)
	return nil
}

func (s *API) handleBatch(c *httpserver.Call) error {
	if err := c.RequireJSON(); err != nil {
		return err
	}
	body, err := c.ReadBody(batchBody)
	if err != nil {
		return err
	}
	k := s.takeScratch()
	defer s.putScratch(k)
	k.inputs, k.problems, err = checkjson.DecodeBatch(body, k.inputs, k.problems)
	if err != nil {
		return err
	}
	parser := s.Catalog.Parser()
	for i := range k.inputs {
		if k.problems[i] != nil {
			continue
		}
		check, err := k.inputs[i].GateCheck(parser, wire.DetailNone)
		if err != nil {
			k.problems[i] = err
			continue
		}
		k.checks = append(k.checks, check)
	}
	s.decide(k)
	if !s.Catalog.Loaded() && len(k.errs) > 0 {
		return k.errs[0]
	}
	k.buffer = append(k.buffer, `{"decisions":[`...)
	asked := 0
	for i, problem := range k.problems {
		if i > 0 {
			k.buffer = append(k.buffer, ',')
		}
		if problem == nil {
			problem = k.errs[asked]
			if problem == nil {
				k.buffer = checkjson.AppendDecision(k.buffer, &k.decisions[asked])
			}
			asked++
		}
		if problem != nil {
			k.buffer = s.appendProblem(k.buffer, problem)
		}
	}
	k.buffer = append(k.buffer, "]}"...)
	return k.send(c, http.StatusOK)
}

// appendProblem appends the problem that stands in the place of a decision.
func (s *API) appendProblem(b []byte, err error) []byte {
	text, encodeErr := json.Marshal(httpserver.ProblemOf(err))
	if encodeErr != nil { // a problem holds nothing that cannot be written
		return append(b, "null"...)
	}
	return append(b, text...)
}
