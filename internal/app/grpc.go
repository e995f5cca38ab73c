package app

import (
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/doors/envoy"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/metrics"
	"github.com/stint-dev/stint/internal/redisconn"
	"github.com/stint-dev/stint/internal/timestamplog/tracedlog"
)

// grpcDoor is the gRPC listener. Its fields are nil if it is disabled.
type grpcDoor struct {
	listener net.Listener
	server   *envoy.Server
}

// listen binds the address, with TLS if the check listener has a certificate.
func (g *grpcDoor) listen(s Settings, log *slog.Logger) (err error) {
	if s.GRPCListen != "" {
		g.listener, err = bind("grpc-listen", s.GRPCListen, log)
	}
	return err
}

// routes returns the routes of the door on the check listener.
func (g *grpcDoor) routes() []httpserver.Route {
	if g.server == nil {
		return nil
	}
	return g.server.Routes()
}

// build creates the server that answers Envoy, if enabled. The Rate Limit Service has its own
// gate, only for its deadline.
func (g *grpcDoor) build(a *App) error {
	if g.listener == nil {
		return nil
	}
	maxBatch := 0
	if redisconn.TargetOf(a.settings.RedisURL).IsCluster() {
		maxBatch = 1
	}
	g.server = envoy.New(envoy.Options{
		MaxBatch: maxBatch,
		Gate:     a.gate, Limits: newGate(a, a.settings.GRPCDeadline, true), View: a.catalog, Challenges: a.challenges, JA4Header: a.settings.JA4Header,
		Clients:   a.live.clients,
		Authorize: func(address netip.Addr, token string) (string, error) { return a.server.AuthorizeCheck(address, token) },
		Knows:     func(token string) bool { return httpserver.KnowsCheckToken(a.server, token) },
		TLS:       a.live.checkCert.config(), Logger: a.log, Reflection: a.settings.GRPCReflection,
		Tracer: a.tracer, Conns: a.conns.grpc,
		Observe: func(status int, took time.Duration, traceID string) {
			a.metrics.Check(&metrics.CheckAnswer{Door: envoy.Door, Outcome: envoy.OutcomeOf(status), Status: status, Took: took, At: time.Now(), IDs: metrics.IDs{Trace: traceID}})
		},
	})
	return nil
}

// newGate returns a gate that waits for the log until a deadline. If isStrict, the deadline
// applies to a batch as a whole.
func newGate(a *App, deadline time.Duration, isStrict bool) *gate.Gate {
	recorders := gate.Recorders{a.recorder, a.metrics, a.events}
	if a.eventLog != nil {
		recorders = append(recorders, a.eventLog.log)
	}
	return gate.New(gate.Options{
		InAttack: a.catalog.InAttack,
		View:     a.catalog, Log: tracedlog.New(a.backends.log, a.tracer), Local: a.backends.local, Deadline: deadline, DeadlineOfAll: isStrict,
		Recorder: recorders, Reports: a.recorder, Bots: a.bots, Crowds: a.crowds,
		Unsaid: func(warning string) { a.log.Warn(warning) },
	})
}
