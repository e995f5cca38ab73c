package envoy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
)

// node is a door over a log in memory.
type node struct {
	emptyView
	selector *rules.Selector
	set      *blocks.Set
	profiles *profiles.Set
	conn     *grpc.ClientConn
	address  string

	mu       sync.Mutex
	observed []int
	charged  []string // what was recorded: key, outcome, cost and trace
}

func (n *node) Selector() *rules.Selector  { return n.selector }
func (n *node) Blocks() *blocks.Set        { return n.set }
func (n *node) Profiles() *profiles.Set    { return n.profiles }
func (n *node) Settings() catalog.Settings { return catalog.Settings{Secret: []byte("secret")} }

// Record implements gate.Recorder.
func (n *node) Record(d *gate.Decision) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.charged = append(n.charged, fmt.Sprint(d.Check.Key, d.Outcome, d.Check.Cost, d.Check.ChargeAlways, d.Check.Meta[httpserver.TraceKey]))
}

// heldLog is a log that answers when it is released.
type heldLog struct {
	timestamplog.Log
	released chan struct{}
}

func (l heldLog) Decide(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) {
	<-l.released
	l.Log.Decide(ctx, requests, results)
}

// unreachableLog is unreachable for keys with "down" in them.
type unreachableLog struct{ timestamplog.Log }

func (l unreachableLog) Decide(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) {
	l.Log.Decide(ctx, requests, results)
	for i := range requests {
		if strings.Contains(requests[i].Key, "down") {
			results[i] = timestamplog.Result{Err: timestamplog.ErrUnreachable}
		}
	}
}

func (l unreachableLog) DecideAll(ctx context.Context, requests []timestamplog.Request, results []timestamplog.Result) error {
	for i := range requests {
		if strings.Contains(requests[i].Key, "down") {
			return timestamplog.ErrUnreachable
		}
	}
	return l.Log.DecideAll(ctx, requests, results)
}

const (
	rightToken     = "right"
	panickingToken = "panics" // Authorize panics about it
)

// logs wrap the node's log for each service, nil for the log itself.
type logs struct {
	limits, checks func(timestamplog.Log) timestamplog.Log
}

// sorted returns what was observed and charged, without the order of time.
func (n *node) sorted() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	slices.Sort(n.observed)
	slices.Sort(n.charged)
	return fmt.Sprint(n.observed, strings.Join(n.charged, "\n"))
}

