package accesslog_test

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/algorithms"
)

// fuzz reads any bytes in one format. Every line must be either a
// valid request or a bad line, which is shown without unprintable characters.
func fuzz(f *testing.F, format accesslog.Format, seeds ...string) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, log []byte) {
		reader, err := accesslog.NewReader(bytes.NewReader(log), "", accesslog.Options{Format: format})
		if err != nil {
			return
		}
		for {
			record, err := reader.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil { // truncated gzip data
				return
			}
			if record.Time < 0 || record.Time > 253402300799999 || record.Key.IsZero() || record.Cost < 1 || record.Cost > algorithms.MaxAmount {
				t.Fatalf("reading %q: got %+v", log, record)
			}
		}
		counts := reader.Counts()
		if counts.Lines != counts.Records+counts.Bad {
			t.Fatalf("the counts do not add up: %+v", counts)
		}
		for _, bad := range counts.First {
			if text := bad.Why + bad.Text; strings.ContainsFunc(text, func(c rune) bool { return !strconv.IsPrint(c) }) {
				t.Fatalf("a bad line is shown with unprintable characters: %+v", bad)
			}
		}
	})
}

func FuzzCLF(f *testing.F) {
	fuzz(f, accesslog.CLF, common, common+` "-" "-"`, `::1 - "a" [31/Jan/2026:23:05:03 +0100] "" 200`, "\x1f\x8b")
}

func FuzzJSON(f *testing.F) {
	fuzz(f, accesslog.JSON, `{"time":1,"ip":"::1","cost":3}`, `{"ts":"2026-01-01T00:00:00Z","request":{"client_ip":"192.0.2.1"}}`, `{"client":"\u0000","time":"1e9"}`)
}

func FuzzCSV(f *testing.F) {
	fuzz(f, accesslog.CSV, "time,ip\n1,::1\n", "time;key;cost\n\"1\";\"a;b\";2\n1;\"\n", "time\tip\n1\t\"\"\"\n")
}

func FuzzDetection(f *testing.F) {
	fuzz(f, accesslog.Auto, common, "time,ip\n", "{}", "\xef\xbb\xbf\n\n")
}

// FuzzCLFTime compares the hand-written parser with the standard library's.
func FuzzCLFTime(f *testing.F) {
	f.Add("31/Jan/2026:23:05:03 +0100")
	f.Add("29/Feb/2000:00:00:00 -2359")
	f.Add("29/Feb/2100:00:00:00 +0000")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsAny(text, "\n\"") {
			return
		}
		records, _ := read(t, common+"\n192.0.2.1 - - ["+text+`] "GET /" 200`, accesslog.Options{Format: accesslog.CLF})
		want, err := time.Parse("02/Jan/2006:15:04:05 -0700", text)
		// The library also takes lower case months and fractions, and no leap
		// seconds; what both read must be the same.
		if err != nil || len(records) < 2 {
			return
		}
		if got := records[1].Time; got != want.UnixMilli() {
			t.Fatalf("%q is read as %d, want %d", text, got, want.UnixMilli())
		}
	})
}

func TestCLFTimeMatchesTheTimePackageForFourCenturies(t *testing.T) {
	var log strings.Builder
	first := time.Date(1970, 1, 1, 12, 34, 56, 0, time.UTC)
	const days = 146_097
	for day := range days {
		log.WriteString("192.0.2.1 - - [" + first.AddDate(0, 0, day).Format("02/Jan/2006:15:04:05 -0700") + "] \"GET /\" 200\n")
	}
	records, counts := read(t, log.String(), accesslog.Options{})
	if len(records) != days {
		t.Fatalf("read %d days, want %d; bad: %+v", len(records), days, counts.First)
	}
	for day, record := range records {
		if want := first.AddDate(0, 0, day).UnixMilli(); record.Time != want {
			t.Fatalf("day %d is read as %d, want %d", day, record.Time, want)
		}
	}
}
