package e2e_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

// strict refuses every check of a host except the first, even in a long test.
const strict = `{"match":["host:*"],"rules":["1/31d"],"mode":"enforce"}`

// attack checks a key a number of times and returns how many checks were refused.
func (n *node) attack(key string, times int) (refused int64) {
	n.Helper()
	for range times {
		switch d := n.about(key); d.Decision {
		case wire.Limited, wire.Blocked:
			refused++
		case wire.Allowed:
		default:
			n.Fatalf("got %+v", d)
		}
	}
	return refused
}

// offencesOf returns the offences of one key in the report.
func (n *node) offencesOf(key string) (offences int64) {
	n.Helper()
	for _, row := range n.offenders("&search=" + url.QueryEscape(key)).Items {
		offences += row.Offences
	}
	return offences
}

func (n *node) knows(t *testing.T, key, policy string) {
	t.Helper()
	servers.Await(t, "the node has the policy "+policy, func() bool {
		return string(n.ask(fmt.Sprintf(`{"key":%q,"peek":true}`, key)).Policy) == policy
	})
}

// escalated returns the block of a key and checks that it has the first level.
func (n *node) escalated(t *testing.T, key string) wire.Entry {
	t.Helper()
	x := n.explain(key)
	if x.Decision != wire.Blocked || len(x.Blocks) != 1 || x.Escalation == nil || x.Escalation.Level != 1 {
		t.Fatalf("%s is %s with %d blocks, escalation %+v", key, x.Decision, len(x.Blocks), x.Escalation)
	}
	return x.Blocks[0]
}

func TestKilledNodeLosesOnlyUnflushedOffences(t *testing.T) {
	// next returns a node that runs after the previous one has ended.
	for name, start := range map[string]func(t *testing.T) (victim *node, next func() *node){
		"embedded, restarted": func(t *testing.T) (*node, func() *node) {
			victim := startNode(t)
			data := filepath.Join(victim.dir, "data")
			return victim, func() *node { return startNode(t, "--data-dir", data) }
		},
		"one of two nodes": func(t *testing.T) (*node, func() *node) {
			s := shared(t)
			nodes := s.start(t, 2)
			return nodes[0], func() *node {
				if nodes[1].running() {
					return nodes[1]
				}
				return s.start(t, 1)[0]
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			victim, next := start(t)
			victim.put("strict", strict)
			victim.put("escalating", escalating)
			servers.Await(t, "an offender is blocked automatically", func() bool { return victim.about("token:repeat").Decision == wire.Blocked })
			block := victim.escalated(t, "token:repeat")

			flushed := victim.attack("host:attacker", 101)
			servers.Await(t, "the first part is in the database", func() bool { return victim.offencesOf("host:attacker") == flushed })
			unflushed := victim.attack("host:attacker", 50)
			victim.end(syscall.SIGKILL)
			other := next()
			other.knows(t, "host:attacker", "strict")
			atLeast := flushed + other.attack("host:attacker", 60)
			servers.Await(t, "all offences that were flushed, and all later ones, are in the database", func() bool { return other.offencesOf("host:attacker") >= atLeast })
			if code := other.end(syscall.SIGTERM); code != 0 { // which writes the rest
				t.Fatalf("the node ended with exit code %d, want 0", code)
			}
			other = next()
			if got := other.offencesOf("host:attacker"); got < atLeast || got > atLeast+unflushed {
				t.Errorf("got %d offences, want %d to %d", got, atLeast, atLeast+unflushed)
			}
			if again := other.escalated(t, "token:repeat"); again.ID != block.ID {
				t.Errorf("the block has the id %[2]s, want %[1]s", block.ID, again.ID)
			}
		})
	}
}

func TestOffencesSurviveAKilledDatabaseAndNodeRestarts(t *testing.T) {
	t.Parallel()
	s := dedicated(t)
	nodes := s.start(t, 2)
	nodes[0].put("strict", strict)
	nodes[0].put("escalating", escalating)
	for _, n := range nodes {
		n.knows(t, "host:attacker", "strict")
	}
	servers.Await(t, "an offender is blocked automatically", func() bool { return nodes[1].about("token:repeat").Decision == wire.Blocked })
	block := nodes[1].escalated(t, "token:repeat")

	want := nodes[0].attack("host:attacker", 51) + nodes[1].attack("host:attacker", 50)
	servers.Await(t, "the first part is in the database", func() bool { return nodes[0].offencesOf("host:attacker") == want })
	s.postgres.Kill()
	want += nodes[0].attack("host:attacker", 50)
	lost := nodes[1].attack("host:attacker", 50)
	nodes[1].end(syscall.SIGKILL)
	s.postgres.Restart(false)
	nodes[1] = s.start(t, 1)[0]
	want += nodes[1].attack("host:attacker", 50)
	servers.Await(t, "the database is back", func() bool { return nodes[0].part("database").OK })
	servers.Await(t, "all offences are in the database, except those of the killed node", func() bool { return nodes[0].offencesOf("host:attacker") >= want })
	for i := range nodes {
		if code := nodes[i].end(syscall.SIGTERM); code != 0 {
			t.Fatalf("the node ended with exit code %d, want 0", code)
		}
	}
	n := s.start(t, 1)[0]
	if got := n.offencesOf("host:attacker"); got < want || got > want+lost {
		t.Errorf("got %d offences, want %d to %d", got, want, want+lost)
	}
	if again := n.escalated(t, "token:repeat"); again.ID != block.ID {
		t.Errorf("the block has the id %[2]s, want %[1]s", block.ID, again.ID)
	}
}

