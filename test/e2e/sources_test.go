package e2e_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

// crashRows is the length of a list whose pull takes long enough to be killed in the middle.
const crashRows = 50_000

// addressesFrom returns a list of addresses.
func addressesFrom(from, count int) string {
	var b strings.Builder
	for n := from; n < from+count; n++ {
		fmt.Fprintf(&b, "11.%d.%d.%d\n", n>>16, n>>8&255, n&255)
	}
	return b.String()
}

// crashing is an installation of one node that is killed, and started again on what it left.
type crashing struct {
	start func() *node
	// isChanging reports whether a transaction changes the database now.
	isChanging func() bool
	execute    func(statement string)
}

func embeddedCrashing(t *testing.T) crashing {
	data := filepath.Join(t.TempDir(), "data")
	on := func(do func(db *sql.DB) error) error {
		db, err := sql.Open("sqlite", filepath.Join(data, "stint.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		db.SetMaxOpenConns(1)
		return do(db)
	}
	return crashing{
		start: func() *node { return startNode(t, "--data-dir", data, "--notify-allow-private", "true") },
		isChanging: func() bool {
			return on(func(db *sql.DB) error {
				_, err := db.ExecContext(context.Background(), "BEGIN IMMEDIATE; ROLLBACK")
				return err
			}) != nil
		},
		execute: func(statement string) {
			if err := on(func(db *sql.DB) error { _, err := db.ExecContext(context.Background(), statement); return err }); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func distributedCrashing(t *testing.T) crashing {
	of := shared(t)
	return crashing{
		start: func() *node { return of.start(t, 1, "--notify-allow-private", "true")[0] },
		isChanging: func() bool {
			return of.execute(t, "SELECT 1 FROM revision WHERE id = 1 FOR UPDATE SKIP LOCKED") == 0
		},
		execute: func(statement string) { of.execute(t, statement) },
	}
}

// TestANodeThatIsKilledInAPullLeavesTheOldListOrTheNew kills a node while it downloads a list, and while
// it writes its rows.
func TestANodeThatIsKilledInAPullLeavesTheOldListOrTheNew(t *testing.T) {
	for name, open := range map[string]func(*testing.T) crashing{"embedded": embeddedCrashing, "distributed": distributedCrashing} {
		t.Run(name, func(t *testing.T) {
			before, after := addressesFrom(0, crashRows), addressesFrom(crashRows/4, crashRows)
			var published atomic.Pointer[string]
			published.Store(&before)
			half, rest := make(chan struct{}), make(chan struct{})
			list := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				text := *published.Load()
				if text == before {
					_, _ = io.WriteString(w, text)
					return
				}
				_, _ = io.WriteString(w, text[:len(text)/2])
				w.(http.Flusher).Flush()
				select {
				case half <- struct{}{}:
				case <-rest:
				case <-r.Context().Done():
				}
				select {
				case <-rest:
				case <-r.Context().Done():
				}
				_, _ = io.WriteString(w, text[len(text)/2:])
			}))
			t.Cleanup(list.Close)

			c := open(t)
			n := c.start()
			n.awaitReady()
			n.must(http.StatusCreated, post, wire.PathBlockSources, fmt.Sprintf(`{"name":"bad","url":%q,"as":"block"}`, list.URL))
			mustHold(n, before)
			published.Store(&after)
			pull := func() {
				go func() {
					_, _ = try(post, n.admin+wire.PathBlockSources+"/bad/pull", "", "Authorization: Bearer "+n.token)
				}()
			} // its node is killed
			restart := func() {
				n.end(syscall.SIGKILL)
				c.execute("DELETE FROM leases WHERE name = 'source:bad'") // as after the time that a killed node keeps it
				n = c.start()
				n.awaitReady()
			}

			pull()
			<-half // the node has a part of the list
			restart()
			mustHold(n, before)

			close(rest)
			pull()
			changing := 0 // in a row: a flush of statistics takes less long
			servers.Await(t, "the node writes the rows", func() bool {
				if changing++; !c.isChanging() {
					changing = 0
				}
				return changing == 5
			})
			restart()
			if rows := heldRows(n); !slices.Equal(rows, sortedRows(before)) && !slices.Equal(rows, sortedRows(after)) {
				t.Fatalf("%d rows are in force, neither the old list nor the new", len(rows))
			}
			n.must(http.StatusOK, post, wire.PathBlockSources+"/bad/pull", "")
			mustHold(n, after)
			if first, last := n.about("ip:11.0.0.0"), n.about(fmt.Sprintf("ip:11.0.%d.0", (crashRows+crashRows/4-1)>>8)); !first.Allowed || last.Allowed {
				t.Errorf("the first row of the old list is decided %+v, one of the new %+v", first, last)
			}
		})
	}
}

// TestAnotherNodeFollowsALargePull pulls a list on one node, of which 100,000 rows change, and waits until
// the other has all of them.
func TestAnotherNodeFollowsALargePull(t *testing.T) {
	const rows = 100_000
	var published atomic.Pointer[string]
	publish := func(text string) { published.Store(&text) }
	list := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, *published.Load()) }))
	t.Cleanup(list.Close)
	of := shared(t)
	all := of.start(t, 2, "--notify-allow-private", "true")
	for _, n := range all {
		n.awaitReady()
	}
	pulls, follows := all[0], all[1]
	publish(addressesFrom(0, rows))
	pulls.must(http.StatusCreated, post, wire.PathBlockSources, fmt.Sprintf(`{"name":"bad","url":%q,"as":"block"}`, list.URL))
	publish(addressesFrom(rows/2, rows))
	before := gauge(pulls, "stint_catalog_revision")
	done := make(chan struct{})
	go func() {
		defer close(done)
		if a, err := try(post, pulls.admin+wire.PathBlockSources+"/bad/pull", "", "Authorization: Bearer "+pulls.token); err != nil || a.status != http.StatusOK {
			t.Errorf("the pull: %d %s, %v", a.status, a.body, err)
		}
	}()
	servers.Await(t, "the pull is committed", func() bool { return of.execute(t, fmt.Sprintf("SELECT 1 FROM revision WHERE value > %v", before)) > 0 })
	committed := time.Now()
	servers.Await(t, "the other node has followed", func() bool { return gauge(follows, "stint_catalog_revision") > before })
	t.Logf("the other node had all rows %v after the commit", time.Since(committed).Round(10*time.Millisecond))
	<-done
	if got := gauge(follows, "stint_blocks"); got != rows {
		t.Errorf("the other node has %v blocks, want %d", got, rows)
	}
	for n, want := range map[int]bool{0: true, rows/2 - 1: true, rows / 2: false, rows: false, rows*3/2 - 1: false} {
		if d := follows.about(fmt.Sprintf("ip:11.%d.%d.%d", n>>16, n>>8&255, n&255)); d.Allowed != want {
			t.Errorf("row %d is decided %+v on the other node", n, d)
		}
	}
}

