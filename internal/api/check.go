package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/api/checkjson"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/ratelimit"
	"github.com/stint-dev/stint/internal/wire"
)

// checkHandler answers checks, cancels reservations and settles holds.
type checkHandler struct {
	gate    *gate.Gate
	catalog View
	scratch sync.Pool // of *checkScratch
	headers ratelimit.Headers
	encoder checkjson.Encoder
	// challenges reads passes; nil takes none.
	challenges *challenge.Service
}

// setPass sets the pass of a check that was sent one that holds for its key.
func (h *checkHandler) setPass(check *gate.Check, pass string) {
	if pass == "" || h.challenges == nil {
		return
	}
	network, _ := check.Key.Network()
	for one := range strings.FieldsSeq(pass) {
		if key, ok := h.challenges.ReadPass(one, network.Addr()); ok {
			check.Pass = key
			return
		}
	}
}

func (h *checkHandler) routes() []route {
	all := []route{
		onChecks(post, wire.PathCheck, identity.Check, h.handleCheck, opCheck),
		onChecks(post, wire.PathBatch, identity.Check, h.handleBatch, opBatch),
		onChecks(del, wire.PathReservations+"/:handle", identity.Check, h.cancelReservation, opCancelReservation),
		onChecks(post, wire.PathHolds+"/:handle", identity.Check, h.settleHold, opSettleHold),
		onChecks(del, wire.PathHolds+"/:handle", identity.Check, h.releaseHold, opReleaseHold),
		onChecks(post, wire.PathHolds+"/:handle/extend", identity.Check, h.extendHold, opExtendHold),
	}
	all[0].Fast, all[3].Fast = h.fastCheck, h.fastSettle
	for i, door := range []string{"check", "batch", "reservation", "hold", "hold", "hold"} {
		all[i].Door = door
	}
	return all
}

var (
	opCheck = &openapi.Operation{
		ID: "check", Tag: wire.TagChecks, Summary: "Check whether a key, or several keys as one, may make one more request.",
		Body: openapi.Union{Name: "CheckBody", Doc: "A check of one key, or of several as one.", Of: []any{wire.CheckRequest{}, wire.KeysRequest{}}},
		Answers: []openapi.Answer{
			{Status: http.StatusOK, Doc: "Allowed.", Body: decided, Headers: quota},
			{Status: http.StatusTooManyRequests, Doc: "Limited by a rule.", Body: decided, Headers: waitAndQuota},
			{Status: http.StatusForbidden, Doc: "Blocked by a block.", Body: decided, Headers: waitAndQuota},
			{Status: http.StatusServiceUnavailable, Doc: "An outage under on_failure deny.", Body: decided, Headers: waitAndQuota},
		},
	}
	opBatch = &openapi.Operation{
		ID: "checkBatch", Tag: wire.TagChecks, Summary: "Make up to 1,000 checks in one request, each on its own.",
		Body: wire.BatchRequest{}, Answers: ok("The decisions in the order of the checks, with a problem in place of each invalid check.", wire.BatchAnswer{}),
	}
	opCancelReservation = &openapi.Operation{
		ID: "cancelReservation", Tag: wire.TagChecks, Summary: "Cancel a reservation before its time, or what a cancellable check was charged while it counts.",
		Answers: ok("Whether the cancellation freed room for other requests.", wire.Cancelled{}),
	}
)

// The headers of answers to checks.
var (
	quota        = []openapi.Header{openapi.RateLimit, openapi.RateLimitPolicy}
	waitAndQuota = []openapi.Header{openapi.RetryAfter, openapi.RateLimit, openapi.RateLimitPolicy}
)

// decided is the response to a check: about one key, or about several.
var decided = openapi.Union{Name: "CheckAnswer", Doc: "The decision about one key, or about several as one.", Of: []any{wire.Decision{}, wire.KeysDecision{}}}

// Limits of the bodies of checks.
const (
	checkBody = 64 << 10
	batchBody = httpserver.MaxBatchBody
)

