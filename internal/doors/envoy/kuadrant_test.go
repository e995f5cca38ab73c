package envoy

import (
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// kuadrantClient speaks the public proto of Limitador (kuadrantrls.proto) by its numbers, as Kuadrant's
// wasm-shim does, without anything of this package.
type kuadrantClient struct {
	*testing.T
	conn *grpc.ClientConn
}

func (c kuadrantClient) call(method string, q []byte) (answer []byte, err error) {
	ctx := metadata.AppendToOutgoingContext(c.Context(), "x-stint-token", rightToken)
	err = c.conn.Invoke(ctx, "/kuadrant.service.ratelimit.v1.RateLimitService/"+method, q, &answer, grpc.ForceCodecV2(rawCodec{}))
	return answer, err
}

// limit calls CheckRateLimit or Report.
func (c kuadrantClient) limit(method, domain string, hits uint32, who *commonv3.RateLimitDescriptor) ratelimitv3.RateLimitResponse_Code {
	c.Helper()
	raw, err := c.call(method, bytesOf(c.T, &ratelimitv3.RateLimitRequest{Domain: domain, HitsAddend: hits, Descriptors: []*commonv3.RateLimitDescriptor{who}}))
	var a ratelimitv3.RateLimitResponse
	if err != nil || proto.Unmarshal(raw, &a) != nil {
		c.Fatalf("%s: %v", method, err)
	}
	return a.GetOverallCode()
}

// message is a Reserve or a Commit: domain 1 and descriptors 2.
func (c kuadrantClient) message(domain, who string) []byte {
	b := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), domain)
	return protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), bytesOf(c.T, user(who)))
}

func (c kuadrantClient) reserve(who string, amount uint64, seconds int64) (code uint64, id string) {
	c.Helper()
	q := protowire.AppendVarint(protowire.AppendTag(c.message("ai", who), 3, protowire.VarintType), amount)
	q = protowire.AppendBytes(protowire.AppendTag(q, 4, protowire.BytesType), bytesOf(c.T, &durationpb.Duration{Seconds: seconds}))
	answer, err := c.call("Reserve", q)
	if err != nil {
		c.Fatal(err)
	}
	for len(answer) > 0 {
		number, kind, n := protowire.ConsumeTag(answer)
		answer = answer[n:]
		if kind == protowire.VarintType && number == 1 {
			code, n = protowire.ConsumeVarint(answer)
		} else {
			id, n = protowire.ConsumeString(answer)
		}
		answer = answer[n:]
	}
	return code, id
}

func (c kuadrantClient) commit(who, id string, used uint64) (released bool) {
	c.Helper()
	q := protowire.AppendString(protowire.AppendTag(c.message("ai", who), 3, protowire.BytesType), id)
	answer, err := c.call("Commit", protowire.AppendVarint(protowire.AppendTag(q, 4, protowire.VarintType), used))
	if err != nil {
		c.Fatal(err)
	}
	return len(answer) == 2 && answer[0] == 1<<3 && answer[1] == 1
}

// left finds how much of 1,000 a user has left by asking what fits.
func (c kuadrantClient) wantLeft(who string, left uint64) {
	c.Helper()
	code, id := c.reserve(who, left, 60)
	if code != 1 || id == "" {
		c.Fatalf("%d of %s are not left", left, who)
	}
	if more, _ := c.reserve(who, 1, 60); more != 2 {
		c.Errorf("more than %d of %s are left", left, who)
	}
	if !c.commit(who, id, 0) {
		c.Error("it is not released")
	}
}

// Reservations of Kuadrant's gateways are holds: never more than the limit, committed once however often they
// are sent, and a gateway that only checks or reports counts in the same log.
func TestKuadrantReservesAndCommits(t *testing.T) {
	var log timestamplog.Log
	n := newNode(t, logs{limits: func(its timestamplog.Log) timestamplog.Log { log = its; return its }})
	c := kuadrantClient{t, n.conn}
	code, id := c.reserve("ann", 700, 60)
	if code != 1 || id == "" {
		t.Fatalf("Reserve: %d, %q", code, id)
	}
	if open, _, err := log.Holds(t.Context(), timestamplog.LogID{Policy: 7, Key: "envoy:ai:user=ann"}); err != nil || len(open) != 1 || open[0].Source != "gateway" {
		t.Errorf("held: %+v, %v, want by the gateway of the token", open, err)
	}
	if code, none := c.reserve("ann", 400, 60); code != 2 || none != "" {
		t.Fatalf("beyond the limit: %d, %q", code, none)
	}
	if code, none := c.reserve("ann", 1001, 60); code != 2 || none != "" { // a gateway may let an error pass
		t.Fatalf("more than the limit can ever grant: %d, %q", code, none)
	}
	c.wantLeft("ann", 300)
	for range 2 { // a commit that is sent again is charged once
		if !c.commit("ann", id, 100) {
			t.Error("the commit released nothing")
		}
	}
	if c.commit("ann", id, 900) {
		t.Error("a reservation is committed twice")
	}
	c.wantLeft("ann", 900)
	if c.commit("ann", "", 50) || c.commit("ann", "f47ac10b-58cc", 50) { // as Report
		t.Error("nothing was reserved, and something was released")
	}
	c.wantLeft("ann", 800)
	if code := c.limit("CheckRateLimit", "ai", 5000, user("ann")); code != codeOK {
		t.Errorf("CheckRateLimit ignores the hits: %v", code)
	}
	c.wantLeft("ann", 800)
	if code := c.limit("Report", "ai", 799, user("ann")); code != codeOK {
		t.Errorf("Report: %v", code)
	}
	c.wantLeft("ann", 1)
	own := user("ann")
	own.HitsAddend = wrapperspb.UInt64(200_000) // beyond what a policy of requests takes
	if code := c.limit("Report", "ai", 0, own); code != codeOK {
		t.Errorf("Report refuses: %v", code)
	}
	if code := c.limit("CheckRateLimit", "ai", 0, user("ann")); code != codeOver {
		t.Errorf("CheckRateLimit of a used up budget: %v", code)
	}
	if code, id := c.reserve("ann", 0, 60); code != 2 || id != "" {
		t.Errorf("nothing of a used up budget: %d, %q", code, id)
	}
	if code, id := c.reserve("bob", 0, 60); code != 1 || id != "" {
		t.Errorf("nothing is reserved: %d, %q", code, id)
	}
	if code := c.limit("CheckRateLimit", "", 0, user("ann")); code != ratelimitv3.RateLimitResponse_UNKNOWN {
		t.Errorf("an empty domain: %v", code)
	}
	if code, id := c.reserve("cid", 1<<62, 60); code != 2 || id != "" {
		t.Errorf("more than any limit: %d, %q", code, id)
	}
	// A policy of requests holds nothing, and says so.
	q := protowire.AppendVarint(protowire.AppendTag(c.message("site", "cid"), 3, protowire.VarintType), 1)
	if _, err := c.call("Reserve", q); status.Code(err) != codes.InvalidArgument {
		t.Errorf("Reserve under a policy of requests: %v", err)
	}
	if code := c.limit("Report", "site", 2_000_000, user("dan")); code != codeOK {
		t.Errorf("a report of more than a policy of requests takes: %v", code)
	}
	if code := c.limit("CheckRateLimit", "site", 0, user("dan")); code != codeOver {
		t.Errorf("it was not charged: %v", code)
	}
}
