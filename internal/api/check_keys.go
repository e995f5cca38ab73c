package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/stint-dev/stint/internal/api/checkjson"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

// checkKeys answers a check about several keys as one.
func (s *API) checkKeys(c *httpserver.Call, in *checkjson.Check) error {
	k := s.takeScratch()
	defer s.putScratch(k)
	var err error
	if k.checks, err = in.AppendGateChecks(k.checks, s.Catalog.Parser()); err != nil {
		return err
	}
	j, err := s.Gate.DecideAll(context.Background(), k.checks) // as decide
	if err != nil {
		return err
	}
	k.buffer = checkjson.AppendCombined(k.buffer, &j, in.MaxWait > 0)
	if first := j.Refused(); first != nil {
		s.setRateLimit(c, k, first)
		if j.Never {
			c.Response().Header.DelBytes(retryAfterHeader)
		} else {
			c.SetHeader(retryAfterHeader, strconv.AppendInt(k.header[:0], httpserver.CeilSeconds(checkjson.RetryAfterMS(&j.Answer)), 10))
		}
	}
	return k.send(c, statusOfOutcome[j.Outcome])
}

// cancelReservation cancels a reservation by its handle.
func (s *API) cancelReservation(c *httpserver.Call) error {
	freed, err := s.Gate.Cancel(context.Background(), c.Params("handle"))
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wire.Cancelled{Freed: freed})
}