// gauge returns the value of a metric without labels.
func gauge(n *node, name string) float64 {
	n.Helper()
	for line := range strings.Lines(string(n.must(http.StatusOK, get, "/metrics", "").body)) {
		if text, is := strings.CutPrefix(line, name+" "); is {
			value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				n.Fatal(err)
			}
			return value
		}
	}
	n.Fatalf("there is no metric %s", name)
	return 0
}

// heldRows returns the addresses of a list that are in force, sorted.
func heldRows(n *node) (rows []string) {
	n.Helper()
	for line := range strings.Lines(string(n.must(http.StatusOK, get, wire.PathBlockExport+"?format=plain&author=list/bad", "").body)) {
		text, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		rows = append(rows, strings.TrimPrefix(text, "ip:"))
	}
	slices.Sort(rows)
	return rows
}

func sortedRows(list string) []string {
	rows := strings.Fields(list)
	slices.Sort(rows)
	return rows
}

func mustHold(n *node, list string) {
	n.Helper()
	rows := heldRows(n)
	if !slices.Equal(rows, sortedRows(list)) {
		n.Fatalf("%d rows are in force, want the %d of the list; the first are %q", len(rows), crashRows, rows[:min(3, len(rows))])
	}
	if s := read[wire.BlockSource](n, n.must(http.StatusOK, get, wire.PathBlockSources+"/bad", "")); s.Rows != crashRows {
		n.Errorf("the source is %+v", s)
	}
}
