package api

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

// BenchmarkServedHolds reports what a hold and its settlement cost together, as a ratio of a plain check, all over
// a connection in memory and with all counting. Both come in alternating parts; the least of each counts.
func BenchmarkServedHolds(b *testing.B) {
	stack, err := rules.ParseStack([]string{"10M tokens/1m", "100M/1d"})
	if err != nil {
		b.Fatal(err)
	}
	server := countingServer(b, &rules.Policy{
		Name: "held", Mode: rules.Enforce, OnFailure: rules.FailLocal, Algorithm: algorithms.AmountLog, Hold: 10 * time.Minute,
		Match: []keys.Pattern{patternOf(b, "held:*")}, Rules: stack,
	})
	checks, holds := newAsker("allow"), new(holder)
	app := server.CheckApp()
	_ = app.Handler() // fiber gets ready
	const part = 1000
	serve := func(check bool) time.Duration {
		began := processorTime(b)
		checks.left, holds.left = part, 2*part
		conn := acceptOne(b, server, holds)
		if check {
			conn = acceptOne(b, server, checks)
		}
		if err := app.Server().ServeConn(conn); err != nil {
			b.Fatal(err)
		}
		return processorTime(b) - began
	}
	check, held := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for b.Loop() {
		check, held = min(check, serve(true)), min(held, serve(false))
	}
	if holds.settled == 0 || holds.settled%part != 0 {
		b.Fatalf("%d holds were settled", holds.settled)
	}
	b.ReportMetric(float64(held)/float64(check), "ratio")
	b.ReportMetric(float64(check)/part, "check-ns")
	b.ReportMetric(float64(held)/part, "held-ns")
}

// holder is an asker whose requests alternate: a check that holds, and its settlement.
type holder struct {
	asker
	handle, request []byte
	settled         int
}

func (c *holder) Read(to []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	path, body := "check", fmt.Sprintf(`{"key":"held:%d","detail":"none"}`, rand.IntN(manyKeys))
	if c.left--; len(c.handle) > 0 {
		path, body = "holds/"+string(c.handle), `{"cost":1}`
	}
	c.request = fmt.Appendf(c.request[:0], "POST /v1/%s HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	return copy(to, c.request), nil
}

func (c *holder) Write(from []byte) (int, error) {
	_, rest, found := bytes.Cut(from, []byte(`"handle":"`))
	if handle, _, _ := bytes.Cut(rest, []byte(`"`)); found {
		c.handle = append(c.handle[:0], handle...)
		return len(from), nil
	}
	if c.handle = c.handle[:0]; bytes.Contains(from, []byte(`"state":"settled"`)) {
		c.settled++
	}
	return len(from), nil
}
