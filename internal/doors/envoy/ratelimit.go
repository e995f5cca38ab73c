package envoy

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/ratelimit"
	"github.com/stint-dev/stint/internal/wire"
)

const (
	codeOK   = ratelimitv3.RateLimitResponse_OK
	codeOver = ratelimitv3.RateLimitResponse_OVER_LIMIT
)

// limits is one request to the Rate Limit Service: a check for each different key, and the
// check of each descriptor.
type limits struct {
	checks []gate.Check
	of     []int // index of the check of each descriptor
}

// readLimits converts a request to checks. Descriptors with the same key become one check with
// the sum of their costs. The error is a *fault.Error.
func (s *Server) readLimits(q *ratelimitv3.RateLimitRequest) (limits, error) {
	l := limits{of: make([]int, len(q.GetDescriptors()))}
	switch domain := q.GetDomain(); {
	case domain == "":
		return l, fault.Field("domain", "is empty; set it in Envoy's rate limit filter")
	case len(domain) > maxDomain:
		return l, fault.Field("domain", "has %d bytes; at most %d are allowed", len(domain), maxDomain)
	case len(l.of) == 0 || len(l.of) > maxDescriptors:
		return l, fault.Field("descriptors", "has %d; it must have 1 to %d", len(l.of), maxDescriptors)
	}
	parser := s.o.View.Parser()
	policy := s.domainPolicy(q.GetDomain())
	byKey := make(map[string]int, len(l.of))
	for i, d := range q.GetDescriptors() {
		check, err := readDescriptor(q, d)
		if err != nil {
			return l, err
		}
		if check.Key, check.Client, err = keyOf(parser, q.GetDomain(), d); err != nil {
			return l, err
		}
		_, isAddress := check.Key.Network()
		check.Detail, check.Source, check.Specific = true, "envoy", !isAddress
		if isAddress {
			check.Policy = policy
		}
		at, known := byKey[check.Key.String()]
		if !known {
			at = len(l.checks)
			byKey[check.Key.String()] = at
			l.checks = append(l.checks, check)
		} else {
			addCheck(&l.checks[at], check)
		}
		l.of[i] = at
	}
	return l, nil
}

// domainPolicy returns the policy with the name of the domain, "" for none. It decides about
// addresses, whose keys do not contain the domain.
func (s *Server) domainPolicy(domain string) string {
	if _, found := s.o.View.Selector().ByName(domain); found {
		return domain
	}
	return ""
}

// readDescriptor converts a descriptor to a check without a key. If the descriptor has its own
// hits, Envoy reports usage after the fact, as with apply_on_stream_done; 0 hits only peek.
func readDescriptor(q *ratelimitv3.RateLimitRequest, d *commonv3.RateLimitDescriptor) (gate.Check, error) {
	if d.GetIsNegativeHits() {
		return gate.Check{}, fault.Field("descriptors", "has negative hits: Stint does not credit hits, since it no longer knows what was charged")
	}
	hits := max(1, uint64(q.GetHitsAddend()))
	own := d.GetHitsAddend()
	if own != nil {
		hits = own.GetValue()
	}
	return gate.Check{
		Cost: int(max(1, min(hits, wire.MaxAmount))), Clipped: true, Peek: hits == 0, //nolint:gosec // bounded
		ChargeAlways: hits > 0 && own != nil || hits > wire.MaxCost,
	}, nil
}

// addCheck merges another check of the same key into c.
func addCheck(c *gate.Check, other gate.Check) {
	switch {
	case other.Peek:
		return
	case c.Peek:
		*c = other
		return
	}
	c.Cost = min(c.Cost+other.Cost, wire.MaxAmount)
	c.ChargeAlways = c.ChargeAlways || other.ChargeAlways || c.Cost > wire.MaxCost
}

// ShouldRateLimit implements the Rate Limit Service. All descriptors are one check: all are
// charged or none. Descriptors that only peek are checked first, and can refuse the others too.
func (s *Server) ShouldRateLimit(ctx context.Context, q *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	l, err := s.readLimits(q)
	if err != nil {
		return nil, err
	}
	if meta := metaOf(ctx); meta != nil {
		for i := range l.checks {
			l.checks[i].Meta = meta
		}
	}
	all, err := s.decide(ctx, l.checks)
	if err != nil {
		return nil, err
	}
	return s.limitAnswer(l.of, &all), nil
}

