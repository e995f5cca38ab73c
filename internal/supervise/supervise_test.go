package supervise_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/internal/supervise"
)

// logged returns what is logged from now until the test ends.
func logged(t *testing.T) *bytes.Buffer {
	var log bytes.Buffer
	supervise.LogTo(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { supervise.LogTo(slog.Default()) })
	return &log
}

func TestCallReturnsLogsAndCountsPanics(t *testing.T) {
	log := logged(t)
	before := supervise.Panics()["call"]
	err := supervise.Call("call", func() error { panic("boom") })
	var p *supervise.Panic
	if !errors.As(err, &p) || p.Value != "boom" || err.Error() != "call panicked: boom" {
		t.Errorf("Call: got %v", err)
	}
	if got := supervise.Panics()["call"] - before; got != 1 {
		t.Errorf("Panics: got %d, want 1", got)
	}
	if text := log.String(); !strings.Contains(text, "goroutine=call") || !strings.Contains(text, "supervise_test.go") {
		t.Errorf("Call logged %q, want the name and the stack", text)
	}
	if err := supervise.Call("call", func() error { return context.Canceled }); !errors.Is(err, context.Canceled) {
		t.Errorf("Call of a function with an error: got %v", err)
	}
}

func TestRunRestartsPanickingWorkWithBackoff(t *testing.T) {
	logged(t)
	synctest.Test(t, func(t *testing.T) {
		var calls []time.Duration
		begun := time.Now()
		supervise.Run(t.Context(), "run", func(context.Context) {
			calls = append(calls, time.Since(begun))
			switch n := len(calls); {
			case n == 9: // long after the last panic
				time.Sleep(supervise.SteadyAfter)
				panic("again")
			case n < 11:
				panic("early")
			}
		})
		want := []time.Duration{0, 1, 3, 7, 15, 31, 63, 123, 183, 183 + 300 + 1, 183 + 300 + 3}
		if len(calls) != len(want) {
			t.Fatalf("Run made %d calls, at %v", len(calls), calls)
		}
		for i := range want {
			if calls[i] != want[i]*time.Second {
				t.Errorf("call %d was at %s, want %s", i, calls[i], want[i]*time.Second)
			}
		}
	})
}

func TestRunEndsItsPauseWhenTheContextEnds(t *testing.T) {
	logged(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		begun, calls := time.Now(), 0
		supervise.Run(ctx, "ends", func(context.Context) { calls++; panic("boom") })
		if took := time.Since(begun); took != 500*time.Millisecond || calls != 1 {
			t.Errorf("Run made %d calls and ended after %s", calls, took)
		}
	})
}
