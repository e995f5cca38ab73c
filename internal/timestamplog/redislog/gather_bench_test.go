package redislog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/test/servers"
)

// BenchmarkGather measures how many checks a call carries if each check arrives over a connection
// of its own, as on a node. A check that has arrived but was not read yet is not in the queue of
// the batcher. Fewer calls are better, since a call costs as much as several of its checks. The
// benchmark needs wrk, which sends requests to a server for gatherTime, whatever b.N is. The
// processor time for a check is that of this process, including its HTTP server, and that of
// Redis.
func BenchmarkGather(b *testing.B) {
	server := servers.DedicatedRedis(b)
	client := connect(b, server)
	var calls, checks atomic.Int64
	log := open(b, server, redislog.Options{Observe: func(_ context.Context, isDecision bool, _ time.Time, _ error) {
		if isDecision {
			calls.Add(1)
		}
	}})
	p := policy(b, 1, "100000/1s", "100000/1h")
	if !answers(log, p) {
		b.Fatal("a fresh Redis does not answer")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	web := &fasthttp.Server{Handler: func(c *fasthttp.RequestCtx) {
		q := timestamplog.RequestOf(p, benchKey(rand.IntN(1000)), 1)
		var results [1]timestamplog.Result
		if log.Decide(c, []timestamplog.Request{q}, results[:]); results[0].Err != nil {
			c.SetStatusCode(fasthttp.StatusServiceUnavailable)
			return
		}
		checks.Add(1)
	}}
	go func() { _ = web.Serve(listener) }()
	defer func() { _ = web.Shutdown() }()
	for _, connections := range []int{16, 64, 256} {
		b.Run(fmt.Sprintf("connections=%d", connections), func(b *testing.B) {
			for b.Loop() {
				used, ofRedis, called, asked := processorTime(b), cpuSeconds(b, client), calls.Load(), checks.Load()
				wrk := exec.CommandContext(b.Context(), "wrk", "-t1", "-c", fmt.Sprint(connections), "-d", gatherTime.String(), "http://"+listener.Addr().String()+"/") //nolint:gosec // our own arguments
				if out, err := wrk.CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
				n := float64(checks.Load() - asked)
				b.ReportMetric(n/float64(calls.Load()-called), "checks/call")
				b.ReportMetric((processorTime(b)-used).Seconds()*1e6/n, "own-µs/check")
				b.ReportMetric((cpuSeconds(b, client)-ofRedis)*1e6/n, "redis-µs/check")
				b.ReportMetric(n/gatherTime.Seconds(), "checks/s")
			}
		})
	}
}

const gatherTime = 2 * time.Second

// processorTime returns the processor time that this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
