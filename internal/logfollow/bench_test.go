package logfollow_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/logfollow"
)

// arrivals remembers when each line was answered.
type arrivals struct {
	logfollow.Server
	mu sync.Mutex
	at []time.Time
}

func (a *arrivals) Batch(ctx context.Context, checks []client.Check) ([]client.BatchItem, error) {
	items, err := a.Server.Batch(ctx, checks)
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range checks {
		var n int
		if _, err := fmt.Sscanf(c.Request.Path, "/page/%d", &n); err == nil && n < len(a.at) {
			a.at[n] = now
		}
	}
	return items, err
}

func (a *arrivals) answered() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, at := range a.at {
		if !at.IsZero() {
			n++
		}
	}
	return n
}

// BenchmarkLag writes 20,000 lines a second for ten seconds, from 2,000 clients, and
// measures the time from the writing of each line to its decision.
func BenchmarkLag(b *testing.B) {
	const perSecond, seconds, step = 20_000, 10, 10 * time.Millisecond
	for b.Loop() {
		n := startNode(b)
		path, state := filepath.Join(b.TempDir(), "access.log"), filepath.Join(b.TempDir(), "state.json")
		file, err := os.Create(path)
		if err != nil {
			b.Fatal(err)
		}
		server := &arrivals{Server: newClient(b, n.check), at: make([]time.Time, perSecond*seconds)}
		wrote := make([]time.Time, perSecond*seconds)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			_, err := logfollow.Run(ctx, []string{path}, logfollow.Options{
				Server: server, State: state, FromStart: true, Read: accesslog.Options{Key: "host"}, Logf: b.Logf, MaxAge: time.Minute,
			})
			ended <- err
		}()
		each := int(perSecond * step / time.Second)
		start := time.Now()
		for line := 0; line < len(wrote); {
			var text strings.Builder
			now := time.Now()
			for range each {
				text.WriteString(lineOf(fmt.Sprintf("203.0.%d.%d", line%8, line/8%250), now, line))
				wrote[line] = now
				line++
			}
			if _, err := file.WriteString(text.String()); err != nil {
				b.Fatal(err)
			}
			time.Sleep(time.Until(start.Add(time.Duration(line/each) * step)))
		}
		took := time.Since(start)
		for deadline := time.Now().Add(maxWait); server.answered() < len(wrote) && time.Now().Before(deadline); {
			time.Sleep(50 * time.Millisecond)
		}
		cancel()
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
		lags := make([]time.Duration, 0, len(wrote))
		for i := range wrote {
			if server.at[i].IsZero() {
				b.Fatalf("line %d was not answered", i)
			}
			lags = append(lags, server.at[i].Sub(wrote[i]))
		}
		slices.Sort(lags)
		b.ReportMetric(float64(len(wrote))/took.Seconds(), "lines/s")
		b.ReportMetric(float64(lags[len(lags)/2].Milliseconds()), "p50-ms")
		b.ReportMetric(float64(lags[len(lags)*99/100].Milliseconds()), "p99-ms")
		b.ReportMetric(float64(lags[len(lags)-1].Milliseconds()), "max-ms")
	}
}

// BenchmarkBacklog reads a log that exists as fast as its lines are decided.
func BenchmarkBacklog(b *testing.B) {
	const lines = 200_000
	n := startNode(b)
	path := filepath.Join(b.TempDir(), "access.log")
	var text strings.Builder
	for line := range lines {
		text.WriteString(lineOf(fmt.Sprintf("203.0.%d.%d", line%8, line/8%250), time.Now(), line))
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		summary, err := logfollow.Run(context.Background(), []string{path}, logfollow.Options{
			Server: newClient(b, n.check), State: filepath.Join(b.TempDir(), "state.json"), FromStart: true, Once: true,
			Read: accesslog.Options{Key: "host"}, Logf: b.Logf,
		})
		if err != nil || summary.Checked != lines {
			b.Fatalf("%v, %s", err, summary)
		}
	}
	b.ReportMetric(float64(b.N)*lines/b.Elapsed().Seconds(), "lines/s")
}
