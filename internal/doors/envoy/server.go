// Package envoy serves Envoy over gRPC on its own listener: the Rate Limit Service v3, that of Kuadrant, the
// external authorization service v3, health and, if enabled, reflection. The Rate Limit Service also accepts
// JSON on the check listener. Everything in a request that Envoy took from its client is
// untrusted. What is checked is decided by the operator's Envoy configuration (domain,
// descriptor keys, context extensions).
package envoy

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/stint-dev/stint/internal/challenge"
	"github.com/stint-dev/stint/internal/connlimit"
	"github.com/stint-dev/stint/internal/doors/envoy/grpcserver"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/ratelimit"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/supervise"
	"github.com/stint-dev/stint/internal/tracing"
)

// DefaultDeadline is how long the Rate Limit Service waits for the log. By default Envoy waits
// 20 ms and then allows the request.
const DefaultDeadline = 15 * time.Millisecond

// Limits of the listener.
const (
	maxMessage         = 256 << 10 // bytes; Envoy sends the request's headers, at most 60 KiB
	maxHeaders         = 16 << 10  // bytes of a call's own metadata
	maxStreams         = 1000      // concurrent calls on one connection
	handshakeTime      = 10 * time.Second
	requestTime        = 10 * time.Second
	maxConnectionAge   = 5 * time.Minute
	connectionAgeGrace = 10 * time.Second
	minPing            = 10 * time.Second
	maxBatch           = 64
)

// HealthService is the service that Envoy's health checks may name; "" is the whole node.
const HealthService = "ratelimit"

// View is the node's copy of what the door needs.
type View interface {
	Loaded() bool
	Parser() keys.Parser
	Selector() *rules.Selector
}

// Options make a Server. Gate, Limits, View and Authorize are required.
type Options struct {
	Gate *gate.Gate // for ext_authz
	// Limits is the gate of the Rate Limit Service, with its shorter deadline.
	Limits *gate.Gate
	View   View
	// Clients returns the ClientAddresses for ext_authz, which find clients behind trusted
	// proxies; nil trusts no header.
	Clients func() httpserver.ClientAddresses
	// Authorize refuses a call if the token, "" for none, does not allow it, and returns the token's name.
	Authorize func(address netip.Addr, token string) (caller string, err error)
	// Knows reports whether Authorize decides about a token, "" for none, without waiting; nil
	// means always. Calls with other tokens do not delay those that arrive with them.
	Knows func(token string) bool
	TLS   *tls.Config // nil for none
	// JA4Header is the header in which Envoy sends the JA4 fingerprint of the client's TLS, "" for none.
	JA4Header string
	// Challenges makes challenges and writes pages for ext_authz; nil refuses without pages.
	Challenges *challenge.Service
	// Reflection describes the services to clients such as grpcurl.
	Reflection bool
	// MaxConnectionAge is how long a connection is kept; 0 means five minutes. Envoy keeps one
	// connection for each worker, and finds new nodes only when it opens new ones. gRPC varies
	// the age by a tenth.
	MaxConnectionAge time.Duration
	// MaxBatch bounds the calls that are one request to the log; 0 means 64. Set it to 1 if the
	// log has several servers, so that a slow server delays only its own calls.
	MaxBatch int
	// Observe is called for every check with the corresponding HTTP status, and the id of its
	// trace if it has a span; nil for none.
	Observe func(status int, took time.Duration, traceID string)
	Tracer  *tracing.Tracer // nil for none
	// Conns holds the open connections and bounds their number; nil means no bound.
	Conns  *connlimit.Set
	Logger *slog.Logger // nil discards
}

// Server is the gRPC listener. See New.
type Server struct {
	authv3.UnimplementedAuthorizationServer
	ratelimitv3.UnimplementedRateLimitServiceServer
	o       Options
	headers ratelimit.Headers
	calls   *grpcserver.Server
	grpc    *grpc.Server // answers the calls that calls does not
	health  *health.Server
}

