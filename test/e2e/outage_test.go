package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

// phaseAnswers is the number of answers of each policy in a phase of a test.
const phaseAnswers = 20

// outageNode starts a node on a Redis that the test may disturb, with the
// default deadline of checks.
func outageNode(t *testing.T, redisArgs ...string) (backends, *node) {
	t.Helper()
	s := backends{servers.DedicatedRedis(t, redisArgs...), servers.Postgres(t)}
	return s, s.start(t, 1, "--check-deadline", "250ms")[0]
}

func TestPoliciesFollowOnFailureWithoutRedis(t *testing.T) {
	for name, test := range map[string]struct {
		args             []string
		disturb, recover func(s backends)
		lost             bool
	}{
		"killed and back with its file": {
			args:    []string{"--appendonly", "yes", "--appendfsync", "always"},
			disturb: func(s backends) { s.redis.Kill() },
			recover: func(s backends) { s.redis.Restart(false) },
		},
		"killed and back empty": {
			disturb: func(s backends) { s.redis.Kill() },
			recover: func(s backends) { s.redis.Restart(true) },
			lost:    true,
		},
		"stopped and continued": {
			disturb: func(s backends) { s.redis.Stop() },
			recover: func(s backends) { s.redis.Continue() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, n := outageNode(t, test.args...)
			l := startLoad(t, n)
			l.awaitMore(false, phaseAnswers)
			test.disturb(s)
			l.awaitMore(true, phaseAnswers)
			wantOutageShown(t, n)
			wantLocalLimit(t, n)
			test.recover(s)
			l.awaitMore(false, phaseAnswers)
			servers.Await(t, "the outage is over in /readyz", func() bool { return n.part("log").OK })
			l.end()
			l.wantChargedOnce(test.lost)
		})
	}
}

// wantOutageShown checks that the node keeps working, and reports the outage.
func wantOutageShown(t *testing.T, n *node) {
	t.Helper()
	servers.Await(t, "/readyz shows the outage and stays ready", func() bool {
		_, ready := n.ready()
		return ready && !n.part("log").OK
	})
	if x := n.explain("deny:somebody"); !x.Degraded || x.DegradedReason == "" {
		t.Errorf("the explanation does not show the outage: %+v", x)
	}
	problem(t, n.as(del, wire.PathKeys+"?key=deny:somebody", ""), http.StatusServiceUnavailable)
}

// wantLocalLimit checks that the rules apply in an outage too.
func wantLocalLimit(t *testing.T, n *node) {
	t.Helper()
	for i := range 7 {
		want := wire.Allowed
		if i >= 5 {
			want = wire.Limited
		}
		if d := n.about("local:limited"); d.Decision != want || !d.Degraded {
			t.Errorf("request %d under on_failure local: got %s, degraded %v, want %s", i, d.Decision, d.Degraded, want)
		}
		if d := n.about("allow:limited"); !d.Allowed || !d.Degraded {
			t.Errorf("request %d under on_failure allow: got %+v", i, d)
		}
	}
}

func TestFlushedFunctionsAndCutConnectionsChargeOnce(t *testing.T) {
	for name, command := range map[string][]any{
		"functions flushed": {"function", "flush"},
		"connections cut":   {"client", "kill", "type", "normal", "skipme", "yes"},
	} {
		t.Run(name, func(t *testing.T) {
			s, n := outageNode(t)
			redis := s.commands(t)
			l := startLoad(t, n)
			for range 20 {
				l.awaitMore(false, 2)
				if err := redis.Do(t.Context(), command...).Err(); err != nil {
					t.Fatal(err)
				}
			}
			l.awaitMore(false, phaseAnswers)
			l.end()
			l.wantChargedOnce(false)
		})
	}
}

