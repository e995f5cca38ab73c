package app

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/fault"
)

// The text of a fault is for callers: the log of the operator has the cause too.
func TestAnOutageOfTheDatabaseIsLoggedWithItsCause(t *testing.T) {
	var logged bytes.Buffer
	o := &outageLog{log: slog.New(slog.NewTextHandler(&logged, nil)), answered: func() int64 { return 0 }}
	cause := errors.New("FATAL: too many connections\n(SQLSTATE 53300)")
	o.database(time.Now(), time.Time{}, &fault.Error{Code: fault.Unavailable, Message: "The database cannot be reached; nothing was changed.", Err: cause})
	if got := logged.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `cause="FATAL: too many connections (SQLSTATE 53300)"`) {
		t.Errorf("got %s", got)
	}
}