// New returns a server that does not listen yet.
func New(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MaxConnectionAge == 0 {
		o.MaxConnectionAge = maxConnectionAge
	}
	if o.MaxBatch == 0 {
		o.MaxBatch = maxBatch
	}
	if o.Clients == nil {
		o.Clients = func() httpserver.ClientAddresses { return httpserver.ClientAddresses{} }
	}
	if o.Knows == nil {
		o.Knows = func(string) bool { return true }
	}
	if o.Observe == nil {
		o.Observe = func(int, time.Duration, string) {}
	}
	s := &Server{o: o, health: health.NewServer()}
	s.grpc = grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage), grpc.ForceServerCodecV2(newCodec()), experimental.BufferPool(mem.NopBufferPool{}),
		grpc.UnaryInterceptor(s.unary), grpc.StreamInterceptor(s.stream),
	)
	ratelimitv3.RegisterRateLimitServiceServer(s.grpc, s)
	s.registerKuadrant()
	authv3.RegisterAuthorizationServer(s.grpc, s)
	healthv1.RegisterHealthServer(s.grpc, s.health)
	if o.Reflection {
		reflection.Register(s.grpc)
	}
	s.calls = grpcserver.New(grpcserver.Options{
		Methods: methods, Metadata: readMetadata, Answer: batchHandler{s}.answerAll, MaxBatch: o.MaxBatch, MaxMessage: maxMessage,
		Plain: plain{s}, SingleRequest: s.methodsWhere(func(m grpc.MethodInfo) bool { return !m.IsClientStream }),
		LongLived: s.methodsWhere(func(m grpc.MethodInfo) bool { return m.IsServerStream }), TLS: o.TLS, RequestTime: requestTime,
		MaxHeaders: maxHeaders, MaxStreams: maxStreams, HandshakeTime: handshakeTime,
		MaxAge: o.MaxConnectionAge, Grace: connectionAgeGrace, MinPing: minPing, Conns: o.Conns,
	})
	return s
}

// methodsWhere returns the paths of the methods that is accepts.
func (s *Server) methodsWhere(is func(grpc.MethodInfo) bool) (paths []string) {
	for service, info := range s.grpc.GetServiceInfo() {
		for _, m := range info.Methods {
			if is(m) {
				paths = append(paths, "/"+service+"/"+m.Name)
			}
		}
	}
	return paths
}

// plain is the gRPC server. It checks the token of a reflection call before it reads anything,
// whereas grpc-go reads messages before it calls a method.
type plain struct{ *Server }

// ServeHTTP implements http.Handler.
func (p plain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/grpc.reflection.") {
		token := tokenOf(metadata.MD{authorizationMetadata: r.Header.Values(authorizationMetadata), tokenMetadata: r.Header.Values(tokenMetadata)})
		if _, err := p.o.Authorize(socketAddress(r.RemoteAddr), token); err != nil {
			refusal := status.Convert(p.callError(err))
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(int(refusal.Code())))
			w.Header().Set(http.TrailerPrefix+"Grpc-Message", grpcserver.Escaped(refusal.Message()))
			return
		}
	}
	p.grpc.ServeHTTP(w, r)
}

// Serve answers on l until Stop. It returns nil after Stop.
func (s *Server) Serve(l net.Listener) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.setHealth()
	go supervise.Run(ctx, "grpc health", s.watchHealth)
	return s.calls.Serve(l)
}

// watchHealth keeps the health status up to date: whether the node can decide.
func (s *Server) watchHealth(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.setHealth()
		case <-ctx.Done():
			return
		}
	}
}

