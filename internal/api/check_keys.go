package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

// checkKeys answers a check about several keys as one.
func (s *API) checkKeys(c *httpserver.Call, in *checkInput) error {
	k := s.takeScratch()
	defer s.putScratch(k)
	var err error
	if k.checks, err = checksOf(s.Catalog.Parser(), in, k.checks); err != nil {
		return err
	}
	j, err := s.Gate.DecideAll(context.Background(), k.checks) // as decide
	if err != nil {
		return err
	}
	k.buffer = appendCombined(k.buffer, &j, in)
	if first := j.Refused(); first != nil {
		s.setRateLimit(c, k, first)
		if j.Never {
			c.Response().Header.DelBytes(retryAfterHeader)
		} else {
			c.SetHeader(retryAfterHeader, strconv.AppendInt(k.header[:0], httpserver.CeilSeconds(retryAfterMS(&j.Answer)), 10))
		}
	}
	return k.send(c, statusOfOutcome[j.Outcome])
}

// checksOf returns what the gate is asked about each key. What is wrong with one
// is told with its place; what all have in common has none.
func checksOf(parser keys.Parser, in *checkInput, checks []gate.Check) ([]gate.Check, error) {
	for i, key := range in.Keys {
		one := *in
		one.Key, one.Policy, one.Cost = key.Key, key.Policy, key.Cost
		check, err := checkOf(parser, &one, wire.DetailRules)
		var mistake *fault.Error
		if errors.As(err, &mistake) && (mistake.Field == "key" || mistake.Field == "policy") {
			return nil, fault.Field(fmt.Sprintf("keys[%d].%s", i, mistake.Field), "%s", mistake.Message)
		}
		if err != nil {
			return nil, err
		}
		checks = append(checks, check)
	}
	return checks, nil
}

// appendCombined appends the JSON of a wire.KeysDecision. The reservation is the whole's, so
// the parts say nothing of it.
func appendCombined(b []byte, j *gate.Combined, in *checkInput) []byte {
	b = append(b, `{"id":`...)
	b = appendNullText(b, j.ID)
	b = append(b, `,"decision":"`...)
	b = append(b, j.Outcome...)
	b = append(b, `","allowed":`...)
	b = strconv.AppendBool(b, j.Allowed())
	b = append(b, `,"degraded":`...)
	b = strconv.AppendBool(b, j.Degraded != "")
	if j.Degraded != "" {
		b = append(b, `,"degraded_reason":`...)
		b = appendText(b, j.Degraded)
	}
	b = appendRetry(b, &j.Answer)
	if in.MaxWait > 0 || j.Delay > 0 {
		b = appendWaiting(b, &j.Answer, j.Handle)
	}
	if j.Replayed {
		b = append(b, `,"replayed":true`...)
	}
	b = append(b, `,"decisions":[`...)
	for i := range j.Decisions {
		if i > 0 {
			b = append(b, ',')
		}
		part := j.Decisions[i]
		part.Check.MaxWait, part.Delay = 0, 0
		b = appendDecision(b, &part)
	}
	return append(b, "]}"...)
}

// cancelReservation cancels a reservation by its handle.
func (s *API) cancelReservation(c *httpserver.Call) error {
	freed, err := s.Gate.Cancel(context.Background(), c.Params("handle"))
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wire.Cancelled{Freed: freed})
}