// limitAnswer converts a decision to a response; of has the check of each descriptor.
func (s *Server) limitAnswer(of []int, all *gate.Combined) *ratelimitv3.RateLimitResponse {
	answer := &ratelimitv3.RateLimitResponse{OverallCode: codeOK, Statuses: make([]*ratelimitv3.RateLimitResponse_DescriptorStatus, len(of))}
	if !all.Allowed() {
		answer.OverallCode = codeOver
	}
	for i, at := range of {
		answer.Statuses[i] = statusOfDescriptor(&all.Decisions[at])
	}
	shown := ratelimit.Summary(all)
	answer.ResponseHeadersToAdd = s.headersOf(&shown)
	answer.DynamicMetadata = metadataOf(&shown)
	return answer
}

// decide makes the gate decide checks of different keys as one. The gate sets its own deadline;
// a caller who has disconnected is charged anyway.
func (s *Server) decide(ctx context.Context, checks []gate.Check) (gate.Combined, error) {
	var asks, charges []gate.Check
	always := false
	for _, c := range checks {
		if c.Peek {
			asks = append(asks, c)
		} else {
			charges = append(charges, c)
			always = always || c.ChargeAlways
		}
	}
	for i := range charges {
		charges[i].ChargeAlways = always
	}
	if len(asks) == 0 || len(charges) == 0 {
		return decideAlike(ctx, s.o.Limits, append(asks, charges...))
	}
	first, err := decideAlike(ctx, s.o.Limits, asks)
	if err != nil {
		return first, err
	}
	if !first.Allowed() && !always {
		for i := range charges {
			charges[i].Peek = true
		}
	}
	second, err := decideAlike(ctx, s.o.Limits, charges)
	if err != nil {
		return second, err
	}
	// In the order of the checks, with the more severe of the two outcomes.
	all := second
	if !first.Allowed() {
		all = first
	}
	all.Decisions = make([]gate.Decision, 0, len(checks))
	for _, c := range checks {
		from := &second.Decisions
		if c.Peek {
			from = &first.Decisions
		}
		all.Decisions = append(all.Decisions, (*from)[0])
		*from = (*from)[1:]
	}
	return all, nil
}

// decideAlike is decide for checks that all charge or all only peek. A cost above every rule's
// limit counts as over the limit, not as an error: on an error, Envoy may allow the request.
func decideAlike(ctx context.Context, g *gate.Gate, checks []gate.Check) (gate.Combined, error) {
	all, err := ask(ctx, g, checks)
	var mistake *fault.Error
	if errors.As(err, &mistake) && (mistake.Field == "cost" || strings.HasSuffix(mistake.Field, ".cost")) {
		for i := range checks {
			checks[i].Peek, checks[i].ChargeAlways, checks[i].Hold, checks[i].HoldElse = true, true, 0, 0 // accepts any cost, and charges nothing
		}
		if over, again := ask(ctx, g, checks); again != nil || !over.Allowed() {
			return over, again
		}
	}
	return all, err
}

func ask(ctx context.Context, g *gate.Gate, checks []gate.Check) (gate.Combined, error) {
	if len(checks) > 1 {
		return g.DecideAllOrApart(ctx, checks)
	}
	d, err := g.Check(ctx, checks[0])
	return *combinedOf(d), err
}

func combinedOf(d gate.Decision) *gate.Combined {
	return &gate.Combined{Outcome: d.Outcome, ID: d.ID, Answer: d.Answer, Degraded: d.Degraded, Hold: d.Hold, Decisions: []gate.Decision{d}}
}

