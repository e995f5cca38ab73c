package envoy

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

// emptyView is a node without policies.
type emptyView struct{}

func (emptyView) Loaded() bool              { return true }
func (emptyView) Parser() keys.Parser       { return keys.Parser{} }
func (emptyView) Selector() *rules.Selector { return nil }

// counted counts the connections that are accepted.
type counted struct {
	net.Listener
	accepted atomic.Int64
}

func (l *counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.accepted.Add(1)
	}
	return c, err
}

// A client that calls all the time gets new connections, and none of its calls fails
// because of that.
func TestMaxConnectionAgeReplacesConnectionsWithoutErrors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connections := &counted{Listener: l}
	s := New(Options{View: emptyView{}, MaxConnectionAge: 20 * time.Millisecond})
	served := make(chan error, 1)
	go func() { served <- s.Serve(connections) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for deadline := time.Now().Add(time.Minute); connections.accepted.Load() < 3; {
		answer, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: HealthService})
		if err != nil || answer.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			t.Fatalf("Check after %d connections: got %v, %v", connections.accepted.Load(), answer, err)
		}
		if time.Now().After(deadline) {
			t.Fatal("the first connection is not replaced")
		}
	}
	if !s.Stop(time.Minute) {
		t.Error("Stop returned false")
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
