package backtest_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/backtest"
)

// hostile are keys that are dangerous in a page, a terminal or a spreadsheet.
var hostile = []string{"=HYPERLINK(\"x\")", "@SUM(A1)", "token:\u202egnp.exe", "token:" + strings.Repeat("long", 50), "token:a,b\"c"}

func reportOfHostileKeys(t *testing.T) *backtest.Report {
	t.Helper()
	var records []accesslog.Record
	for _, text := range hostile {
		records = append(records, at(t, 1, text), at(t, 1, text))
	}
	against := backtest.StackPlan(stack(t, "5/m"))
	return run(t, backtest.Options{Plan: backtest.StackPlan(stack(t, "1/m")), Against: &against}, records...)
}

func TestTextFitsItsWidthAndIsPrintable(t *testing.T) {
	for _, width := range []int{80, 100, 160} {
		var out bytes.Buffer
		if err := reportOfHostileKeys(t).WriteText(&out, backtest.TextOptions{Width: width}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width {
				t.Errorf("a line is %d wide, want at most %d: %q", n, width, line)
			}
			for _, c := range strings.TrimSuffix(line, "\n") {
				if !unicode.IsPrint(c) {
					t.Errorf("the text holds %U: %q", c, line)
				}
			}
		}
	}
}

func TestTextReportsTheFindings(t *testing.T) {
	against := backtest.StackPlan(stack(t, "1/h"))
	report := run(t, backtest.Options{Plan: backtest.StackPlan(stack(t, "2/10s")), Against: &against, Estimate: true},
		at(t, 0, "ip:192.0.2.1"), at(t, 1, "ip:192.0.2.1"), at(t, 2, "ip:192.0.2.1"), at(t, 60, "ip:192.0.2.2"))
	var out bytes.Buffer
	if err := report.WriteText(&out, backtest.TextOptions{Width: 80}); err != nil {
		t.Fatal(err)
	}
	const want = `Rules      2/10s
Requests   4 from 2 keys, 1970-01-01 00:00:00Z to 1970-01-01 00:01:00Z
Allowed    3 (75.00 %)
Refused    1 (25.00 %)
Estimate   the recording holds only some of the requests

RULE   FAILED  OF REFUSALS  ALONE
2/10s       1     100.00 %      1

OFFENDER      REFUSED     SHARE  REQUESTS         FIRST REFUSAL     BY
ip:192.0.2.1        1  100.00 %         3  1970-01-01 00:00:02Z  2/10s

Against    1/1h
Allowed    2 (50.00 %)
Refused    2 (50.00 %)

RULE AGAINST  FAILED  OF REFUSALS  ALONE
1/1h               2     100.00 %      2

0 requests of 0 keys are newly refused

1 request of 1 key is newly allowed

NEWLY ALLOWED  CHANGED  REQUESTS  REFUSED  AGAINST                 FIRST
ip:192.0.2.1         1         3        1        2  1970-01-01 00:00:01Z
`
	if out.String() != want {
		t.Errorf("the text is\n%s\nwant\n%s", out.String(), want)
	}
}

func TestTextCountsOffendersBeyondTop(t *testing.T) {
	var out bytes.Buffer
	if err := reportOfHostileKeys(t).WriteText(&out, backtest.TextOptions{Top: 2}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "... and 3 more offenders\n") {
		t.Errorf("the text does not count the other offenders:\n%s", out.String())
	}
}

func TestCSVContainsNoFormula(t *testing.T) {
	var out bytes.Buffer
	if err := reportOfHostileKeys(t).WriteCSV(&out); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1+len(hostile) {
		t.Fatalf("there are %d rows, want %d", len(rows), 1+len(hostile))
	}
	for _, row := range rows {
		if strings.ContainsAny(row[0][:1], "=+-@") {
			t.Errorf("the key %q would be run as a formula", row[0])
		}
	}
}

func TestCSVListsKeysThatOnlyTheSecondPlanRefuses(t *testing.T) {
	against := backtest.StackPlan(stack(t, "1/h"))
	report := run(t, backtest.Options{Plan: backtest.StackPlan(stack(t, "1/2s")), Against: &against},
		at(t, 0, "refused"), at(t, 1, "refused"), at(t, 2, "refused"), at(t, 5, "freed"), at(t, 9, "freed"))
	var out bytes.Buffer
	if err := report.WriteCSV(&out); err != nil {
		t.Fatal(err)
	}
	const want = `key,requests,allowed,refused,share,first_refusal,last_refusal,first_policy,first_rule,paths,agents,statuses,refused_against,newly_refused,newly_allowed
refused,3,2,1,1.000000,1970-01-01T00:00:01Z,1970-01-01T00:00:01Z,,1/2s,,,,2,0,1
freed,2,2,0,0,,,,,,,,1,0,1
`
	if out.String() != want {
		t.Errorf("the CSV is\n%swant\n%s", out.String(), want)
	}
}

func TestJSONIsTheWholeReport(t *testing.T) {
	report := reportOfHostileKeys(t)
	var out bytes.Buffer
	if err := report.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var back backtest.Report
	if err := json.Unmarshal(out.Bytes(), &back, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	if back.Refused != report.Refused || len(back.Offenders) != len(hostile) || back.Offenders[0].Key != report.Offenders[0].Key || back.Offenders[0].Refused != report.Offenders[0].Refused {
		t.Errorf("the JSON reads back as %+v, want %+v", back, report)
	}
	if !strings.Contains(out.String(), `"newly_allowed_keys": []`) {
		t.Error("an empty list is not written as []")
	}
}

func TestWriterErrorIsReturned(t *testing.T) {
	report := reportOfHostileKeys(t)
	for name, write := range map[string]func() error{
		"text": func() error { return report.WriteText(fullDisk{}, backtest.TextOptions{}) },
		"JSON": func() error { return report.WriteJSON(fullDisk{}) },
		"CSV":  func() error { return report.WriteCSV(fullDisk{}) },
	} {
		if err := write(); !errors.Is(err, errDiskFull) {
			t.Errorf("%s: the error is %v, want %v", name, err, errDiskFull)
		}
	}
}

var errDiskFull = errors.New("disk full")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errDiskFull }

func TestBadLinesAreCountedAndEscaped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	log := "192.0.2.1 - - [01/Jan/2026:00:00:01 +0000] \"GET / HTTP/1.1\" 200 1\n" +
		"\x1b[2Jnot a log line\n" +
		"192.0.2.1 - - [01/Jan/2026:00:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n"
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	var read int64
	report, err := backtest.RunFiles(context.Background(), []string{path}, backtest.FileOptions{
		Progress: func(done, total int64) {
			if done == total {
				read = done
			}
		},
	}, backtest.Options{Plan: backtest.StackPlan(stack(t, "1/m"))})
	if err != nil {
		t.Fatal(err)
	}
	if report.Requests != 2 || report.Refused != 1 || report.Input.Bad != 1 || report.Input.OutOfOrder != 1 {
		t.Errorf("the report is %+v of %+v", report, report.Input)
	}
	if read != int64(len(log)) {
		t.Errorf("%d bytes were read, want %d", read, len(log))
	}
	var out bytes.Buffer
	if err := report.WriteText(&out, backtest.TextOptions{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `"\x1b[2Jnot a log line"`) || strings.Contains(out.String(), "\x1b") {
		t.Errorf("the bad line is not shown escaped:\n%s", out.String())
	}
	if !strings.Contains(out.String(), "Bad lines  1 (33.33 %)\n") {
		t.Errorf("the bad lines are not counted:\n%s", out.String())
	}
}
