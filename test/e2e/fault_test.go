package e2e_test

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/servers"
)

var (
	allFaults   = flag.Bool("faults", false, "run the whole table of faults, not only its quick rows")
	reliability = flag.String("reliability", "", "the file that the outcome of the table of faults is written to")
)

// fault is one row of the table: what is done to a running pair of nodes under
// load, and what must hold during it and afterwards.
type fault struct {
	name    string // of the row: what fails
	done    string // what the row does
	promise string // what must hold; the checks are those of the row
	quick   bool   // a part of make test

	// start makes the servers of the nodes and starts the nodes. nil means two
	// nodes, each with its own proxy in front of one Redis and one Postgres.
	start     func(t *testing.T) *world
	redisArgs []string
	deadline  time.Duration // of a check; 10 s where 0, so that a busy machine is no outage
	dedicated bool          // the row disturbs Postgres itself

	inflict func(w *world)
	during  func(w *world) // checks while it lasts
	heal    func(w *world)
	after   func(w *world) // checks when it is over

	// degrades are the nodes whose checks about keys of the load must be
	// degraded while it lasts; others may be only where mayDegrade.
	degrades   []int
	mayDegrade bool
	silent     []int // nodes that may leave checks without an answer
	// loses is how often the log may lose entries, each time for at most N
	// more; a step of its clock ahead counts as one.
	loses int
}

// world has the servers and the nodes of a row.
type world struct {
	*testing.T
	backends
	redisWays, postgresWays []*servers.Proxy // of each node
	nodes                   []*node
	load                    *faultLoad
	cluster                 *servers.RedisCluster
}

// TestFaults runs the table on real nodes, with -faults all of its rows.
func TestFaults(t *testing.T) {
	table := faults()
	outcomes := make([]*outcome, len(table))
	for i, f := range table {
		if !f.quick && !*allFaults {
			continue
		}
		t.Run(strings.ReplaceAll(f.name, " ", "_"), func(t *testing.T) { outcomes[i] = f.try(t) })
	}
	if *reliability != "" && !t.Failed() {
		writeReliability(t, *reliability, table, outcomes)
	}
}

func faults() []fault {
	var all []fault
	for _, part := range [][]fault{redisFaults(), clusterFaults(), postgresFaults(), nodeFaults(), sqliteFaults()} {
		all = append(all, part...)
	}
	return all
}

// try runs one row.
func (f fault) try(t *testing.T) *outcome {
	w := &world{}
	if f.start != nil {
		w = f.start(t)
	} else {
		w = pair(t, f.deadline, f.dedicated, servers.DedicatedRedis(t, f.redisArgs...))
	}
	w.T = t
	w.load = startFaultLoad(w, f)
	w.load.awaitAll(false)
	began := time.Now()
	phase := func(name string) { t.Logf("%s after %s", name, time.Since(began).Round(time.Millisecond)) }
	f.inflict(w)
	phase("inflicted")
	for i := range w.nodes {
		switch {
		case slices.Contains(f.silent, i):
		case slices.Contains(f.degrades, i):
			w.load.await(i, true)
		default:
			w.load.await(i, false)
		}
	}
	phase("answered during it")
	if f.during != nil {
		f.during(w)
		phase("checked during it")
	}
	if f.heal != nil {
		f.heal(w)
		phase("healed")
	}
	w.load.awaitAll(false)
	phase("answered as before")
	if f.after != nil {
		f.after(w)
		phase("checked afterwards")
	}
	defer phase("judged")
	return w.load.judge()
}

// pair starts two nodes, each with its own proxy to each server.
func pair(t *testing.T, deadline time.Duration, dedicatedPostgres bool, redis *servers.RedisServer) *world {
	t.Helper()
	w := &world{T: t, backends: backends{redis: redis}}
	if dedicatedPostgres {
		w.postgres = servers.DedicatedPostgres(t)
	} else {
		w.postgres = servers.Postgres(t)
	}
	for range 2 {
		w.redisWays = append(w.redisWays, servers.NewProxy(t, w.redis.Addr))
		w.postgresWays = append(w.postgresWays, servers.NewProxy(t, w.postgres.Addr))
	}
	for i := range 2 {
		w.nodes = append(w.nodes, w.launch(i, deadline, strings.Replace(w.redis.URL, w.redis.Addr, w.redisWays[i].Addr, 1)))
	}
	w.awaitRunning()
	return w
}

// launch starts node i and waits for nothing.
func (w *world) launch(i int, deadline time.Duration, redisURL string) *node {
	w.Helper()
	if deadline == 0 {
		deadline = 10 * time.Second
	}
	args := []string{
		"--redis-url", redisURL, "--database-url", strings.Replace(w.postgres.URL, w.postgres.Addr, w.postgresWays[i].Addr, 1),
		"--check-deadline", deadline.String(),
	}
	return launch(w.T, []string{"STINT_ADMIN_TOKEN=" + adminToken}, append(args, onFreePorts...)...)
}

func (w *world) awaitRunning() {
	w.Helper()
	for _, n := range w.nodes {
		n.awaitRunning()
		n.awaitReady()
	}
}
