package accesslog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/proxies"
)

const benchLines = 20_000

func benchLog(line func(client, second int) string) []byte {
	var log bytes.Buffer
	for i := range benchLines {
		log.WriteString(line(i*7919%2000, i/100%60))
	}
	return log.Bytes()
}

func benchmarkReader(b *testing.B, log []byte) { benchmarkReaderWith(b, log, accesslog.Options{}) }

func benchmarkReaderWith(b *testing.B, log []byte, o accesslog.Options) {
	b.SetBytes(int64(len(log)))
	b.ReportAllocs()
	for b.Loop() {
		reader, err := accesslog.NewReader(bytes.NewReader(log), "", o)
		if err != nil {
			b.Fatal(err)
		}
		for err == nil {
			_, err = reader.Next()
		}
		if !errors.Is(err, io.EOF) || reader.Counts().Records != benchLines {
			b.Fatalf("%v, %+v", err, reader.Counts())
		}
	}
	b.ReportMetric(float64(b.N)*benchLines/b.Elapsed().Seconds(), "lines/s")
}

func combinedLine(client, second int) string {
	return fmt.Sprintf("10.0.%d.%d - - [31/Jan/2026:23:05:%02d +0000] \"GET /search?q=%d HTTP/1.1\" 200 5124 \"https://example.com/\" \"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36\"\n",
		client>>8, client&255, second, client)
}

func BenchmarkReadCombined(b *testing.B) { benchmarkReader(b, benchLog(combinedLine)) }

func BenchmarkReadCombinedGzip(b *testing.B) {
	benchmarkReader(b, pack(b, string(benchLog(combinedLine))))
}

func BenchmarkReadDescribed(b *testing.B) {
	benchmarkReaderWith(b, benchLog(combinedLine), accesslog.Options{LogFormat: `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`})
}

func BenchmarkReadUWSGI(b *testing.B) {
	benchmarkReader(b, benchLog(func(client, second int) string {
		return fmt.Sprintf("[pid: 12|app: 0|req: 3/9] 10.0.%d.%d () {28 vars in 325 bytes} [Sat Jan 31 23:05:%02d 2026] GET /search?q=%d => generated 5124 bytes in 1 msecs (HTTP/1.1 200) 2 headers in 79 bytes (1 switches on core 0)\n", client>>8, client&255, second, client)
	}))
}

func BenchmarkReadDocker(b *testing.B) {
	benchmarkReader(b, benchLog(func(client, second int) string {
		return fmt.Sprintf("{\"log\":%q,\"stream\":\"stdout\",\"time\":\"2026-01-31T23:05:00Z\"}\n", combinedLine(client, second))
	}))
}

func BenchmarkReadBehindProxies(b *testing.B) {
	trusted, err := proxies.Parse("10.0.0.0/8")
	if err != nil {
		b.Fatal(err)
	}
	benchmarkReaderWith(b, benchLog(func(client, second int) string {
		return strings.TrimSuffix(combinedLine(client, second), "\n") + fmt.Sprintf(" \"198.51.100.7, 203.0.%d.%d, 10.0.0.1\"\n", client>>8, client&255)
	}), accesslog.Options{Proxies: trusted})
}

func BenchmarkReadJSON(b *testing.B) {
	benchmarkReader(b, benchLog(func(client, second int) string {
		return fmt.Sprintf("{\"time\":\"2026-01-31T23:05:%02dZ\",\"remote_addr\":\"10.0.%d.%d\",\"request\":\"GET /search?q=%d HTTP/1.1\",\"status\":200,\"agent\":\"Mozilla/5.0 (X11; Linux x86_64)\"}\n",
			second, client>>8, client&255, client)
	}))
}

func BenchmarkReadCSV(b *testing.B) {
	benchmarkReader(b, append([]byte("time,remote_addr,request,status\n"), benchLog(func(client, second int) string {
		return fmt.Sprintf("2026-01-31T23:05:%02dZ,10.0.%d.%d,\"GET /search?q=%d HTTP/1.1\",200\n", second, client>>8, client&255, client)
	})...))
}

func benchmarkSort(b *testing.B, isInOrder bool) {
	records := shuffled(b, benchLines, 1<<30)
	if isInOrder {
		records = sortStably(records)
	}
	for b.Loop() {
		sorted := accesslog.Sort(context.Background(), accesslog.Slice(records), accesslog.SortOptions{})
		var err error
		for err == nil {
			_, err = sorted.Next()
		}
		if !errors.Is(err, io.EOF) {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*benchLines/b.Elapsed().Seconds(), "records/s")
}

func BenchmarkSortShuffled(b *testing.B) { benchmarkSort(b, false) }
func BenchmarkSortInOrder(b *testing.B)  { benchmarkSort(b, true) }

func TestReadingKnownClientsAllocatesNothing(t *testing.T) {
	const lines = 1_000
	reader, err := accesslog.NewReader(strings.NewReader(strings.Repeat(common+"\n", lines+10)), "", accesslog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if allocations := testing.AllocsPerRun(lines, func() {
		if _, err := reader.Next(); err != nil {
			t.Fatal(err)
		}
	}); allocations != 0 {
		t.Errorf("a line takes %v allocations, want 0", allocations)
	}
}
