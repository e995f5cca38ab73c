package httpserver_test

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
)

// Whatever clients send, a kind of failure that they can cause takes one line a minute, and none
// of them is an error; a failure of Stint's own is logged each time.
func TestFailuresOfClientsAreLoggedOnceAMinute(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	var out strings.Builder
	f := httpserver.Failures{Logger: slog.New(slog.NewTextHandler(&out, nil)), Now: func() time.Time { return now }}
	send := func(times int) {
		for range times {
			f.Log(t.Context(), "request failed", http.StatusNotImplemented, errors.New("no such method"))
			f.Log(t.Context(), "request failed", http.StatusServiceUnavailable, fault.New(fault.Unavailable, "Busy."))
		}
	}
	send(1000)
	now = now.Add(59 * time.Second)
	send(1)
	if lines := strings.Count(out.String(), "\n"); lines != 2 || strings.Contains(out.String(), "ERROR") {
		t.Errorf("got %d lines, want 2 and no error: %s", lines, out.String())
	}
	now = now.Add(time.Second)
	send(1)
	if got := strings.Count(out.String(), "others_since_the_last_line=1000"); got != 2 {
		t.Errorf("%d lines count the other failures, want 2: %s", got, out.String())
	}
	out.Reset()
	for range 3 {
		f.Log(t.Context(), "request failed", http.StatusInternalServerError, errors.New("a fault"))
	}
	if got := strings.Count(out.String(), "level=ERROR"); got != 3 {
		t.Errorf("%d of 3 failures of Stint's own are errors: %s", got, out.String())
	}
}
