package bench_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
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

// BenchmarkChallenges floods a node with browsers' requests that are challenged, a quarter of them wrong solutions,
// and measures checks of others beside it: each round without the flood and with it. A shared machine changes the
// latencies of both; their ratio, and the node's processor time, say what the flood costs.
func BenchmarkChallenges(b *testing.B) {
	n := startNode(b, build(b), "--trusted-proxies", "127.0.0.1")
	n.policy(b, "user", `"1000/s"`)
	n.admit(b, http.MethodPut, "/v1/policies/challenged?confirm=challenged", `{"match":["ip:198.18.0.0/16"],"rules":["0/1d"],"on_limit":"challenge"}`)
	link := n.challengeLink(b)
	n.flood(b, link, time.Second) // warms up
	before := n.resident(b)
	var without, with []time.Duration
	var answered int64
	var used, flooded, alone time.Duration
	checks := 0
	for range floodRounds {
		start := processorTime(b, n.pid)
		took := openLoop(b, n.checks, "user:", 500, 4, floodTime)
		alone += processorTime(b, n.pid) - start
		without, checks = append(without, took...), checks+len(took)

		start = processorTime(b, n.pid)
		var group sync.WaitGroup
		began := time.Now()
		group.Go(func() {
			answered += n.flood(b, link, floodTime)
			flooded += time.Since(began)
		})
		with = append(with, openLoop(b, n.checks, "user:", 500, 4, floodTime)...)
		group.Wait()
		used += processorTime(b, n.pid) - start
	}
	after := n.resident(b)
	slices.Sort(without)
	slices.Sort(with)
	rate := float64(answered) / flooded.Seconds()
	b.ReportMetric(rate, "challenges/s")
	b.ReportMetric(micros(used-alone)/float64(answered), "µs-of-processor/challenge")
	b.ReportMetric(micros(alone)/float64(checks), "µs-of-processor/check")
	for _, p := range []float64{50, 99} {
		one, other := percentile(without, p), percentile(with, p)
		b.ReportMetric(float64(other)/float64(one), fmt.Sprintf("p%g-with/without", p))
		b.Logf("checks at 500/s, p%g: %s without the flood, %s with %.0f challenges/s", p, round(one), round(other), rate)
	}
	b.Logf("resident memory: %d MB before %d challenges, %d MB after", before>>20, answered, after>>20)
	if grown := after - before; grown > 64<<20 {
		b.Errorf("%d challenges have left %d MB", answered, grown>>20)
	}
}

// challengedRequest is what a gateway asks about a browser's request.
func challengedRequest(i int, target string) string {
	return fmt.Sprintf("GET /v1/forward HTTP/1.1\r\nHost: stint\r\nX-Forwarded-For: 198.18.%d.%d\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: %s\r\n"+
		"Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8\r\nAccept-Language: de\r\nSec-Fetch-Mode: navigate\r\n\r\n", i/250%250, 1+i%250, target)
}

// challengeLink returns where the solution of a challenge is sent, without one.
func (n node) challengeLink(b *testing.B) string {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://"+n.checks+"/v1/forward", http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	for name, value := range map[string]string{"X-Forwarded-For": "198.18.0.1", "X-Forwarded-Uri": "/a", "X-Forwarded-Method": "GET", "Accept": "text/html"} {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	var page bytes.Buffer
	if _, err := page.ReadFrom(response.Body); err != nil {
		b.Fatal(err)
	}
	_, rest, found := strings.Cut(page.String(), `href="/.well-known/stint/pass?c=`)
	token, _, _ := strings.Cut(rest, `"`)
	if !found || response.StatusCode != http.StatusTooManyRequests {
		b.Fatalf("no challenge: %d %s", response.StatusCode, &page)
	}
	return "/.well-known/stint/pass?c=" + token
}

// flood sends requests that are challenged for a time, in batches at a fixed rate or as fast as they are answered,
// and returns how many were.
func (n node) flood(b *testing.B, link string, lasting time.Duration) int64 {
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
			batch := ""
			for i := range floodBatch {
				target := fmt.Sprintf("/products/%d?colour=blue", i)
				if i%4 == 3 {
					target = link + "&n=1"
				}
				batch += challengedRequest(c*floodBatch+i, target)
			}
			end := time.Now().Add(lasting)
			for due := time.Now(); time.Now().Before(end); due = due.Add(every) {
				time.Sleep(time.Until(due))
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