// newNode starts a door.
func newNode(t *testing.T, logs logs) *node {
	t.Helper()
	policyOf := func(id int64, name, match, stack string) *rules.Policy {
		rs, err := rules.ParseStack(strings.Fields(stack))
		if err != nil {
			t.Fatal(err)
		}
		pattern, err := keys.Parser{}.Pattern(match)
		if err != nil {
			t.Fatal(err)
		}
		return &rules.Policy{ID: id, Name: name, Version: 1, Match: []keys.Pattern{pattern}, Rules: rs,
			Mode: rules.Enforce, OnFailure: rules.FailLocal, Algorithm: algorithms.TimestampLog}
	}
	reported := policyOf(3, "logins", "envoy:site:*", "2/d")
	reported.Outcome = "login_failed"
	denying, allowing, trap := policyOf(4, "deny", "envoy:site:user=down-deny*", "1/d"), policyOf(5, "allow", "envoy:site:user=down-allow*", "1/d"), policyOf(6, "trap", "ip:*", "1/d")
	budget := policyOf(7, "budget", "envoy:ai:*", "1000/d")
	budget.Algorithm = algorithms.AmountLog
	denying.OnFailure, allowing.OnFailure = rules.FailDeny, rules.FailAllow
	var err error
	if trap.When, err = conditions.Parse(conditions.Texts{"path": {"/trap*"}}); err != nil {
		t.Fatal(err)
	}
	now := time.UnixMilli(1_790_000_000_000)
	clock := func() time.Time { return now }
	n := &node{selector: rules.NewSelector([]*rules.Policy{policyOf(1, "site", "envoy:site:*", "3/d"), policyOf(2, "clients", "ip:*", "2/d"), reported, denying, allowing, trap, budget}),
		set: blocks.NewSet(), profiles: profiles.NewSet()}
	for kind, text := range map[blocks.Kind]string{blocks.Block: "ip:198.51.100.66", blocks.Exemption: "ip:198.51.100.77"} {
		pattern, err := keys.Parser{}.Pattern(text)
		if err != nil {
			t.Fatal(err)
		}
		n.set.Apply(&blocks.Entry{Kind: kind, ID: text, Pattern: pattern}, now)
	}
	newLog := func() timestamplog.Log {
		log := memlog.New(memlog.Options{Now: clock})
		t.Cleanup(func() { log.Close() })
		return log
	}
	log, local := unreachableLog{newLog()}, newLog()
	gateOf := func(change func(timestamplog.Log) timestamplog.Log) *gate.Gate {
		o := gate.Options{View: n, Log: log, Local: local, Deadline: time.Minute, Recorder: n, Now: clock}
		if change != nil {
			o.Log = change(log)
		}
		return gate.New(o)
	}
	o := Options{View: n, Limits: gateOf(logs.limits), Gate: gateOf(logs.checks)}
	o.Authorize = func(_ netip.Addr, token string) (string, error) {
		if token == panickingToken {
			panic("a bug in the check of tokens")
		}
		if token != rightToken {
			return "", fault.New(fault.Unauthorized, "There is no such token.")
		}
		return "gateway", nil
	}
	o.Observe = func(status int, _ time.Duration, _ string) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.observed = append(n.observed, status)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(o)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	n.address = l.Addr().String()
	if n.conn, err = grpc.NewClient(n.address, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.conn.Close()
		s.Stop(time.Minute)
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return n
}

// rawCodec is a codec of messages that are encoded already.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

func bytesOf(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func limitRequest(t *testing.T, hits uint32, descriptors ...*commonv3.RateLimitDescriptor) []byte {
	return bytesOf(t, &ratelimitv3.RateLimitRequest{Domain: "site", HitsAddend: hits, Descriptors: descriptors})
}

func user(name string) *commonv3.RateLimitDescriptor {
	return &commonv3.RateLimitDescriptor{Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "user", Value: name}}}
}

func checkRequest(t *testing.T, address string, extensions map[string]string) []byte {
	return bytesOf(t, &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		ContextExtensions: extensions,
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{Address: address}}}},
	}})
}

// requestTo is a check about a client's request of a path.
func requestTo(t *testing.T, address, path string) []byte {
	t.Helper()
	q := new(authv3.CheckRequest)
	if err := proto.Unmarshal(checkRequest(t, address, nil), q); err != nil {
		t.Fatal(err)
	}
	q.Attributes.Request = &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Method: "GET", Path: path, Host: "shop.example"}}
	return bytesOf(t, q)
}