func TestSafetyLimitPausesEscalationUntilResumed(t *testing.T) {
	everyBackend(t, func(t *testing.T, nodes []*node) {
		n := nodes[len(nodes)-1]
		n.put("escalating", escalating)
		var checks []string
		for i := range 30 {
			checks = append(checks, slices.Repeat([]string{fmt.Sprintf(`{"key":"token:crowd-%d"}`, i)}, 7)...)
		}
		if a := n.send(post, n.check+wire.PathBatch, `{"checks":[`+strings.Join(checks, ",")+`]}`); a.status != 200 {
			t.Fatalf("got %d: %s", a.status, a.body)
		}
		var pauses wire.Page[wire.EscalationPause]
		for _, n := range nodes {
			servers.Await(t, "the escalation is paused", func() bool {
				pauses = read[wire.Page[wire.EscalationPause]](n, n.must(200, get, wire.PathEscalations+"/paused", ""))
				return len(pauses.Items) == 1
			})
		}
		automatic := func() int {
			return len(read[wire.Page[wire.Entry]](n, n.must(200, get, wire.PathBlocks+"?source=automatic", "")).Items)
		}
		before := automatic()
		if before > 10 || pauses.Items[0].Policy != "escalating" {
			t.Errorf("%d keys were blocked, want at most 10; the pauses are %+v", before, pauses.Items)
		}
		offended := n.attack("token:later", 8)
		servers.Await(t, "the offences of the next key are in the database", func() bool { return n.offencesOf("token:later") == offended })
		if got := automatic(); got != before {
			t.Errorf("a paused escalation made %d blocks, want 0", got-before)
		}
		if out := n.succeed("escalation", "paused"); !strings.Contains(out, "The escalation of the policy escalating is paused") {
			t.Errorf("escalation paused: got %q", out)
		}
		n.succeed("escalation", "resume", "escalating")
		servers.Await(t, "the escalation works again", func() bool { return n.about("token:later").Decision == wire.Blocked })
		if _, code := n.run("escalation", "resume", "escalating"); code == 0 {
			t.Error("resuming an escalation that is not paused: got exit code 0")
		}
	})
}

// signedBy reports whether a request of a webhook has a signature under
// secret, as docs/NOTIFICATIONS.md describes it to receivers.
func signedBy(secret, header string, body []byte) bool {
	at, signature, found := strings.Cut(strings.TrimPrefix(header, "t="), ",v1=")
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%s.%s", at, body)
	return found && hmac.Equal([]byte(hex.EncodeToString(mac.Sum(nil))), []byte(signature))
}

func TestAutomaticBlocksAreSentInOneSignedMessage(t *testing.T) {
	t.Parallel() // it waits until the message is due
	type message struct {
		Kind  string
		Total int
		Items []struct{ Facts map[string]string }
	}
	var mu sync.Mutex
	var got []message
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m message
		if err == nil {
			err = json.Unmarshal(body, &m, json.MatchCaseInsensitiveNames(true))
		}
		if err != nil || !signedBy("a secret of two", r.Header.Get("Stint-Signature"), body) {
			t.Errorf("received %s signed %q, %v", body, r.Header.Get("Stint-Signature"), err)
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, m)
	}))
	defer receiver.Close()
	n := launch(t, []string{"STINT_ADMIN_TOKEN=" + adminToken, "STINT_NOTIFY_WEBHOOK_URL=" + receiver.URL,
		"STINT_NOTIFY_WEBHOOK_SECRET=a secret of two", "STINT_NOTIFY_ALLOW_PRIVATE=true"}, onFreePorts...)
	n.awaitRunning()
	n.put("escalating", escalating)
	want := []string{"token:a", "token:b", "token:c"}
	for _, key := range want {
		n.attack(key, 7)
	}
	servers.Await(t, "the message has arrived", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(got) > 0
	})
	mu.Lock()
	defer mu.Unlock()
	var keys []string
	for _, item := range got[0].Items {
		keys = append(keys, item.Facts["key"])
	}
	slices.Sort(keys)
	if len(got) != 1 || got[0].Kind != "block.automatic" || got[0].Total != 3 || !slices.Equal(keys, want) {
		t.Errorf("got %+v", got)
	}
}

