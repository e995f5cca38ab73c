package e2e_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	stint "github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/logfollow"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

// everyBackend runs a test on one embedded node and on two that share servers.
func everyBackend(t *testing.T, test func(t *testing.T, nodes []*node)) {
	t.Run("embedded", func(t *testing.T) { test(t, []*node{startNode(t)}) })
	t.Run("two nodes on Redis and Postgres", func(t *testing.T) { test(t, shared(t).start(t, 2)) })
}

// offenders reads the whole report of the last day. It retries while the database is
// unreachable: a connection from before it was killed fails on its first use.
func (n *node) offenders(query string) wire.OffenderReport {
	n.Helper()
	var a answer
	servers.Await(n, "the report can be read", func() bool {
		a = n.as(get, wire.PathOffenders+"?last=1d&limit=1000"+query, "")
		return a.status != http.StatusServiceUnavailable
	})
	if a.status != http.StatusOK {
		n.Fatalf("the report: got %d: %s", a.status, a.body)
	}
	return read[wire.OffenderReport](n, a)
}

// realLog returns the path of the real access log, "" if it does not exist.
func realLog(t *testing.T) string {
	t.Helper()
	for _, path := range []string{os.Getenv("STINT_TEST_DATA") + "/apache_access.log.gz", "../../../shared/data/apache_access.log.gz"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// countLines counts the lines of each client, without code of Stint.
func countLines(t *testing.T, path string) map[string]int64 {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int64{}
	lines := bufio.NewScanner(unpacked)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		client, _, _ := strings.Cut(lines.Text(), " ")
		counts["ip:"+client]++
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return counts
}

func TestOffenderReportOfRealTrafficIsExact(t *testing.T) {
	path := realLog(t)
	if path == "" {
		t.Log("the real access log does not exist; nothing is sent")
		return
	}
	const limit = 60 // in a window that outlasts the test
	everyBackend(t, func(t *testing.T, nodes []*node) {
		nodes[0].put("default", fmt.Sprintf(`{"match":["*"],"rules":["%d/31d"],"mode":"enforce"}`, limit))
		servers.Await(t, "every node has the policy", func() bool {
			for _, n := range nodes {
				if read[wire.Policy](n, n.must(200, get, wire.PathPolicies+"/default", "")).Rules[0] != fmt.Sprintf("%d/31d", limit) {
					return false
				}
				if d := n.ask(`{"key":"ip:192.0.2.1","peek":true}`); d.Rules[0].Limit != limit {
					return false
				}
			}
			return true
		})
		server, err := stint.New(nodes[len(nodes)-1].check)
		if err != nil {
			t.Fatal(err)
		}
		speed := 0.0
		report, err := logfollow.Run(t.Context(), []string{path}, logfollow.Options{
			Server: server, Speed: &speed, Read: accesslog.Options{Key: "remote_addr"}, Logf: t.Logf,
		})
		if err != nil {
			t.Fatal(err)
		}
		var refused, allowed int64
		want := map[string]int64{}
		for key, lines := range countLines(t, path) {
			allowed += min(lines, limit)
			if lines > limit {
				want[key] = lines - limit
				refused += lines - limit
			}
		}
		if report.Limited != refused || report.Allowed != allowed {
			t.Fatalf("follow: got %d limited and %d allowed, want %d and %d", report.Limited, report.Allowed, refused, allowed)
		}
		n := nodes[0]
		var got wire.OffenderReport
		servers.Await(t, "every offence and every allowed request of an offender is in the database", func() bool {
			got = n.offenders("")
			var requests int64 // allowed requests are written after the offences
			for _, row := range got.Items {
				requests += row.Allowed
			}
			return got.Offences == refused && requests == limit*int64(len(want))
		})
		if len(got.Items) != len(want) {
			t.Errorf("%d offenders, want %d", len(got.Items), len(want))
		}
		for _, row := range got.Items {
			if row.Offences != want[row.Key] || row.Allowed != limit || row.RefusedBy != fmt.Sprintf("%d/31d", limit) {
				t.Errorf("%s: %d offences and %d allowed by %s, want %d and %d", row.Key, row.Offences, row.Allowed, row.RefusedBy, want[row.Key], limit)
			}
		}
		if got.Items[0].Key != "ip:66.249.73.135" || got.Items[0].Offences != 482-limit {
			t.Errorf("the first offender is %s with %d offences", got.Items[0].Key, got.Items[0].Offences)
		}
	})
}

func TestRefusalIDFindsItsRecordOnEveryNode(t *testing.T) {
	everyBackend(t, func(t *testing.T, nodes []*node) {
		const key = "token:\"><script>alert(1)</script>"
		nodes[0].put("strict", `{"match":["token:*"],"rules":["1/h"],"mode":"enforce"}`)
		body := fmt.Sprintf(`{"key":%q,"source":"edge-1","meta":{"path":"/search"}}`, key)
		var refused wire.Decision
		servers.Await(t, "the policy refuses", func() bool {
			refused = nodes[len(nodes)-1].ask(body)
			return refused.Decision == wire.Limited && refused.Policy == "strict"
		})
		for _, n := range nodes {
			var record wire.OffenceRecord
			servers.Await(t, "the record is there", func() bool {
				record = read[wire.OffenceRecord](n, n.must(200, get, wire.PathOffences+"/"+string(refused.ID), ""))
				return record.Found == "recorded"
			})
			if string(record.Key) != key || string(record.Policy) != "strict" || record.Offences[0].RefusedBy != "1/1h" {
				t.Errorf("got %+v", record)
			}
			last := record.Offences[0].Last
			if string(last.Source) != "edge-1" || last.Meta["path"] != "/search" || !last.RetryAt.Equal(refused.RetryAt.Time) {
				t.Errorf("the last refusal is %+v, want the retry_at %s", last, refused.RetryAt)
			}
			if strings.ContainsAny(record.Explanation, "\n\u202e") {
				t.Errorf("the explanation has control characters: %q", record.Explanation)
			}
		}
	})
}

const escalating = `{"match":["token:*"],"rules":["1/h"],"mode":"enforce","escalation":{"threshold":5,"window":"10m","duration":"1h","factor":2,"max_duration":"8h","decay_after":"7d"}}`

func TestEscalationBlocksARepeatOffenderOnceAndExplainsIt(t *testing.T) {
	everyBackend(t, func(t *testing.T, nodes []*node) {
		nodes[0].put("escalating", escalating)
		const key = "token:repeat"
		servers.Await(t, "the key is blocked automatically", func() bool {
			for _, n := range nodes { // spread over the nodes: they count together
				if n.about(key).Decision == wire.Blocked {
					return true
				}
			}
			return false
		})
		n := nodes[0]
		page := read[wire.Page[wire.Entry]](n, n.must(200, get, wire.PathBlocks+"?state=all&key="+url.QueryEscape(key), ""))
		if len(page.Items) != 1 {
			t.Fatalf("got %d blocks, want 1", len(page.Items))
		}
		b := page.Items[0]
		if b.Source != "automatic" || string(b.Policy) != "escalating" || b.Level == nil || *b.Level != 1 || b.ExpiresAt.Sub(b.CreatedAt.Time).Round(time.Minute) != time.Hour {
			t.Errorf("got %+v", b)
		}
		var x wire.KeyExplanation
		servers.Await(t, "the first node knows the block, whichever node made it", func() bool {
			x = n.explain(key)
			return x.Decision == wire.Blocked
		})
		if x.Escalation == nil || x.Escalation.Level != 1 || x.Escalation.NextBlock.Std() != 2*time.Hour {
			t.Errorf("the explanation is %s with the escalation %+v", x.Decision, x.Escalation)
		}
		n.must(200, del, wire.PathBlocks+"/"+b.ID, `{"reason":"a mistake"}`)
		for _, n := range nodes {
			servers.Await(t, "the end of the block applies on every node", func() bool { return n.about(key).Decision != wire.Blocked })
		}
		again := read[wire.Page[wire.Entry]](n, n.must(200, get, wire.PathBlocks+"?key="+url.QueryEscape(key), ""))
		if len(again.Items) != 0 {
			t.Errorf("the key was blocked again at once: %+v", again.Items)
		}
	})
}

func TestExemptKeyIsNeverEscalated(t *testing.T) {
	n := startNode(t)
	n.put("escalating", escalating)
	n.must(201, post, wire.PathExemptions, `{"pattern":"token:friend","reason":"ours"}`)
	for range 50 {
		if d := n.about("token:friend"); d.Decision != wire.Allowed {
			t.Fatalf("got %s", d.Decision)
		}
	}
	n.about("token:other")
	for range 5 { // when the offences of the other key are written, those of the exempt key would be too
		n.about("token:other")
	}
	servers.Await(t, "the offences are in the database", func() bool { return n.offenders("").Offences >= 5 })
	for _, row := range n.offenders("").Items {
		if row.Key == "token:friend" {
			t.Errorf("the exempt key is an offender: %+v", row)
		}
	}
}

func TestNoOffenceIsLostWhileTheDatabaseIsStopped(t *testing.T) {
	s := dedicated(t)
	nodes := s.start(t, 2)
	n := nodes[0]
	n.put("strict", `{"match":["token:*"],"rules":["1/31d"],"mode":"enforce"}`)
	for _, n := range nodes {
		servers.Await(t, "every node has the policy", func() bool {
			return string(n.ask(`{"key":"token:probe","peek":true}`).Policy) == "strict"
		})
	}
	attack := func(times int) {
		for i := range times {
			if d := nodes[i%2].about("token:attacker"); d.Degraded {
				t.Fatalf("a check was degraded: %s", d.DegradedReason)
			}
		}
	}
	attack(101)
	s.postgres.Stop()
	attack(100)
	s.postgres.Continue()
	attack(100)
	const want = 300 // all but the first
	servers.Await(t, "every offence is in the database", func() bool {
		report := n.offenders("")
		return len(report.Items) == 1 && report.Items[0].Offences == want
	})
	if code := nodes[1].end(syscall.SIGTERM); code != 0 {
		t.Errorf("the node ended with exit code %d, want 0", code)
	}
	if report := n.offenders(""); report.Items[0].Offences != want {
		t.Errorf("got %d offences after a node has ended, want %d", report.Items[0].Offences, want)
	}
}

func TestShutdownWritesCountedOffences(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, "--data-dir", dir)
	n.put("strict", `{"match":["token:*"],"rules":["1/31d"],"mode":"enforce"}`)
	for range 21 {
		n.about("token:attacker")
	}
	if code := n.end(syscall.SIGTERM); code != 0 {
		t.Fatalf("the node ended with exit code %d, want 0", code)
	}
	n = startNode(t, "--data-dir", dir)
	if report := n.offenders(""); report.Offences != 20 {
		t.Errorf("got %d offences, want 20", report.Offences)
	}
}
