package bench_test

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// flooding is how a flood of challenges is sent: batches over connections, at a rate of all together.
const (
	floodConnections = 4
	floodBatch       = 10
	floodRate        = 10_000
	floodTime        = 4 * time.Second
	floodRounds      = 3
)

// BenchmarkChallenges floods a node with browsers' requests that are challenged, a quarter of them wrong solutions, and then
// with right solutions, and measures checks of others beside each: each round without the flood and with it. A shared
// machine changes the latencies of both; their ratio, and the node's processor time, say what the flood costs.
func BenchmarkChallenges(b *testing.B) {
	n := startNode(b, build(b), "--trusted-proxies", "127.0.0.1", "--challenge-difficulty", "1", "--challenge-passes", "10000")
	n.policy(b, "user", `"1000/s"`)
	n.admit(b, http.MethodPut, "/v1/policies/challenged?confirm=challenged", `{"match":["ip:198.18.0.0/16"],"rules":["0/1d"],"on_limit":"challenge"}`)
	link, _, _ := strings.Cut(n.solutions(b, 1)[0], "&n=")
	asked := func(i int) string {
		if i%4 == 3 {
			return challengedRequest(i, link+"&n=x")
		}
		return challengedRequest(i, fmt.Sprintf("/products/%d?colour=blue", i%10))
	}
	n.flood(b, asked, time.Second) // warms up
	n.beside(b, "challenges", floodTime, asked)

	// Each is sent once: the log remembers it then.
	const short = time.Second
	solutions := n.solutions(b, floodRounds*int(floodRate*short/time.Second)+floodConnections*floodBatch)
	once := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	solved, err := once.Get("http://" + n.checks + solutions[0]) //nolint:noctx // of a node of this benchmark
	if err != nil {
		b.Fatal(err)
	}
	solved.Body.Close()
	if solved.StatusCode != http.StatusSeeOther || len(solved.Cookies()) != 1 {
		b.Fatalf("a solution is answered %d, %v", solved.StatusCode, solved.Header)
	}
	var next atomic.Int64
	n.beside(b, "solutions", short, func(i int) string { return challengedRequest(i, solutions[int(next.Add(1)-1)%len(solutions)]) })
}

// beside floods a node with requests, and reports how many were answered and what checks of others took.
func (n node) beside(b *testing.B, what string, lasting time.Duration, request func(i int) string) {
	b.Helper()
	before := n.resident(b)
	var without, with []time.Duration
	var answered int64
	var used, flooded, alone time.Duration
	checks := 0
	for range floodRounds {
		start := processorTime(b, n.pid)
		took := openLoop(b, n.checks, "user:", 500, 4, lasting)
		alone += processorTime(b, n.pid) - start
		without, checks = append(without, took...), checks+len(took)

		start = processorTime(b, n.pid)
		var group sync.WaitGroup
		began := time.Now()
		group.Go(func() {
			answered += n.flood(b, request, lasting)
			flooded += time.Since(began)
		})
		with = append(with, openLoop(b, n.checks, "user:", 500, 4, lasting)...)
		group.Wait()
		used += processorTime(b, n.pid) - start
	}
	after := n.resident(b)
	slices.Sort(without)
	slices.Sort(with)
	rate := float64(answered) / flooded.Seconds()
	b.ReportMetric(rate, what+"/s")
	b.ReportMetric(micros(used-alone)/float64(answered), "µs-of-processor/"+what)
	b.ReportMetric(micros(alone)/float64(checks), "µs-of-processor/check-beside-"+what)
	for _, p := range []float64{50, 99} {
		one, other := percentile(without, p), percentile(with, p)
		b.Logf("checks at 500/s, p%g: %s without the flood, %s with %.0f %s/s", p, round(one), round(other), rate, what)
	}
	b.Logf("resident memory: %d MB before %d %s, %d MB after", before>>20, answered, what, after>>20)
	if grown := after - before; grown > 64<<20 {
		b.Errorf("%d %s have left %d MB", answered, what, grown>>20)
	}
}

// challengedRequest is what a gateway asks about a browser's request.
func challengedRequest(i int, target string) string {
	return fmt.Sprintf("GET /v1/forward HTTP/1.1\r\nHost: stint\r\nX-Forwarded-For: 198.18.%d.%d\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: %s\r\n"+
		"Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8\r\nAccept-Language: de\r\nSec-Fetch-Mode: navigate\r\n\r\n", i/250%250, 1+i%250, target)
}

// shownChallenge is where a page sends a solution, and what is to be solved.
var shownChallenge = regexp.MustCompile(`<a id="pass" href="([^"]+)" data-prefix="([^"]+)" data-difficulty="1"`)

// solutions returns the solutions of as many challenges, each of one bit.
func (n node) solutions(b *testing.B, count int) []string {
	b.Helper()
	connection, err := net.Dial("tcp", n.checks)
	if err != nil {
		b.Fatal(err)
	}
	defer connection.Close()
	answers, all := bufio.NewReader(connection), make([]string, 0, count)
	for len(all) < count {
		size := min(floodBatch, count-len(all))
		batch := ""
		for i := range size {
			batch += challengedRequest(len(all)+i, "/a")
		}
		if _, err := connection.Write([]byte(batch)); err != nil {
			b.Fatal(err)
		}
		for range size {
			response, err := http.ReadResponse(answers, nil)
			if err != nil {
				b.Fatal(err)
			}
			page, err := io.ReadAll(response.Body)
			response.Body.Close()
			found := shownChallenge.FindSubmatch(page)
			if err != nil || found == nil {
				b.Fatalf("no challenge: %v %d %s", err, response.StatusCode, page)
			}
			counter := 0
			for sha256.Sum256(strconv.AppendInt(found[2], int64(counter), 10))[0]>>7 != 0 {
				counter++
			}
			all = append(all, html.UnescapeString(string(found[1]))+"&n="+strconv.Itoa(counter))
		}
	}
	return all
}

// flood sends requests for a time, in batches at a fixed rate or as fast as they are answered, and returns how many were.
func (n node) flood(b *testing.B, request func(i int) string, lasting time.Duration) int64 {
	var answered atomic.Int64
	var group sync.WaitGroup
	every := time.Second * floodConnections * floodBatch / floodRate
	for c := range floodConnections {
		group.Go(func() {
			connection, err := net.Dial("tcp", n.checks)
			if err != nil {
				b.Error(err)
				return
			}
			defer connection.Close()
			answers := bufio.NewReaderSize(connection, 32<<10)
			end := time.Now().Add(lasting)
			for due := time.Now(); time.Now().Before(end); due = due.Add(every) {
				time.Sleep(time.Until(due))
				batch := ""
				for i := range floodBatch {
					batch += request(c*floodBatch + i)
				}
				if _, err := connection.Write([]byte(batch)); err != nil {
					b.Error(err)
					return
				}
				for range floodBatch {
					if err := skipAnswer(answers); err != nil {
						b.Error(err)
						return
					}
				}
				answered.Add(floodBatch)
			}
		})
	}
	group.Wait()
	return answered.Load()
}

// resident returns how much memory a node has, in bytes.
func (n node) resident(b *testing.B) int64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.pid))
	if err != nil {
		b.Fatal(err)
	}
	return int64(number(text, `VmRSS:\s+(\d+)`)) << 10
}
