package api

import (
	"bytes"
	"context"
	"net/http"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

var (
	opSettleHold = &openapi.Operation{
		ID: "settleHold", Tag: wire.TagChecks, Summary: "Settle a hold with what was used.", BodyOptional: true, Conflict: true, Gone: true,
		Doc: "What was not used is returned as if it had never been charged; what was used beyond the hold is charged in full. The same again is answered the same for a minute. " +
			"Another cost after settling is 409 `settled`. After the hold has expired it is 410 `expired`, and what was used beyond what the policy kept is charged.",
		Body: wire.Settlement{}, Answers: ok("Settled.", wire.SettledHold{}),
	}
	opReleaseHold = &openapi.Operation{
		ID: "releaseHold", Tag: wire.TagChecks, Summary: "Release a hold, which charges nothing.", Conflict: true, Gone: true,
		Answers: ok("Released.", wire.SettledHold{}),
	}
	opExtendHold = &openapi.Operation{
		ID: "extendHold", Tag: wire.TagChecks, Summary: "Renew a hold, so that it expires later.", Conflict: true, Gone: true,
		Body: wire.Extension{}, Answers: ok("Renewed.", wire.SettledHold{}),
	}
)

// settleHold charges what was used of a hold.
func (h *checkHandler) settleHold(c *httpserver.Call) error {
	var in wire.Settlement
	if err := c.DecodeOptional(&in); err != nil {
		return err
	}
	cost := int64(gate.AsHeld)
	if in.Cost != nil {
		if cost = *in.Cost; cost < 0 || cost > wire.MaxAmount {
			return fault.Field("cost", "must be a whole number from 0 to %d; leave it out for what was held", wire.MaxAmount)
		}
	}
	return h.endHold(c, cost)
}

func (h *checkHandler) releaseHold(c *httpserver.Call) error { return h.endHold(c, 0) }

func (h *checkHandler) endHold(c *httpserver.Call, cost int64) error {
	settled, err := h.settled(c.DecisionContext(), c.Params("handle"), cost)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, settled)
}

func (h *checkHandler) settled(ctx context.Context, handle string, cost int64) (wire.SettledHold, error) {
	s, err := h.gate.Settle(ctx, handle, cost)
	state := "settled"
	if cost == 0 {
		state = "released"
	}
	return wire.SettledHold{State: state, Held: s.Held, Cost: s.Cost, Over: s.Over}, err
}

// fastSettle is settleHold for settlements on the fast path; see httpserver.FastHandler. The plain version
// answers one that is refused, which may settle it a second time: that changes and counts nothing.
func (h *checkHandler) fastSettle(c *httpserver.FastCall) bool {
	cost, isUsual := usualCost(c.Body)
	if !isUsual {
		return false
	}
	settled, err := h.settled(context.Background(), c.Param(), cost)
	if err != nil {
		return false
	}
	b := append(append(c.Answer, `{"state":"`...), settled.State...)
	b = strconv.AppendInt(append(b, `","held":`...), int64(settled.Held), 10)
	b = strconv.AppendInt(append(b, `,"cost":`...), int64(settled.Cost), 10)
	b = strconv.AppendInt(append(b, `,"over":`...), int64(settled.Over), 10)
	b = append(b, `,"expires_at":null}`...)
	c.Answer = b
	c.ContentType, c.Status = fiber.MIMEApplicationJSON, http.StatusOK
	return true
}

// usualCost reads a settlement in its usual spelling, of a cost of up to 15 digits.
func usualCost(body []byte) (cost int64, isUsual bool) {
	if string(body) == "{}" {
		return gate.AsHeld, true
	}
	text, begins := bytes.CutPrefix(body, []byte(`{"cost":`))
	text, ends := bytes.CutSuffix(text, []byte("}"))
	text = bytes.TrimPrefix(text, []byte(" "))
	if !begins || !ends || len(text) == 0 || len(text) > 15 || text[0] == '0' && len(text) > 1 {
		return 0, false
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		cost = 10*cost + int64(c-'0')
	}
	return cost, true
}

func (h *checkHandler) extendHold(c *httpserver.Call) error {
	var in wire.Extension
	if err := c.DecodeJSON(&in); err != nil {
		return err
	}
	if in.Hold < wire.MinHold || in.Hold > wire.MaxHold {
		return fault.Field("hold", "must be a duration from 1s to %s, for example \"10m\"", wire.MaxHold)
	}
	s, err := h.gate.Extend(c.DecisionContext(), c.Params("handle"), in.Hold.Std())
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wire.SettledHold{State: "held", Held: s.Held, Cost: s.Held, ExpiresAt: wire.At(s.Expires)})
}
