package replay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/replay"
)

func record(t testing.TB, ms int64, text string, cost int) accesslog.Record {
	t.Helper()
	key, err := keys.Parser{}.Key(text)
	if err != nil {
		t.Fatal(err)
	}
	return accesslog.Record{Time: ms, Key: key, Cost: cost}
}

// check is a request that a checkServer got.
type check struct {
	Key, Policy, Detail, Source string
	Cost                        int
}

// checkServer answers checks by their keys and stores them.
type checkServer struct {
	*httptest.Server
	mu        sync.Mutex
	checks    []check
	atOnce    int
	maxAtOnce int
	headers   []http.Header
}

func newCheckServer(t *testing.T) *checkServer {
	s := &checkServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(s.Close)
	return s
}

func (s *checkServer) answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var c check
	if err == nil {
		err = json.Unmarshal(body, &c, json.MatchCaseInsensitiveNames(true), json.RejectUnknownMembers(true))
	}
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/base/v1/check" {
		http.Error(w, fmt.Sprint(r.Method, r.URL, err), http.StatusNotFound)
		return
	}
	s.mu.Lock()
	s.checks = append(s.checks, c)
	s.headers = append(s.headers, r.Header.Clone())
	s.atOnce++
	s.maxAtOnce = max(s.maxAtOnce, s.atOnce)
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.atOnce--; s.mu.Unlock() }()

	w.Header().Set("Content-Type", "application/json")
	switch c.Key {
	case "user:limited":
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, `{"decision":"limited","allowed":false}`)
	case "user:blocked":
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, `{"decision":"blocked","allowed":false}`)
	case "user:unavailable":
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, `{"decision":"unavailable","allowed":false,"degraded":true}`)
	case "user:costly":
		w.WriteHeader(http.StatusUnprocessableEntity)
		io.WriteString(w, `{"title":"Unprocessable","detail":"the cost\u001b is too large"}`)
	case "user:proxy":
		w.WriteHeader(http.StatusBadGateway)
		io.WriteString(w, `<html>`)
	case "user:dropped":
		panic(http.ErrAbortHandler)
	case "user:stranger":
		w.WriteHeader(http.StatusUnauthorized)
	default:
		io.WriteString(w, `{"decision":"allowed","allowed":true,"degraded":false,"key":"x","block":null}`)
	}
}