func TestChecksContinueWhilePostgresIsStopped(t *testing.T) {
	t.Parallel() // it waits until a write times out
	s := backends{servers.Redis(t), servers.DedicatedPostgres(t)}
	n := s.start(t, 1)[0]
	l := startLoad(t, n)
	l.awaitMore(false, phaseAnswers)
	s.postgres.Stop()
	l.awaitMore(false, phaseAnswers)
	refused := problem(t, n.as(post, wire.PathBlocks, `{"literal":true,"pattern":"local:late","reason":"while it was away"}`), http.StatusServiceUnavailable)
	if refused.Code != "unavailable" {
		t.Errorf("a write in the outage: got the problem %+v", refused)
	}
	servers.Await(t, "/readyz reports the outage of the database and stays ready", func() bool {
		_, ready := n.ready()
		return ready && !n.part("database").OK
	})
	l.awaitMore(false, phaseAnswers)
	s.postgres.Continue()
	servers.Await(t, "the database is back", func() bool { return n.part("database").OK })
	servers.Await(t, "writes are accepted again", func() bool {
		return n.as(post, wire.PathBlocks, `{"literal":true,"pattern":"local:after","on_conflict":"replace"}`).status == http.StatusCreated
	})
	if d := n.about("local:after"); d.Decision != wire.Blocked {
		t.Errorf("a block after the outage does not apply: %+v", d)
	}
	l.end()
	if l.degraded["local"]+l.degraded["allow"]+l.degraded["deny"] > 0 {
		t.Error("checks were degraded although Redis answered")
	}
	l.wantChargedOnce(false)
}

// While Postgres is stopped, the overview comes from memory and does not take that for a trouble
// of Redis.
func TestOverviewShowsWhatFailsWhilePostgresIsStopped(t *testing.T) {
	t.Parallel() // it waits until the node has noticed
	s := backends{servers.Redis(t), servers.DedicatedPostgres(t)}
	n := s.start(t, 1)[0]
	n.awaitReady()
	const password = "a password of the tests"
	n.must(http.StatusCreated, post, wire.PathUsers, `{"name":"maria","role":"viewer","password":"`+password+`"}`)
	cookie := n.logIn(t, "maria", password)
	n.about("local:seen") // before it, the page is that of the first steps
	overview := func() answer { return n.send(get, n.admin+"/", "", "Cookie: "+cookie) }
	if a := overview(); a.status != http.StatusOK || strings.Contains(string(a.body), "Nothing can be changed") {
		t.Fatalf("got %d: %s", a.status, a.body)
	}
	s.postgres.Stop()
	a := overview()
	for _, text := range []string{"Nothing can be changed until the database", "answers in "} {
		if a.status != http.StatusOK || !strings.Contains(string(a.body), text) {
			t.Errorf("got %d without %q: %s", a.status, text, a.body)
		}
	}
	if n.part("database").OK {
		t.Error("/readyz does not report what the overview does")
	}
	if a := n.as(get, "/metrics", ""); !strings.Contains(string(a.body), "\nstint_database_outage 1\n") {
		t.Errorf("the metrics do not report what the overview does: %s", a.body)
	}
	s.postgres.Continue()
	servers.Await(t, "the overview of the database", func() bool {
		a := overview()
		return a.status == http.StatusOK && strings.Contains(string(a.body), "Top offenders")
	})
}

func TestKilledPostgresLosesNoAcknowledgedWrite(t *testing.T) {
	s := backends{servers.Redis(t), servers.DedicatedPostgres(t)}
	n := s.start(t, 1)[0]
	var kept []string
	var unknown string // the key whose block may have been saved
	var killing sync.WaitGroup
	for i, writes := 0, true; writes; i++ {
		key := fmt.Sprintf("token:%d", i)
		switch a := n.as(post, wire.PathBlocks, `{"literal":true,"pattern":"`+key+`"}`); a.status {
		case http.StatusCreated:
			kept = append(kept, key)
		case http.StatusInternalServerError:
			switch p := problem(t, a, a.status); p.Code {
			case "saved": // killed after the commit, before the node read the change
				kept = append(kept, key)
			case "maybe_saved": // killed during the commit
				unknown = key
			default:
				t.Fatalf("got %+v", p)
			}
			writes = false
		case http.StatusServiceUnavailable:
			writes = false
		default:
			t.Fatalf("got %d: %s", a.status, a.body)
		}
		if i == 20 {
			killing.Go(s.postgres.Kill) // during the writes that follow
		}
	}
	killing.Wait()
	s.postgres.Restart(false)
	fresh := s.start(t, 1)[0] // which reads the blocks from the database
	if unknown != "" && strings.Contains(string(fresh.must(http.StatusOK, get, wire.PathAudit+"?action=block&limit=1", "").body), `"`+unknown+`"`) {
		kept, unknown = append(kept, unknown), ""
	}
	for _, n := range []*node{n, fresh} {
		for _, key := range kept {
			servers.Await(t, "the saved block of "+key+" applies", func() bool { return n.about(key).Decision == wire.Blocked })
		}
		if unknown != "" && n.about(unknown).Decision == wire.Blocked {
			t.Errorf("%s is blocked and the audit log does not have it", unknown)
		}
	}
}
