package envoy

import (
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/stint-dev/stint/internal/connlimit"
)

// healthClient returns a client with a connection of its own.
func healthClient(t *testing.T, address string) healthv1.HealthClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return healthv1.NewHealthClient(conn)
}

// watchHealth starts a health check that lasts until the connection ends.
func watchHealth(t *testing.T, address string) {
	t.Helper()
	stream, err := healthClient(t, address).Watch(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
}

func TestHealthWatchKeepsNoPlaceInAFullListener(t *testing.T) {
	address := serve(t, Options{Conns: connlimit.NewSet(1)})
	watchHealth(t, address)
	if _, err := healthClient(t, address).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
}

func TestStopDoesNotWaitForHealthWatches(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{View: emptyView{}})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	watchHealth(t, l.Addr().String())
	if !s.Stop(10 * time.Second) {
		t.Error("Stop cut the watch off, want it to end the connection")
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