// statusOfOutcome maps decisions to HTTP statuses.
var statusOfOutcome = map[gate.Outcome]int{
	gate.Allowed:     http.StatusOK,
	gate.Limited:     http.StatusTooManyRequests,
	gate.Blocked:     http.StatusForbidden,
	gate.Unavailable: http.StatusServiceUnavailable,
}

func (h *checkHandler) handleCheck(c *httpserver.Call) error {
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
		return h.checkKeys(c, &in)
	}
	check, err := in.GateCheck(h.catalog.Parser(), wire.DetailRules)
	if err != nil {
		return err
	}
	k := h.takeScratch()
	defer h.putScratch(k)
	h.setPass(&check, in.Pass)
	check.Meta, check.Caller = c.MetaWithTrace(check.Meta), c.Caller()
	k.checks = append(k.checks, check)
	h.decide(c, k)
	if k.errs[0] != nil {
		return k.errs[0]
	}
	d := &k.decisions[0]
	selector := h.catalog.Selector()
	k.buffer = h.encoder.AppendDecision(k.buffer, d, selector)
	h.headers.Set(&c.Response().Header, d, selector)
	c.Outcome, c.Key = string(d.Outcome), d.Check.Key.String()
	if d.Policy != nil {
		c.Policy = d.Policy.Name
	}
	return k.send(c, statusOfOutcome[d.Plain()])
}

// fastCheck is handleCheck for checks on the fast path; see httpserver.FastHandler.
func (h *checkHandler) fastCheck(c *httpserver.FastCall) bool {
	k := h.takeScratch()
	defer h.putScratch(k)
	k.inputs = append(k.inputs, checkjson.Check{})
	in := &k.inputs[0]
	if !checkjson.DecodeUsual(c.Body, in) || in.Keys != nil {
		return false
	}
	check, err := in.GateCheck(h.catalog.Parser(), wire.DetailRules)
	if err != nil {
		return false
	}
	check.Caller = c.Caller()
	k.checks = append(k.checks, check)
	k.decisions = slices.Grow(k.decisions[:0], 1)[:1]
	k.errs = append(k.errs, nil)
	h.gate.DecideAt(context.Background(), c.Now, k.checks, k.decisions, k.errs)
	if k.errs[0] != nil {
		return false
	}
	d := &k.decisions[0]
	selector := h.catalog.Selector()
	c.Answer, c.ContentType = h.encoder.AppendDecision(c.Answer, d, selector), fiber.MIMEApplicationJSON
	c.Head = h.headers.Append(c.Head, d, selector)
	c.Status, c.Outcome, c.Key = statusOfOutcome[d.Plain()], string(d.Outcome), d.Check.Key.String()
	if d.Policy != nil {
		c.Policy = d.Policy.Name
	}
	return true
}

// checkKeys answers a check about several keys as one.
func (h *checkHandler) checkKeys(c *httpserver.Call, in *checkjson.Check) error {
	k := h.takeScratch()
	defer h.putScratch(k)
	var err error
	if k.checks, err = in.AppendGateChecks(k.checks, h.catalog.Parser()); err != nil {
		return err
	}
	for i := range k.checks {
		k.checks[i].Meta, k.checks[i].Caller = c.MetaWithTrace(k.checks[i].Meta), c.Caller()
		h.setPass(&k.checks[i], in.Pass)
	}
	j, err := h.gate.DecideAll(c.DecisionContext(), k.checks)
	if err != nil {
		return err
	}
	selector := h.catalog.Selector()
	k.buffer = h.encoder.AppendCombined(k.buffer, &j, in.MaxWait > 0 || in.Cancellable, selector)
	shown := j.Refused()
	if shown == nil {
		shown = ratelimit.Scarcest(j.Decisions)
	}
	h.headers.Set(&c.Response().Header, shown, selector)
	ratelimit.SetRetryAfter(&c.Response().Header, &j.Answer)
	c.Outcome = string(j.Outcome)
	return k.send(c, statusOfOutcome[j.Plain()])
}

