package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

const goesOn = "no check is degraded; a block or a policy cannot be changed and the answer says so; nothing acknowledged is lost; it ends by itself"

func postgresFaults() []fault {
	var unlock func()
	writesAgain := func(w *world) {
		for i := range w.nodes {
			w.writes(i)
		}
	}
	row := func(name, done, promise string, inflict, during, heal func(w *world)) fault {
		return fault{name: name, done: done, promise: promise, dedicated: true, inflict: inflict, during: during, heal: heal, after: writesAgain}
	}
	refuses := func(w *world) {
		w.awaitWritesRefused(0, "")
		w.load.awaitAll(false)
	}
	stopped := row("Postgres stopped", "SIGSTOP, then SIGCONT", goesOn, func(w *world) { w.postgres.Stop() }, refuses, func(w *world) { w.postgres.Continue() })
	killed := row("Postgres killed", "kill -9, started again", goesOn, func(w *world) { w.postgres.Kill() }, refuses, func(w *world) { w.postgres.Restart(false) })
	killed.quick = true
	all := []fault{
		killed, stopped,
		row("Postgres locked", "another program holds the table of revisions", goesOn,
			func(w *world) { unlock = w.lock("LOCK TABLE revision IN ACCESS EXCLUSIVE MODE") }, refuses, func(*world) { unlock() }),
		row("Postgres's disk is full", "every new block is refused by SQLSTATE 53100", goesOn,
			func(w *world) {
				w.execute(w.T, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$`)
				w.execute(w.T, `CREATE TRIGGER full_disk BEFORE INSERT ON entries FOR EACH ROW EXECUTE FUNCTION full_disk()`)
			},
			func(w *world) { w.awaitWritesRefused(0, "space") },
			func(w *world) { w.execute(w.T, `DROP TRIGGER full_disk ON entries`) }),
		row("poison rows", "the offences of one key cannot be written", "those of all others are, and no check is degraded",
			func(w *world) {
				w.execute(w.T, `CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'poison' USING ERRCODE = '22021'; END $$`)
				w.execute(w.T, `CREATE TRIGGER poison BEFORE INSERT OR UPDATE ON offences FOR EACH ROW WHEN (NEW.key = 'local:poison') EXECUTE FUNCTION poison()`)
			},
			func(w *world) {
				for range keyLimit + 3 {
					w.nodes[0].about("local:poison")
					w.nodes[0].about("local:innocent")
				}
				servers.Await(w, "the offences of others are written", func() bool {
					return strings.Contains(string(w.nodes[0].as(get, wire.PathOffenders+"?last=1h&search=innocent", "").body), "local:innocent")
				})
			},
			func(w *world) { w.execute(w.T, `DROP TRIGGER poison ON offences`) }),
	}
	for _, ms := range []int{1, 5} {
		all = append(all, row(fmt.Sprintf("Postgres %d ms away", ms), fmt.Sprintf("%d ms more each way on both nodes", ms), "everything works: a block governs both nodes",
			func(w *world) { w.delayPostgres(time.Duration(ms) * time.Millisecond) }, writesAgain, func(w *world) { w.delayPostgres(0) }))
	}
	return all
}

func (w *world) delayPostgres(d time.Duration) {
	for _, way := range w.postgresWays {
		way.Delay(d)
	}
}

// awaitWritesRefused waits until a change is refused because of the outage;
// the answer must contain says.
func (w *world) awaitWritesRefused(i int, says string) {
	w.Helper()
	servers.Await(w, "a change is refused", func() bool {
		a := w.nodes[i].as(post, wire.PathBlocks, `{"literal":true,"pattern":"token:during","on_conflict":"replace"}`)
		if a.status == http.StatusCreated || a.status == http.StatusOK {
			return false
		}
		if p := problem(w, a, http.StatusServiceUnavailable); p.Code != "unavailable" || !strings.Contains(p.Detail, says) {
			w.Fatalf("the problem is %+v, want %q in it", p, says)
		}
		return true
	})
}

// writes waits until node i accepts a block, which must apply on all nodes.
func (w *world) writes(i int) {
	w.Helper()
	pattern := fmt.Sprintf("token:written-%d-%d", i, time.Now().UnixNano())
	servers.Await(w, fmt.Sprintf("node %d accepts a block", i), func() bool {
		return w.nodes[i].as(post, wire.PathBlocks, `{"literal":true,"pattern":"`+pattern+`","on_conflict":"replace"}`).status/100 == 2
	})
	for at, n := range w.nodes {
		servers.Await(w, fmt.Sprintf("the block applies on node %d", at), func() bool { return n.about(pattern).Decision == wire.Blocked })
	}
}

// lock holds a lock on the database until the function is called.
func (w *world) lock(statement string) (unlock func()) {
	w.Helper()
	ctx := context.Background()
	connection, err := pgx.Connect(ctx, w.postgres.URL)
	if err != nil {
		w.Fatal(err)
	}
	tx, err := connection.Begin(ctx)
	if err == nil {
		_, err = tx.Exec(ctx, statement)
	}
	if err != nil {
		w.Fatal(err)
	}
	return func() {
		_ = tx.Rollback(ctx) // the connection is closed at once
		connection.Close(ctx)
	}
}
