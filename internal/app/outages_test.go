package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/test/servers"
)

// The message of a fault is for callers: the operator's log has the cause too.
func TestOutageLogHasCauseOfDatabaseOutage(t *testing.T) {
	var logged bytes.Buffer
	o := &outageLog{log: slog.New(slog.NewTextHandler(&logged, nil)), answered: func() int64 { return 0 }}
	cause := errors.New("FATAL: too many connections\n(SQLSTATE 53300)")
	o.database(time.Now(), time.Time{}, &fault.Error{Code: fault.Unavailable, Message: "The database cannot be reached; nothing was changed.", Err: cause})
	if got := logged.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `cause="FATAL: too many connections (SQLSTATE 53300)"`) {
		t.Errorf("got the log %s, want one line with the cause", got)
	}
}

func TestOutageLogReportsDatabaseThatWentBack(t *testing.T) {
	var logged bytes.Buffer
	o := &outageLog{log: slog.New(slog.NewTextHandler(&logged, nil))}
	for _, revision := range []int64{7, 8, 5, 6} {
		o.changed(catalog.Changed{Revision: revision})
	}
	if got := logged.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "known_revision=8 revision=5") {
		t.Errorf("got %s", got)
	}
}

// What holds a start up, as the lock of another node's migration, is only in the cause.
func TestPreparerLogsCauseOfStartWithoutDatabase(t *testing.T) {
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	p := &preparer{log: log, lastKnown: newLastKnown(t.TempDir(), "postgres:a", log)}
	cause := errors.New("wait for another node's migration: context deadline exceeded")
	p.adoptLastKnown(&fault.Error{Code: fault.Unavailable, Message: "The database did not answer in time; nothing was changed.", Err: cause})
	if got := logged.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, cause.Error()) {
		t.Errorf("got %s", got)
	}
}

func TestReadyzReportsDatabaseThatRefusesWrites(t *testing.T) {
	server := servers.DedicatedPostgres(t)
	n := startNode(t, servers.Redis(t), server.URL, t.TempDir())
	setReadOnly := func(value string) {
		t.Helper()
		c, err := pgx.Connect(t.Context(), server.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		// A session that may write is needed to change the setting back.
		for _, statement := range []string{"SET default_transaction_read_only = off", "ALTER SYSTEM SET default_transaction_read_only = " + value, "SELECT pg_reload_conf()"} {
			if _, err := c.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	setReadOnly("on")
	servers.Await(t, "/readyz reports that no change is accepted", func() bool { _, r := n.ready(t); return !r.Changes })
	if status, r := n.ready(t); status != http.StatusOK || !r.Ready || !strings.Contains(detail(r, "database"), "accepts no writes") {
		t.Errorf("/readyz: got %d %+v", status, r)
	}
	if status := n.check(t, "ip:192.0.2.1"); status != http.StatusOK {
		t.Errorf("a check: got %d, want 200", status)
	}
	if status, _ := n.block(t, "ip:192.0.2.2"); status != http.StatusServiceUnavailable {
		t.Errorf("a change: got %d, want 503", status)
	}
	if !strings.Contains(n.metricsText(t), "\nstint_database_outage 1\n") {
		t.Error("stint_database_outage is not 1")
	}
	setReadOnly("off")
	servers.Await(t, "the node accepts changes", func() bool { _, r := n.ready(t); return r.Changes && detail(r, "database") == "" })
	const again = "the database accepts writes again"
	servers.Await(t, "the end is logged", func() bool { return n.log.Count(again) > 0 })
	if n.log.Count("the database accepts no writes; checks go on") != 1 || n.log.Count(again) != 1 {
		t.Errorf("got the log %s", n.log)
	}
}

func TestPeopleAreNotifiedOnceOfADatabaseThatAcceptsNoWrites(t *testing.T) {
	writes := &writeHealth{log: slog.New(slog.DiscardHandler)}
	var sent []string
	alert := newWritesAlert("a", writes, func(_ context.Context, all ...notify.Notification) {
		for _, one := range all {
			sent = append(sent, one.Subject)
		}
	})
	before := time.Now().Add(-minOutage)
	for _, err := range []error{errors.New("busy"), fmt.Errorf("%w: disk full", db.ErrRefusesWrites), db.ErrUnfit, errors.New("busy"), nil, nil} {
		writes.note(err, before)
		alert.check(t.Context())
	}
	if want := []string{"The database accepts no writes from node a", "The database accepts writes again for node a"}; !slices.Equal(sent, want) {
		t.Errorf("got %q, want %q", sent, want)
	}
}