func (s *Server) setHealth() {
	serving := healthv1.HealthCheckResponse_NOT_SERVING
	if s.o.View.Loaded() {
		serving = healthv1.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus("", serving)
	s.health.SetServingStatus(HealthService, serving)
}

// Stop reports the node as not serving, accepts no more calls and waits for the running ones,
// at most for within. It reports whether all of them ended.
func (s *Server) Stop(within time.Duration) bool {
	s.health.Shutdown()
	all := s.calls.Stop(within)
	s.grpc.Stop()
	return all
}

// unary authorizes a call, and recovers from a panic in it.
func (s *Server) unary(ctx context.Context, q any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
	began := time.Now()
	isCheck := !isHealth(info.FullMethod)
	asked, span := ctx, (*tracing.Span)(nil)
	if isCheck {
		asked, span = s.trace(ctx, info.FullMethod, began)
	}
	err = supervise.Call("grpc call", func() (err error) {
		caller, err := s.authorize(ctx, info.FullMethod)
		if err != nil {
			return err
		}
		answer, err = handle(context.WithValue(asked, callerKey{}, caller), q)
		return err
	})
	if isCheck {
		status := statusOf(answer, err)
		endTrace(span, status, err)
		s.o.Observe(status, time.Since(began), span.Parent().TraceID())
	}
	return answer, s.callError(err)
}

func (s *Server) stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return s.callError(supervise.Call("grpc call", func() error {
		if _, err := s.authorize(stream.Context(), info.FullMethod); err != nil {
			return err
		}
		return handle(service, stream)
	}))
}

// isHealth reports whether a method is a probe, which needs no token.
func isHealth(method string) bool { return strings.HasPrefix(method, "/grpc.health.v1.Health/") }

// The metadata that may contain the token. If a name occurs twice, it counts as missing.
const (
	authorizationMetadata = "authorization"
	tokenMetadata         = "x-stint-token"
)

// callerKey is that of the name of a call's token in its context.
type callerKey struct{}

func (s *Server) authorize(ctx context.Context, method string) (caller string, err error) {
	if isHealth(method) {
		return "", nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	return s.o.Authorize(peerOf(ctx), tokenOf(md))
}

// tokenOf returns the token of a call, "" for none.
func tokenOf(md metadata.MD) string {
	if len(md) == 0 {
		return ""
	}
	if lines := md.Get(tokenMetadata); len(lines) == 1 {
		return strings.TrimSpace(lines[0])
	} else if lines := md.Get(authorizationMetadata); len(lines) == 1 {
		if scheme, secret, found := strings.Cut(lines[0], " "); found && strings.EqualFold(scheme, "Bearer") {
			return strings.TrimSpace(secret)
		}
	}
	return ""
}

// peerOf returns the address of a call's peer, the unspecified address if it has none.
func peerOf(ctx context.Context) netip.Addr {
	if p, found := peer.FromContext(ctx); found {
		return socketAddress(p.Addr.String())
	}
	return netip.IPv6Unspecified()
}

// socketAddress returns the address in a text with address and port.
func socketAddress(text string) netip.Addr {
	address, err := netip.ParseAddrPort(text)
	if err != nil {
		return netip.IPv6Unspecified()
	}
	return address.Addr().Unmap().WithZone("")
}

// codeOf maps faults to gRPC codes.
var codeOf = map[fault.Code]codes.Code{
	fault.Invalid: codes.InvalidArgument, fault.Malformed: codes.InvalidArgument, fault.TooLarge: codes.InvalidArgument,
	fault.Unauthorized: codes.Unauthenticated, fault.Forbidden: codes.PermissionDenied,
	fault.TooMany: codes.ResourceExhausted, fault.Unavailable: codes.Unavailable,
}

// callError converts err to a gRPC error. An error that is not the caller's mistake is logged,
// and its cause is not sent.
func (s *Server) callError(err error) error {
	if err == nil {
		return nil
	}
	var mistake *fault.Error
	if errors.As(err, &mistake) {
		if code, known := codeOf[mistake.Code]; known {
			return status.Error(code, mistake.Error())
		}
	}
	if _, isStatus := status.FromError(err); isStatus {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) { // the caller left, or waited no longer
		return status.FromContextError(err).Err()
	}
	s.o.Logger.Error("a gRPC call failed", "error", err)
	return status.Error(codes.Internal, "This node could not answer; its log has the cause.")
}