// The fast path and grpc-go return the same answers, charge the same and observe the same.
func TestFastPathAnswersLikeGRPCGo(t *testing.T) {
	limit, check := methods[0], methods[1]
	withCost := user("own")
	withCost.HitsAddend = wrapperspb.UInt64(2)
	peek := user("peek")
	peek.HitsAddend = wrapperspb.UInt64(0)
	fast, plain := newNode(t, logs{}), newNode(t, logs{})
	for name, row := range map[string]struct {
		method string
		ask    []byte
		md     []string
	}{
		"one":                  {limit, limitRequest(t, 0, user("one")), nil},
		"over the limit":       {limit, limitRequest(t, 4, user("over")), nil},
		"own cost":             {limit, limitRequest(t, 0, withCost), nil},
		"a peek":               {limit, limitRequest(t, 0, peek), nil},
		"one descriptor twice": {limit, limitRequest(t, 0, user("twice"), user("twice")), nil},
		"several":              {limit, limitRequest(t, 0, user("several"), user("others")), nil},
		"no descriptor":        {limit, limitRequest(t, 0), nil},
		"malformed":            {limit, []byte{0xff, 0xff}, nil},
		"not UTF-8":            {limit, latin1(limitRequest(t, 0, user("name"), user("caf?"))), nil},
		"one not UTF-8":        {limit, latin1(limitRequest(t, 0, user("th?"))), nil},
		"a check not UTF-8":    {check, latin1(requestTo(t, "198.51.100.8", "/caf?")), nil},
		"traced":               {limit, limitRequest(t, 0, user("traced")), []string{traceparentMetadata, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}},
		"no token":             {limit, limitRequest(t, 0, user("guess")), []string{tokenMetadata, "wrong"}},
		"a check":              {check, checkRequest(t, "198.51.100.1", nil), nil},
		"a check of a header":  {check, checkRequest(t, "198.51.100.2", map[string]string{"by": "header:x-key"}), nil},
		"a blocked client":     {check, checkRequest(t, "198.51.100.66", nil), nil},
		"an exempt client":     {check, checkRequest(t, "198.51.100.77", nil), nil},
		"no such policy":       {check, checkRequest(t, "198.51.100.3", map[string]string{"policy": "none"}), nil},
		"no address":           {check, checkRequest(t, "", nil), nil},
		"a cost too large":     {check, checkRequest(t, "198.51.100.4", map[string]string{"cost": "9"}), nil},
		"log down, local":      {limit, limitRequest(t, 0, user("down")), nil},
		"log down, denied":     {limit, limitRequest(t, 0, user("down-deny")), nil},
		"log down, allowed":    {limit, limitRequest(t, 0, user("down-allow")), nil},
		"log down, several":    {limit, limitRequest(t, 0, user("down-allow-one"), user("down-deny-one")), nil},
		"log down for one key": {limit, limitRequest(t, 0, user("up"), user("down-part")), nil},
		"conditions":           {check, requestTo(t, "198.51.100.6", "/trap.php?a=b"), nil},
		"other conditions":     {check, requestTo(t, "198.51.100.7", "/"), nil},
		"a malformed check":    {check, []byte{0xff, 0xff}, nil},
		"a traced check":       {check, checkRequest(t, "198.51.100.5", nil), []string{traceparentMetadata, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}},
	} {
		t.Run(name, func(t *testing.T) {
			for round := range 5 { // the limits are 2 and 3
				var texts []string
				for _, n := range []*node{fast, plain} {
					options := []grpc.CallOption{grpc.ForceCodecV2(rawCodec{})}
					if n == plain {
						options = append(options, grpc.UseCompressor(gzip.Name)) // which the fast path does not read
					}
					md := row.md
					if len(md) == 0 || md[0] != tokenMetadata {
						md = append([]string{tokenMetadata, rightToken}, md...)
					}
					var answer []byte
					err := n.conn.Invoke(metadata.AppendToOutgoingContext(t.Context(), md...), row.method, row.ask, &answer, options...)
					n.mu.Lock()
					texts = append(texts, fmt.Sprint(deterministic(t, row.method, answer), err, n.observed, n.charged))
					n.observed, n.charged = nil, nil
					n.mu.Unlock()
				}
				if texts[0] != texts[1] {
					t.Errorf("round %d: the fast path returned\n%s\nand grpc-go\n%s", round, texts[0], texts[1])
				}
			}
		})
	}
}

// deterministic returns an answer with its maps in order.
func deterministic(t *testing.T, method string, answer []byte) string {
	t.Helper()
	var m proto.Message = new(ratelimitv3.RateLimitResponse)
	if method == methods[1] {
		m = new(authv3.CheckResponse)
	}
	if err := proto.Unmarshal(answer, m); err != nil {
		t.Fatal(err)
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%q ", b)
}
