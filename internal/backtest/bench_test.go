package backtest_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/backtest"
	"github.com/stint-dev/stint/internal/keys"
)

// syntheticLog returns lines of Combined Log Format by some thousand clients, a few
// of which come much more often than the rest.
func syntheticLog(lines int) []byte {
	var log bytes.Buffer
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range lines {
		client := i * 7919 % 4096
		if i%5 == 0 {
			client = i % 7
		}
		at := start.Add(time.Duration(i) * 20 * time.Millisecond).Format("02/Jan/2006:15:04:05 -0700")
		fmt.Fprintf(&log, "10.%d.%d.%d - - [%s] \"GET /search?q=%d&page=%d HTTP/1.1\" 200 %d \"https://example.com/page/%d\" \"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36\"\n",
			client>>16&255, client>>8&255, client&255, at, i*31%1009, i%13, i*97%65536, i*13%997)
	}
	return log.Bytes()
}

const benchLines = 100_000

func syntheticRecords(b *testing.B) []accesslog.Record {
	b.Helper()
	reader, err := accesslog.NewReader(bytes.NewReader(syntheticLog(benchLines)), "", accesslog.Options{})
	if err != nil {
		b.Fatal(err)
	}
	var records []accesslog.Record
	for {
		record, err := reader.Next()
		if err != nil {
			return records
		}
		records = append(records, record)
	}
}

func reportRate(b *testing.B) {
	b.ReportMetric(float64(b.N)*benchLines/b.Elapsed().Seconds(), "lines/s")
	b.ReportMetric(0, "ns/op")
}

func BenchmarkHotLoop(b *testing.B) {
	records := syntheticRecords(b)
	options := backtest.Options{Plan: backtest.StackPlan(defaultStack(b))}
	b.ResetTimer()
	for b.Loop() {
		if _, err := backtest.Run(context.Background(), accesslog.Slice(records), options); err != nil {
			b.Fatal(err)
		}
	}
	reportRate(b)
}

func BenchmarkHotLoopAgainstASecondStack(b *testing.B) {
	records := syntheticRecords(b)
	against := backtest.StackPlan(stack(b, "2/s", "50/h"))
	options := backtest.Options{Plan: backtest.StackPlan(defaultStack(b)), Against: &against}
	b.ResetTimer()
	for b.Loop() {
		if _, err := backtest.Run(context.Background(), accesslog.Slice(records), options); err != nil {
			b.Fatal(err)
		}
	}
	reportRate(b)
}

func BenchmarkHotLoopOfManyKeys(b *testing.B) {
	var parser keys.Parser
	records := make([]accesslog.Record, benchLines)
	for i := range records {
		key, err := parser.Key(fmt.Sprintf("token:%d", i*7919%50_000))
		if err != nil {
			b.Fatal(err)
		}
		records[i] = accesslog.Record{Time: int64(i) * 20, Key: key, Cost: 1}
	}
	options := backtest.Options{Plan: backtest.StackPlan(defaultStack(b))}
	b.ResetTimer()
	for b.Loop() {
		if _, err := backtest.Run(context.Background(), accesslog.Slice(records), options); err != nil {
			b.Fatal(err)
		}
	}
	reportRate(b)
}

func BenchmarkEndToEndFromGzip(b *testing.B) {
	path := filepath.Join(b.TempDir(), "access.log.gz")
	file, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	packed := gzip.NewWriter(file)
	if _, err := packed.Write(syntheticLog(benchLines)); err != nil {
		b.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		b.Fatal(err)
	}
	if err := file.Close(); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for b.Loop() {
		runFile(b, path, backtest.Options{Plan: backtest.StackPlan(defaultStack(b))})
	}
	reportRate(b)
}

func BenchmarkEndToEndFromTheRealLog(b *testing.B) {
	path := realLog(b)
	if path == "" {
		return
	}
	for b.Loop() {
		runFile(b, path, backtest.Options{Plan: backtest.StackPlan(defaultStack(b))})
	}
	b.ReportMetric(float64(b.N)*10_000/b.Elapsed().Seconds(), "lines/s")
}
