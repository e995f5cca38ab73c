package memlog_test

import (
	"testing"

	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/test/logtest"
)

func newHarness(*testing.T) logtest.Harness {
	clock := logtest.NewClock()
	return logtest.Harness{Log: memlog.New(memlog.Options{Now: clock.Now}), Clock: clock, ClockExpires: true}
}

func TestContract(t *testing.T) { logtest.Run(t, newHarness) }

func TestContractOfTheSortedSet(t *testing.T) { logtest.RunSortedSet(t, newHarness) }

func TestContractOfDistinctRules(t *testing.T) { logtest.RunDistinct(t, newHarness) }

func TestContractOfTheCounters(t *testing.T) { logtest.RunCounters(t, newHarness) }
