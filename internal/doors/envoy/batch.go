package envoy

import (
	"context"
	"sync"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/stint-dev/stint/internal/doors/envoy/grpcserver"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/supervise"
)

// methods are the methods whose calls are answered in batches: calls that arrive together on a
// connection need one request to the log. s.grpc answers the other methods.
var methods = []string{ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, authv3.Authorization_Check_FullMethodName}

// readMetadata are the names of the call metadata that the door reads.
var readMetadata = []string{authorizationMetadata, tokenMetadata, traceparentMetadata}

// batchHandler answers calls that arrive together.
type batchHandler struct{ *Server }

// batch is the working memory for calls that are answered together.
type batch struct {
	limits, checks questions
	alone          []*grpcserver.Call
}

// questions are calls of one method that each need one check.
type questions struct {
	calls     []*grpcserver.Call
	checks    []gate.Check
	decisions []gate.Decision
	errs      []error
}

var batches = sync.Pool{New: func() any { return new(batch) }}

// answerAll answers calls that were read together. Calls with one check each are decided
// together. The other calls, those with an error, and all calls if each may have a span, are
// answered individually, and do not wait for the batch.
func (h batchHandler) answerAll(calls []*grpcserver.Call) {
	b := batches.Get().(*batch)
	defer b.release()
	for _, c := range calls {
		isAdded := false
		err := supervise.Call("grpc call", func() (err error) {
			isAdded, err = h.add(b, c)
			return err
		})
		switch {
		case err != nil:
			h.refuse(c, err)
		case !isAdded:
			b.alone = append(b.alone, c)
		}
	}
	h.answerEach(b.alone, len(b.limits.calls)+len(b.checks.calls) == 0)
	if len(b.limits.calls) > 0 && len(b.checks.calls) > 0 { // each has its own deadline
		checks := new(questions)
		*checks, b.checks = b.checks, questions{}
		h.calls.HandOver(func() { h.checkAll(checks) })
	}
	h.limitAll(&b.limits)
	h.checkAll(&b.checks)
}

// answerEach answers calls individually and concurrently. here means that this goroutine has
// nothing else to do; it then answers the last call itself.
func (h batchHandler) answerEach(calls []*grpcserver.Call, here bool) {
	for i, c := range calls {
		if here && i == len(calls)-1 {
			h.answerAlone(c)
		} else {
			h.calls.HandOver(func() { h.answerAlone(c) })
		}
	}
}

func (b *batch) release() {
	b.limits.clear()
	b.checks.clear()
	clear(b.alone)
	b.alone = b.alone[:0]
	batches.Put(b)
}

func (q *questions) clear() {
	clear(q.calls)
	clear(q.checks)
	clear(q.decisions)
	clear(q.errs)
	q.calls, q.checks, q.decisions, q.errs = q.calls[:0], q.checks[:0], q.decisions[:0], q.errs[:0]
}

// add adds the check of a call to the batch. It returns false if the call must be answered
// individually: because it has several checks, may be shown a page, has a pass, is invalid, or has a token that may have to be
// counted as invalid. An error is the response to the call.
func (h batchHandler) add(b *batch, c *grpcserver.Call) (bool, error) {
	if h.o.Tracer != nil || !h.o.Knows(tokenOf(c.Metadata)) {
		return false, nil
	}
	if _, err := h.o.Authorize(c.Peer(), tokenOf(c.Metadata)); err != nil {
		return false, err
	}
	if c.Method == ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName {
		q := new(ratelimitv3.RateLimitRequest)
		if unmarshal(c.Message, q) != nil {
			return false, nil //nolint:nilerr // the plain version reports the error
		}
		l, err := h.readLimits(q)
		return err == nil && len(l.of) == 1 && b.limits.add(c, l.checks), nil
	}
	q := new(authv3.CheckRequest)
	if unmarshal(c.Message, q) != nil {
		return false, nil //nolint:nilerr // see above
	}
	address := h.addressKey(q.GetAttributes())
	if p := h.pageOf(q.GetAttributes(), address); p.isOwn() || p.isNavigation || !p.pass.IsZero() {
		return false, nil
	}
	checks, err := h.readCheck(q.GetAttributes(), address)
	return err == nil && b.checks.add(c, checks), nil
}