func TestOutageAndItsEndAreNotified(t *testing.T) {
	for name, of := range map[string]struct {
		stop, goOn func(s backends)
		want       string
	}{
		"of Redis":    {func(s backends) { s.redis.Stop() }, func(s backends) { s.redis.Continue() }, "Redis is"},
		"of Postgres": {func(s backends) { s.postgres.Stop() }, func(s backends) { s.postgres.Continue() }, "The database is"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits until an outage is notified
			var sent servers.Output
			receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if _, err := io.Copy(&sent, r.Body); err != nil {
					t.Error(err)
				}
			}))
			defer receiver.Close()
			s := dedicated(t)
			n := launch(t, []string{"STINT_ADMIN_TOKEN=" + adminToken, "STINT_NOTIFY_WEBHOOK_URL=" + receiver.URL,
				"STINT_NOTIFY_ALLOW_PRIVATE=true", "STINT_NODE_NAME=edge"}, append(s.args("--check-deadline", "250ms"), onFreePorts...)...)
			n.awaitRunning()
			n.about("token:a")
			of.stop(s)
			servers.Await(t, "the outage is notified", func() bool {
				n.about("token:a") // the node notices an outage by a check
				return strings.Contains(sent.String(), `"subject":"`+of.want+` unreachable from node edge"`)
			})
			of.goOn(s)
			servers.Await(t, "its end is notified", func() bool {
				n.about("token:a")
				return strings.Contains(sent.String(), `"subject":"`+of.want+` back for node edge"`)
			})
		})
	}
}

func TestRangeProposalBlocksOnlyWhenAccepted(t *testing.T) {
	everyBackend(t, func(t *testing.T, nodes []*node) {
		n := nodes[0]
		n.put("addresses", `{"match":["ip:*"],"rules":["1/h"],"mode":"enforce"}`)
		n.must(201, post, wire.PathExemptions, `{"pattern":"ip:198.51.100.99","reason":"ours"}`)
		n.about("ip:198.51.100.99")
		for i := range 8 {
			n.attack(fmt.Sprintf("ip:198.51.100.%d", i), 3)
			n.attack(fmt.Sprintf("ip:203.0.113.%d", i), 3)
		}
		open := func() map[string]wire.Proposal {
			all := map[string]wire.Proposal{}
			for _, p := range read[wire.Page[wire.Proposal]](n, n.must(200, get, wire.PathProposals, "")).Items {
				all[p.Pattern] = p
			}
			return all
		}
		var found map[string]wire.Proposal
		servers.Await(t, "both ranges are proposed", func() bool { // the job also runs each minute
			n.run("job", "run", "propose-ranges") // which may be running already
			found = open()
			return len(found) == 2
		})
		crowded := found["ip:198.51.100.0/24"]
		if crowded.Evidence.OffendedCount != 8 || !slices.Equal(crowded.Evidence.Exempt, []string{"ip:198.51.100.99"}) {
			t.Errorf("the evidence of the proposal is %+v", crowded.Evidence)
		}
		if d := n.about("ip:198.51.100.200"); d.Decision != wire.Allowed {
			t.Fatalf("the range is %s before the proposal was accepted, want allowed", d.Decision)
		}
		if out := n.succeed("proposal", "show", crowded.ID); !strings.Contains(out, "ip:198.51.100.7") || !strings.Contains(out, "ip:198.51.100.99 is exempt") {
			t.Errorf("proposal show: got %s", out)
		}
		n.succeed("proposal", "accept", crowded.ID, "--for", "1h")
		n.succeed("proposal", "dismiss", found["ip:203.0.113.0/24"].ID, "--reason", "a university")
		for _, n := range nodes {
			servers.Await(t, "the block applies on every node", func() bool { return n.about("ip:198.51.100.201").Decision == wire.Blocked })
			if d := n.about("ip:198.51.100.99"); d.Decision == wire.Blocked {
				t.Error("an exempt address is blocked")
			}
		}
		n.attack("ip:203.0.113.50", 2)
		servers.Await(t, "the job has run once more", func() bool {
			_, code := n.run("job", "run", "propose-ranges")
			return code == 0
		})
		if again := open(); len(again) != 0 {
			t.Errorf("the ranges were proposed again: %+v", again)
		}
	})
}
