package memlog_test

import (
	"testing"

	"github.com/stint-dev/stint/internal/timestamplog/logtest"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
)

func TestContract(t *testing.T) {
	logtest.Run(t, func(*testing.T) logtest.Harness {
		clock := logtest.NewClock()
		return logtest.Harness{Log: memlog.New(memlog.Options{Now: clock.Now}), Clock: clock, ClockExpires: true}
	})
}