// statusOfDescriptor describes the rule that refuses or, if none does, the rule with the
// smallest ratio of its limit remaining.
func statusOfDescriptor(d *gate.Decision) *ratelimitv3.RateLimitResponse_DescriptorStatus {
	st := &ratelimitv3.RateLimitResponse_DescriptorStatus{Code: codeOK}
	if !d.Allowed() {
		st.Code = codeOver
		if !d.Never && !d.RetryAt.IsZero() {
			st.DurationUntilReset = wholeSeconds(d.RetryAfter())
		}
	}
	if d.Policy == nil || len(d.States) != len(d.Policy.Rules) || d.Exemption != nil {
		return st
	}
	at, least := d.Rule, 2.0
	for i, r := range d.Policy.Rules {
		if left := float64(d.States[i].Remaining) / float64(max(r.Limit, 1)); d.Rule < 0 && left < least {
			at, least = i, left
		}
	}
	if at < 0 || at >= len(d.States) {
		return st
	}
	st.CurrentLimit = limitOf(d.Policy.Rules[at])
	st.LimitRemaining = uint32(min(d.States[at].Remaining, math.MaxUint32)) //nolint:gosec // bounded
	if d.Allowed() {
		st.DurationUntilReset = wholeSeconds(time.Duration(d.States[at].ResetAfterMS) * time.Millisecond)
	}
	return st
}

// headersOf returns the headers for the client: Retry-After, RateLimit, RateLimit-Policy and,
// for a refusal, its id.
func (s *Server) headersOf(d *gate.Decision) []*corev3.HeaderValue {
	var space [512]byte
	lines := string(s.headers.Append(space[:0], d, s.o.View.Selector()))
	list := make([]*corev3.HeaderValue, 0, 4)
	for line := range strings.SplitSeq(lines, "\r\n") {
		if name, value, found := strings.Cut(line, ": "); found {
			list = append(list, &corev3.HeaderValue{Key: name, Value: value})
		}
	}
	if !d.Allowed() && !d.ID.IsZero() {
		list = append(list, &corev3.HeaderValue{Key: "X-Stint-Refusal-Id", Value: d.ID.String()})
	}
	return list
}

// metadataOf returns the metadata that Envoy may log, nothing for a plain allowed request.
func metadataOf(d *gate.Decision) *structpb.Struct {
	text := map[string]string{"degraded": d.Degraded, "refusal_id": d.ID.String()}
	if d.Shadow != nil {
		text["shadow_refusal_id"] = d.Shadow.ID.String()
	}
	fields := map[string]*structpb.Value{}
	for name, value := range text {
		if value != "" {
			fields[name] = structpb.NewStringValue(value)
		}
	}
	if len(fields) == 0 {
		return nil
	}
	fields["decision"] = structpb.NewStringValue(string(d.Outcome))
	if d.Policy != nil {
		fields["policy"] = structpb.NewStringValue(d.Policy.Name)
	}
	return &structpb.Struct{Fields: fields}
}

// OutcomeOf returns the outcome that corresponds to the HTTP status of a response, "" if there
// was no decision. The Rate Limit Service reports blocked requests as limited.
func OutcomeOf(status int) gate.Outcome {
	switch status {
	case http.StatusOK:
		return gate.Allowed
	case http.StatusTooManyRequests:
		return gate.Limited
	case http.StatusForbidden:
		return gate.Blocked
	case http.StatusServiceUnavailable:
		return gate.Unavailable
	}
	return ""
}

// statusOf returns the HTTP status that corresponds to a response, for metrics.
func statusOf(answer any, err error) int {
	switch a := answer.(type) {
	case *ratelimitv3.RateLimitResponse:
		if a != nil && a.GetOverallCode() == codeOver {
			return http.StatusTooManyRequests
		}
	case *dynamicpb.Message:
		if a == nil {
			break
		}
		if code := a.Descriptor().Fields().ByName("code"); code != nil && ratelimitv3.RateLimitResponse_Code(a.Get(code).Enum()) == codeOver {
			return http.StatusTooManyRequests
		}
	case *authv3.CheckResponse:
		if denied := a.GetDeniedResponse(); denied != nil {
			return int(denied.GetStatus().GetCode())
		}
	}
	var mistake *fault.Error
	switch {
	case err == nil:
		return http.StatusOK
	case errors.As(err, &mistake) && mistake.Code == fault.Unauthorized:
		return http.StatusUnauthorized
	case errors.As(err, &mistake) && mistake.Code == fault.Unavailable:
		return http.StatusServiceUnavailable
	case errors.As(err, &mistake):
		return http.StatusBadRequest
	}
	if _, isStatus := status.FromError(err); isStatus {
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}