func TestEachAnswerIsCounted(t *testing.T) {
	server := newCheckServer(t)
	var records []accesslog.Record
	for i, text := range []string{"user:a", "user:limited", "user:limited", "user:blocked", "user:unavailable", "user:costly", "user:costly", "user:proxy", "user:dropped", "ip:2001:db8::1"} {
		records = append(records, record(t, int64(i), text, i+1))
	}
	var progress []int64
	// One caller, so that the first request is answered before one fails.
	report, err := replay.Run(context.Background(), accesslog.Slice(records), replay.Options{
		URL: server.URL + "/base/", Token: "secret", Policy: "trial", Callers: 1,
		Progress: func(n int64) { progress = append(progress, n) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if report.Requests != 10 || report.Allowed != 2 || report.Limited != 2 || report.Blocked != 1 || report.Unavailable != 1 || report.Degraded != 1 || report.Failed != 4 {
		t.Errorf("the report is %+v", report)
	}
	if len(report.Failures) != 3 || report.Failures[0] != (replay.Failure{What: "HTTP 422", Count: 2, Example: `"the cost\x1b is too large"`}) {
		t.Errorf("the failures are %+v", report.Failures)
	}
	if report.Failures[1].What != "HTTP 502" || report.Failures[2].What != "no answer" {
		t.Errorf("the failures are %+v", report.Failures)
	}
	if report.Latency.MaxMS <= 0 || report.Latency.P50MS > report.Latency.P99MS || report.Latency.P999MS > report.Latency.MaxMS {
		t.Errorf("the latencies are %+v", report.Latency)
	}
	if len(progress) == 0 || progress[len(progress)-1] != 9 {
		t.Errorf("the progress was %v, want 9 at the end", progress)
	}
	if want := (check{Key: "user:a", Policy: "trial", Detail: "none", Source: "replay", Cost: 1}); server.checks[0] != want {
		t.Errorf("the first check is %+v, want %+v", server.checks[0], want)
	}
	if last := server.checks[len(server.checks)-1]; last.Key != "ip:2001:db8::1" {
		t.Errorf("the IPv6 client is sent as %q, want its whole address", last.Key)
	}
	if h := server.headers[0]; h.Get("Authorization") != "Bearer secret" || h.Get("Content-Type") != "application/json" {
		t.Errorf("the headers are %v", h)
	}
}

func TestRequestsOfAKeyAreSentInOrderByABoundedNumberOfCallers(t *testing.T) {
	server := newCheckServer(t)
	var records []accesslog.Record
	for i := range 900 {
		records = append(records, record(t, int64(i), fmt.Sprintf("token:%d", i%30), i/30+1))
	}
	report, err := replay.Run(context.Background(), accesslog.Slice(records), replay.Options{URL: server.URL + "/base", Callers: 4})
	if err != nil || report.Allowed != 900 {
		t.Fatalf("allowed %d, %v", report.Allowed, err)
	}
	if server.maxAtOnce > 4 {
		t.Errorf("%d checks were sent at once, want at most 4", server.maxAtOnce)
	}
	last := map[string]int{}
	for _, c := range server.checks {
		if c.Cost != last[c.Key]+1 {
			t.Fatalf("request %d of %s came after request %d", c.Cost, c.Key, last[c.Key])
		}
		last[c.Key] = c.Cost
	}
}

func TestRejectedTokenEndsTheReplay(t *testing.T) {
	server := newCheckServer(t)
	var records []accesslog.Record
	for i := range 10_000 {
		records = append(records, record(t, int64(i), "user:stranger", 1))
	}
	report, err := replay.Run(context.Background(), accesslog.Slice(records), replay.Options{URL: server.URL + "/base"})
	if err == nil || !strings.Contains(err.Error(), "refuses the token") {
		t.Errorf("the error is %v, want one about the token", err)
	}
	if len(server.checks) != 1 || report.Requests != 0 {
		t.Errorf("%d checks were sent and %d counted, want 1 and 0", len(server.checks), report.Requests)
	}
}

func TestTokenRevokedDuringTheReplayEndsIt(t *testing.T) {
	server := newCheckServer(t)
	records := []accesslog.Record{record(t, 0, "user:a", 1), record(t, 1, "user:stranger", 1), record(t, 2, "user:a", 1)}
	report, err := replay.Run(context.Background(), accesslog.Slice(records), replay.Options{URL: server.URL + "/base", Callers: 1})
	if err == nil || !strings.Contains(err.Error(), "refuses the token") || report.Allowed != 1 || report.Requests != 1 {
		t.Errorf("the error is %v, the report %+v; want one allowed", err, report)
	}
}

func TestServerThatNeverAnswersEndsTheReplay(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	report, err := replay.Run(context.Background(), accesslog.Slice([]accesslog.Record{record(t, 0, "a", 1)}), replay.Options{URL: server.URL})
	if err == nil || !strings.Contains(err.Error(), "no answer from the server") || report.Requests != 0 {
		t.Errorf("the error is %v, the report %+v", err, report)
	}
}

// clockedDoer answers after a wait and stores the time of each request.
type clockedDoer struct {
	mu    sync.Mutex
	asked []time.Time
	wait  time.Duration
}

func (d *clockedDoer) Do(r *http.Request) (*http.Response, error) {
	d.mu.Lock()
	d.asked = append(d.asked, time.Now())
	d.mu.Unlock()
	select {
	case <-time.After(d.wait):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(`{"decision":"allowed"}`))}, nil
}

func (d *clockedDoer) offsets() []time.Duration {
	var offsets []time.Duration
	for _, at := range d.asked {
		offsets = append(offsets, at.Sub(d.asked[0]))
	}
	return offsets
}

func TestSpeedDividesThePauses(t *testing.T) {
	for _, test := range []struct {
		speed float64
		want  []time.Duration
	}{
		{1, []time.Duration{0, time.Minute, time.Hour}},
		{60, []time.Duration{0, time.Second, time.Minute}},
		{0.5, []time.Duration{0, 2 * time.Minute, 2 * time.Hour}},
		{0, []time.Duration{0, 0, 0}},
	} {
		t.Run(fmt.Sprintf("times %v", test.speed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				doer := &clockedDoer{}
				const start = 1_700_000_000_000
				records := []accesslog.Record{record(t, start, "a", 1), record(t, start+60_000, "b", 1), record(t, start+3_600_000, "c", 1)}
				report, err := replay.Run(context.Background(), accesslog.Slice(records), replay.Options{URL: "http://stint.test", Speed: test.speed, Client: doer})
				if err != nil {
					t.Fatal(err)
				}
				if got := doer.offsets(); !slices.Equal(got, test.want) {
					t.Errorf("sent at %v, want %v", got, test.want)
				}
				if report.MaxLagMS != 0 || report.ElapsedMS != test.want[2].Milliseconds() {
					t.Errorf("lag %d ms, elapsed %d ms", report.MaxLagMS, report.ElapsedMS)
				}
			})
		})
	}
}

func TestReportStatesTheLagOfASlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		doer := &clockedDoer{wait: 100 * time.Millisecond}
		var records []accesslog.Record
		for i := range 200 { // all at once, of one key: one after another, 20 s
			records = append(records, record(t, int64(i/199), "a", 1))
		}
		report, err := replay.Run(context.Background(), accesslog.Slice(records), replay.Options{URL: "http://stint.test", Speed: 1, Client: doer})
		if err != nil {
			t.Fatal(err)
		}
		if report.ElapsedMS != 20_000 || report.Latency.P50MS != 100 || report.Latency.MaxMS != 100 {
			t.Errorf("elapsed %d ms, latency %+v; want 20000 ms, 100 ms", report.ElapsedMS, report.Latency)
		}
		if report.MaxLagMS < 10_000 { // all but the queue's length of 64 wait
			t.Errorf("the lag is %d ms, want more than 10 s", report.MaxLagMS)
		}
	})
}

func TestCancelledReplayReportsWhatWasDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
		defer cancel()
		records := []accesslog.Record{record(t, 0, "a", 1), record(t, 60_000, "b", 1), record(t, 120_000, "c", 1)}
		report, err := replay.Run(ctx, accesslog.Slice(records), replay.Options{URL: "http://stint.test", Speed: 1, Client: &clockedDoer{}})
		if !errors.Is(err, context.DeadlineExceeded) || report.Allowed != 2 || report.Failed != 0 {
			t.Errorf("the error is %v, the report %+v; want 2 allowed", err, report)
		}
	})
}

func TestBadOptionsAreErrorsThatNameWhatIsAllowed(t *testing.T) {
	for _, test := range []struct {
		options replay.Options
		want    string
	}{
		{replay.Options{}, "use the address of the check listener"},
		{replay.Options{URL: "localhost:8080"}, "use the address of the check listener"},
		{replay.Options{URL: "ftp://localhost"}, "use the address of the check listener"},
		{replay.Options{URL: "http://localhost", Speed: -1}, "use a multiple of the original pace"},
		{replay.Options{URL: "http://localhost", Callers: -1}, "it must be from 1 to 10000"},
	} {
		report, err := replay.Run(context.Background(), accesslog.Slice(nil), test.options)
		if err == nil || !strings.Contains(err.Error(), test.want) || report == nil {
			t.Errorf("Run with %+v: got %v, %v; want an error with %q", test.options, report, err, test.want)
		}
	}
}

func TestReportIsWritten(t *testing.T) {
	report := &replay.Report{
		Requests: 1000, Allowed: 900, Limited: 90, Failed: 10, ElapsedMS: 2_000, MaxLagMS: 30,
		Failures: []replay.Failure{{What: "HTTP 502", Count: 10, Example: `"\x1b"`}},
		Latency:  replay.Latency{P50MS: 1, P90MS: 2, P99MS: 3, P999MS: 4, MaxMS: 5.25},
	}
	var text bytes.Buffer
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	const want = `Sent                1,000  100.00 %
Allowed               900   90.00 %
Limited                90    9.00 %
Blocked                 0    0.00 %
Unavailable             0    0.00 %
Failed                 10    1.00 %
Degraded                0    0.00 %
  HTTP 502, 10 times, the first: "\x1b"

Latency      p50 1 ms, p90 2 ms, p99 3 ms, p99.9 4 ms, max 5.25 ms
Took         2s, 500 requests/s, at most 30ms behind the pace
`
	if text.String() != want {
		t.Errorf("the text is\n%s\nwant\n%s", &text, want)
	}
	var out bytes.Buffer
	if err := report.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var back replay.Report
	if err := json.Unmarshal(out.Bytes(), &back, json.RejectUnknownMembers(true)); err != nil || back.Allowed != 900 || len(back.Failures) != 1 {
		t.Errorf("the JSON reads back as %+v, %v", back, err)
	}
}
