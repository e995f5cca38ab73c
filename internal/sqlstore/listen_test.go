package sqlstore_test

import (
	"context"
	"log/slog"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

// Listen tries to connect every second, and an outage may last hours.
func TestListenLogsOutageAndRecoveryOnce(t *testing.T) {
	f := storetest.OpenPostgres(t)
	target, err := url.Parse(f.URL)
	if err != nil {
		t.Fatal(err)
	}
	way := servers.NewProxy(t, target.Host)
	target.Host = way.Addr
	var logged servers.Output
	s, err := sqlstore.New(target.String(), sqlstore.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, stop := context.WithCancel(t.Context())
	woken, done := make(chan struct{}, 100), make(chan struct{})
	go func() {
		defer close(done)
		s.Listen(ctx, func() { woken <- struct{}{} })
	}()
	<-woken
	way.Cut()
	servers.Await(t, "several connections were tried", func() bool { return way.Refused() >= 3 })
	way.Join()
	<-woken
	stop()
	<-done
	if lost, found := logged.Count("polling goes on"), logged.Count("arrive again"); lost != 1 || found != 1 {
		t.Errorf("one outage is logged %d times and its end %d times, want once each", lost, found)
	}
}

// The limit of a server on idle sessions would end the connection that listens
// each time that nothing changes.
func TestListenSurvivesIdleSessionTimeoutOfServer(t *testing.T) {
	f := storetest.OpenPostgres(t)
	f.Exec(t, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET idle_session_timeout = 200', current_database()); END $$")
	var logged servers.Output
	s, err := sqlstore.New(f.URL, sqlstore.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Ping(t.Context()); err != nil { // it leaves a connection idle
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	woken, done := make(chan struct{}, 100), make(chan struct{})
	go func() {
		defer close(done)
		s.Listen(ctx, func() { woken <- struct{}{} })
	}()
	<-woken
	idle, err := pgx.Connect(t.Context(), f.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close(t.Context())
	if _, err := idle.WaitForNotification(t.Context()); err == nil || t.Context().Err() != nil {
		t.Fatalf("the server ended no idle session: %v", err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	stop()
	<-done
	if text := logged.String(); text != "" {
		t.Errorf("the connection that listens was lost: %s", text)
	}
}