// decide makes the gate decide all of k.checks.
func (h *checkHandler) decide(c *httpserver.Call, k *checkScratch) {
	n := len(k.checks)
	k.decisions = slices.Grow(k.decisions[:0], n)[:n]
	k.errs = slices.Grow(k.errs[:0], n)[:n]
	h.gate.Decide(c.DecisionContext(), k.checks, k.decisions, k.errs)
}

func (h *checkHandler) handleBatch(c *httpserver.Call) error {
	if err := c.RequireJSON(); err != nil {
		return err
	}
	body, err := c.ReadBody(batchBody)
	if err != nil {
		return err
	}
	k := h.takeScratch()
	defer h.putScratch(k)
	k.inputs, k.problems, err = checkjson.DecodeBatch(body, k.inputs, k.problems)
	if err != nil {
		return err
	}
	parser := h.catalog.Parser()
	for i := range k.inputs {
		if k.problems[i] != nil {
			continue
		}
		check, err := k.inputs[i].GateCheck(parser, wire.DetailNone)
		if err != nil {
			k.problems[i] = err
			continue
		}
		check.Meta, check.Caller = c.MetaWithTrace(check.Meta), c.Caller()
		h.setPass(&check, k.inputs[i].Pass)
		k.checks = append(k.checks, check)
	}
	h.decide(c, k)
	if !h.catalog.Loaded() && len(k.errs) > 0 {
		return k.errs[0]
	}
	k.buffer = append(k.buffer, `{"decisions":[`...)
	asked, selector := 0, h.catalog.Selector()
	for i, problem := range k.problems {
		if i > 0 {
			k.buffer = append(k.buffer, ',')
		}
		if problem == nil {
			problem = k.errs[asked]
			if problem == nil {
				k.buffer = h.encoder.AppendDecision(k.buffer, &k.decisions[asked], selector)
			}
			asked++
		}
		if problem != nil {
			k.buffer = h.appendProblem(k.buffer, problem)
		}
	}
	k.buffer = append(k.buffer, "]}"...)
	return k.send(c, http.StatusOK)
}

// appendProblem appends the problem that replaces a decision.
func (h *checkHandler) appendProblem(b []byte, err error) []byte {
	text, encodeErr := json.Marshal(httpserver.ProblemOf(err), json.Deterministic(true))
	if encodeErr != nil { // cannot happen: a problem holds only values that can be encoded
		return append(b, "null"...)
	}
	return append(b, text...)
}

// cancelReservation cancels a reservation by its handle.
func (h *checkHandler) cancelReservation(c *httpserver.Call) error {
	freed, err := h.gate.Cancel(c.DecisionContext(), c.Params("handle"))
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wire.Cancelled{Freed: freed})
}

// checkScratch is the working memory of the handler of a check. Later checks reuse it.
type checkScratch struct {
	inputs    []checkjson.Check
	problems  []error
	checks    []gate.Check
	decisions []gate.Decision
	errs      []error
	buffer    []byte
}

// maxBuffer is the capacity of the largest response buffer that is kept for later checks.
const maxBuffer = 1 << 20

func (h *checkHandler) takeScratch() *checkScratch {
	if k, ok := h.scratch.Get().(*checkScratch); ok {
		return k
	}
	return new(checkScratch)
}

// putScratch clears k and keeps its memory, unless it is large.
func (h *checkHandler) putScratch(k *checkScratch) {
	if cap(k.buffer) > maxBuffer {
		k.buffer = nil
	}
	clear(k.inputs)
	clear(k.problems)
	clear(k.checks)
	for i := range k.decisions {
		k.decisions[i].Reset()
	}
	clear(k.errs)
	k.inputs, k.problems, k.checks = k.inputs[:0], k.problems[:0], k.checks[:0]
	k.decisions, k.errs, k.buffer = k.decisions[:0], k.errs[:0], k.buffer[:0]
	h.scratch.Put(k)
}

// send answers with a copy of the buffer.
func (k *checkScratch) send(c *httpserver.Call, status int) error {
	c.Status(status)
	c.Response().SetBody(k.buffer)
	c.Response().Header.SetContentType(fiber.MIMEApplicationJSON)
	return nil
}