func (q *questions) add(c *grpcserver.Call, checks []gate.Check) bool {
	if len(checks) != 1 {
		return false
	}
	checks[0].Meta = metaOfTrace(parentOf(c.Metadata).TraceID())
	q.calls, q.checks = append(q.calls, c), append(q.checks, checks[0])
	return true
}

// limitAll answers calls of ShouldRateLimit.
func (h batchHandler) limitAll(q *questions) {
	one := []int{0}
	h.decideAll(q, h.o.Limits, func(d *gate.Decision) (proto.Message, error) {
		return h.limitAnswer(one, combinedOf(*d)), nil
	})
}

// checkAll answers calls of Check.
func (h batchHandler) checkAll(q *questions) {
	h.decideAll(q, h.o.Gate, func(d *gate.Decision) (proto.Message, error) { return h.answer(d) })
}

// decideAll makes the gate decide and sends the responses together. Calls that fail, for which
// nothing was charged, are answered individually.
func (h batchHandler) decideAll(q *questions, g *gate.Gate, answer func(*gate.Decision) (proto.Message, error)) {
	if len(q.calls) == 0 {
		return
	}
	q.decisions = append(q.decisions, make([]gate.Decision, len(q.checks))...)
	q.errs = append(q.errs, make([]error, len(q.checks))...)
	if panicked := supervise.Call("grpc calls", func() error {
		g.Decide(context.Background(), q.checks, q.decisions, q.errs)
		return nil
	}); panicked != nil {
		for _, c := range q.calls { // it is unknown what was charged
			h.refuse(c, panicked)
		}
		return
	}
	var failed []*grpcserver.Call
	done := q.calls[:0]
	now := time.Now()
	for i, c := range q.calls {
		if q.errs[i] != nil {
			failed = append(failed, c)
			continue
		}
		var m proto.Message
		err := supervise.Call("grpc call", func() (err error) {
			m, err = answer(&q.decisions[i])
			return err
		})
		h.encode(c, m, err)
		h.o.Observe(statusOf(m, err), now.Sub(c.Read), "")
		done = append(done, c)
	}
	if len(done) > 0 {
		grpcserver.Finish(done...)
	}
	h.answerEach(failed, true)
}

// refuse answers a call with an error.
func (h batchHandler) refuse(c *grpcserver.Call, err error) {
	h.encode(c, nil, err)
	h.o.Observe(statusOf(nil, err), time.Since(c.Read), "")
	grpcserver.Finish(c)
}

// encode sets the response of a call.
func (h batchHandler) encode(c *grpcserver.Call, m proto.Message, err error) {
	if err == nil {
		c.Answer, err = proto.MarshalOptions{}.MarshalAppend(c.Answer[:0], m)
	}
	if err != nil {
		c.Err = status.Convert(h.callError(err))
	}
}

// answerAlone answers a call as grpc-go's server does.
func (h batchHandler) answerAlone(c *grpcserver.Call) {
	var m proto.Message
	err := supervise.Call("grpc call", func() (err error) {
		m, err = h.callAlone(c)
		return err
	})
	h.encode(c, m, err)
	grpcserver.Finish(c)
}

func (h batchHandler) callAlone(c *grpcserver.Call) (proto.Message, error) {
	ctx := peer.NewContext(metadata.NewIncomingContext(context.Background(), c.Metadata), &peer.Peer{Addr: c.RemoteAddr()})
	var (
		q      proto.Message = new(authv3.CheckRequest)
		handle               = func(ctx context.Context, q any) (any, error) { return h.Check(ctx, q.(*authv3.CheckRequest)) }
	)
	if c.Method == ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName {
		q = new(ratelimitv3.RateLimitRequest)
		handle = func(ctx context.Context, q any) (any, error) {
			return h.ShouldRateLimit(ctx, q.(*ratelimitv3.RateLimitRequest))
		}
	}
	if err := unmarshal(c.Message, q); err != nil {
		return nil, status.Errorf(codes.Internal, "grpc: failed to unmarshal the received message: %v", err)
	}
	answer, err := h.unary(ctx, q, &grpc.UnaryServerInfo{Server: h.Server, FullMethod: c.Method}, handle)
	m, _ := answer.(proto.Message)
	return m, err
}
