package replay_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/replay"
	"github.com/stint-dev/stint/internal/wire"
)

func TestOutcomesOfAllowedRequestsAreReported(t *testing.T) {
	var mu sync.Mutex
	var reported []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case err == nil && r.URL.Path == wire.PathCheck && strings.Contains(string(body), "limited"):
			w.WriteHeader(http.StatusTooManyRequests)
			io.WriteString(w, `{"decision":"limited","allowed":false}`)
		case err == nil && r.URL.Path == wire.PathCheck:
			io.WriteString(w, `{"decision":"allowed","allowed":true}`)
		default:
			var report wire.OutcomeReport
			if err := json.Unmarshal(body, &report, json.RejectUnknownMembers(true)); err != nil || r.URL.Path != wire.PathReport {
				t.Errorf("%s %s: %v", r.URL.Path, body, err)
			}
			mu.Lock()
			reported = append(reported, strings.Join([]string{report.Key, report.Outcome, report.Request.Path, report.Request.Method, report.Source}, " "))
			mu.Unlock()
			if report.Request.Path == "/refused" {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			io.WriteString(w, `{"outcome":"x","policies":[]}`)
		}
	}))
	defer server.Close()
	var records []accesslog.Record
	for i, r := range []struct {
		key, method, path string
		status            int
	}{
		{"user:a", "GET", "/old?x=1", 404}, {"user:a", "GET", "/a.css", 404}, {"user:a", "POST", "/login", 401}, {"user:a", "GET", "/", 200},
		{"user:limited", "GET", "/old", 404}, {"user:a", "GET", "/refused", 410},
	} {
		one := record(t, int64(i), r.key, 1)
		one.Method, one.Path, one.Status = r.method, r.path, r.status
		records = append(records, one)
	}
	report, err := replay.Run(t.Context(), accesslog.Slice(records), replay.Options{URL: server.URL, Outcomes: accesslog.DefaultOutcomes()})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"user:a login_failed /login post replay", "user:a not_found /old get replay", "user:a not_found /refused get replay"}
	if slices.Sort(reported); !slices.Equal(reported, want) {
		t.Errorf("reported %q, want %q", reported, want)
	}
	if report.Requests != 6 || report.Reported != 2 || report.Unreported != 1 || report.Failed != 0 {
		t.Errorf("got %+v", report)
	}
	var text strings.Builder
	if err := report.WriteText(&text); err != nil || !strings.Contains(text.String(), "2 reported, 1 not accepted") {
		t.Errorf("%v: %s", err, text.String())
	}
	reported = nil
	if report, err = replay.Run(t.Context(), accesslog.Slice(records), replay.Options{URL: server.URL}); err != nil || len(reported) != 0 || report.Reported != 0 {
		t.Errorf("without outcomes %q are reported: %v", reported, err)
	}
}
