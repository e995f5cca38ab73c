package httpserver

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/fault"
)

// failuresEvery is how often failures of one kind are logged.
const failuresEvery = time.Minute

// Failures logs requests that were answered with a status of 500 or more. A failure of Stint's own
// is an error with its cause, each time. All others, such as a method that does not exist or an
// outage that is logged elsewhere, anybody can cause as often as they like: they are warnings, for
// each kind once a minute, with how many there were. It is safe for concurrent use.
type Failures struct {
	Logger *slog.Logger
	Now    func() time.Time // nil means time.Now

	mu    sync.Mutex
	kinds map[string]*repeatedFailure
}

// repeatedFailure is what is known of one kind.
type repeatedFailure struct {
	logged time.Time
	since  int // failures after that
}

// Log logs a request that was answered with that status because of err.
func (f *Failures) Log(ctx context.Context, message string, status int, err error, attributes ...slog.Attr) {
	if status == http.StatusInternalServerError {
		f.Logger.LogAttrs(ctx, slog.LevelError, message, attributes...)
		return
	}
	kind := strconv.Itoa(status)
	var known *fault.Error
	if errors.As(err, &known) {
		kind = string(known.Code)
	}
	if since, is := f.isDue(kind); is {
		f.Logger.LogAttrs(ctx, slog.LevelWarn, message, append(attributes, slog.Int("status", status), slog.Int("others_since_the_last_line", since))...)
	}
}

// isDue reports whether a failure of a kind is to be logged, and how many were not since the last.
// There are as many kinds as statuses and codes of faults.
func (f *Failures) isDue(kind string) (since int, is bool) {
	now := time.Now()
	if f.Now != nil {
		now = f.Now()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	k := f.kinds[kind]
	if k == nil {
		if f.kinds == nil {
			f.kinds = map[string]*repeatedFailure{}
		}
		k = &repeatedFailure{}
		f.kinds[kind] = k
	}
	if now.Sub(k.logged) < failuresEvery {
		k.since++
		return 0, false
	}
	since = k.since
	k.logged, k.since = now, 0
	return since, true
}
