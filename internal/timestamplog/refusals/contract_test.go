package refusals_test

import (
	"testing"

	"github.com/stint-dev/stint/internal/timestamplog/logtest"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/internal/timestamplog/refusals"
)

func newHarness(*testing.T) logtest.Harness {
	clock := logtest.NewClock()
	log := refusals.New(memlog.New(memlog.Options{Now: clock.Now}), refusals.Options{Now: logtest.Steady(clock, refusals.Longest)})
	return logtest.Harness{Log: log, Clock: clock, ClockExpires: true}
}

// What a node remembers must not show in any answer.
func TestContract(t *testing.T) { logtest.Run(t, newHarness) }

func TestContractOfTheSortedSet(t *testing.T) { logtest.RunSortedSet(t, newHarness) }

func TestContractOfTheCounters(t *testing.T) { logtest.RunCounters(t, newHarness) }
