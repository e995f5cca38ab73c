package backtest_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/backtest"
	"github.com/stint-dev/stint/internal/presets"
	"github.com/stint-dev/stint/internal/rules"
)

// realLog returns the path of a real access log, or "" if it is absent: the log is not part of
// this project.
func realLog(t testing.TB) string {
	folder := os.Getenv("STINT_TEST_DATA")
	if folder == "" {
		folder = filepath.Join("..", "..", "..", "shared", "data")
	}
	path := filepath.Join(folder, "apache_access.log.gz")
	if _, err := os.Stat(path); err != nil {
		t.Logf("the real access log is absent, so this test checks nothing; STINT_TEST_DATA names its folder: %v", err)
		return ""
	}
	return path
}

func defaultStack(t testing.TB) rules.Stack { return stack(t, "1/s", "20/m", "200/h", "800/d") }

func stack(t testing.TB, texts ...string) rules.Stack {
	t.Helper()
	s, err := rules.ParseStack(texts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// plainRequest is a request as the independent count reads it.
type plainRequest struct {
	client string
	at     time.Time
}

// readPlainly reads the real log without code of this project.
func readPlainly(t *testing.T, path string) []plainRequest {
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
	var all []plainRequest
	in := bufio.NewScanner(unpacked)
	for in.Scan() {
		words := strings.Fields(in.Text())
		at, err := time.Parse("[02/Jan/2006:15:04:05 -0700]", words[3]+" "+words[4])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, plainRequest{words[0], at})
	}
	if in.Err() != nil {
		t.Fatal(in.Err())
	}
	slices.SortStableFunc(all, func(a, b plainRequest) int { return a.at.Compare(b.at) })
	return all
}

// plainCount is what an independent count found.
type plainCount struct {
	allowed, refused int
	byClient         map[string]int // refusals
	failed, alone    []int          // by rule
}

// countPlainly tries the rules by keeping every allowed time of every client
// and counting, for each request, those within each window.
func countPlainly(requests []plainRequest, stack rules.Stack) plainCount {
	count := plainCount{byClient: map[string]int{}, failed: make([]int, len(stack)), alone: make([]int, len(stack))}
	allowed := map[string][]time.Time{}
	for _, request := range requests {
		var failing []int
		for i, rule := range stack {
			within := 0
			for _, at := range allowed[request.client] {
				if request.at.Sub(at) < rule.Window {
					within++
				}
			}
			if within >= rule.Limit {
				failing = append(failing, i)
				count.failed[i]++
			}
		}
		switch len(failing) {
		case 0:
			count.allowed++
			allowed[request.client] = append(allowed[request.client], request.at)
			continue
		case 1:
			count.alone[failing[0]]++
		}
		count.refused++
		count.byClient[request.client]++
	}
	return count
}

func TestRealLogUnderTheDefaultStack(t *testing.T) {
	path := realLog(t)
	if path == "" {
		return
	}
	report := runFile(t, path, backtest.Options{Plan: backtest.StackPlan(defaultStack(t))})
	if report.Requests != 10_000 || report.Allowed != 8_830 || report.Refused != 1_170 || report.Keys != 1_753 {
		t.Errorf("requests %d, allowed %d, refused %d, keys %d; want 10000, 8830, 1170, 1753",
			report.Requests, report.Allowed, report.Refused, report.Keys)
	}
	if worst := report.Offenders[0]; worst.Key != "ip:130.237.218.86" || worst.Refused != 214 {
		t.Errorf("the worst offender is %s with %d refusals, want ip:130.237.218.86 with 214", worst.Key, worst.Refused)
	}
	if report.Input.Bad != 0 || report.Input.OutOfOrder != 4_915 {
		t.Errorf("bad lines %d, out of order %d; want 0, 4915", report.Input.Bad, report.Input.OutOfOrder)
	}
}

// TestRealLogUnderTheTrapsMatchesTheDocs compares docs/DETECTION.md with what the
// commands in it count.
func TestRealLogUnderTheTrapsMatchesTheDocs(t *testing.T) {
	path := realLog(t)
	if path == "" {
		return
	}
	missing := 0
	tried := func(name string) *backtest.Report {
		preset, _ := presets.Find(name)
		missing = 0
		return runFile(t, path, backtest.Options{Plan: backtest.PoliciesPlan(preset.Policies), Decided: func(r accesslog.Record, refused bool) {
			if refused && r.Status == 404 {
				missing++
			}
		}})
	}
	traps, php := tried("traps"), tried("traps-php")
	want := fmt.Sprintf("On the public sample log of a blog (10,000 requests of four days) `--preset traps` refuses %d requests and `--preset traps-php` %d: "+
		"%d by a trap, and %d of the one address that was blocked then. %d of the %d had been answered 404.",
		traps.Refused, php.Refused, php.Rules[0].Failed, php.Blocked, missing, php.Refused)
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "DETECTION.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.ReplaceAll(string(text), "\n", " "), want) || php.Escalations[0].Keys != 1 {
		t.Errorf("the document does not say %q; %d addresses were blocked", want, php.Escalations[0].Keys)
	}
}

func TestRealLogMatchesAnIndependentCount(t *testing.T) {
	path := realLog(t)
	if path == "" {
		return
	}
	requests := readPlainly(t, path)
	for _, limits := range []rules.Stack{
		defaultStack(t), stack(t, "20/h"), stack(t, "3/10s", "10/h", "50/d"), stack(t, "0/s", "5/m"), stack(t, "100000/31d"),
	} {
		t.Run(strings.ReplaceAll(limits.String(), "/", " in "), func(t *testing.T) {
			want := countPlainly(requests, limits)
			report := runFile(t, path, backtest.Options{Plan: backtest.StackPlan(limits)})
			if int(report.Allowed) != want.allowed || int(report.Refused) != want.refused {
				t.Errorf("allowed %d, refused %d; want %d, %d", report.Allowed, report.Refused, want.allowed, want.refused)
			}
			got := map[string]int{}
			for _, o := range report.Offenders {
				got[strings.TrimPrefix(o.Key, "ip:")] = int(o.Refused)
			}
			if !maps.Equal(got, want.byClient) {
				t.Errorf("refusals by client are %v, want %v", got, want.byClient)
			}
			for i, rule := range report.Rules {
				if int(rule.Failed) != want.failed[i] || int(rule.Alone) != want.alone[i] {
					t.Errorf("%s failed %d times, %d alone; want %d, %d", rule.Rule, rule.Failed, rule.Alone, want.failed[i], want.alone[i])
				}
			}
		})
	}
}

func runFile(t testing.TB, path string, o backtest.Options) *backtest.Report {
	t.Helper()
	report, err := backtest.RunFiles(context.Background(), []string{path}, backtest.FileOptions{}, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}
