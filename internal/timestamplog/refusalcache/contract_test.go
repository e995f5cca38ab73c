package refusalcache_test

import (
	"testing"

	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/internal/timestamplog/refusalcache"
	"github.com/stint-dev/stint/test/logtest"
)

func newHarness(*testing.T) logtest.Harness {
	clock := logtest.NewClock()
	log := refusalcache.New(memlog.New(memlog.Options{Now: clock.Now}), refusalcache.Options{Now: logtest.Steady(clock, refusalcache.MaxAge)})
	return logtest.Harness{Log: log, Clock: clock, ClockExpires: true}
}

// The cache of a node must not change any answer.
func TestContract(t *testing.T) { logtest.Run(t, newHarness) }

func TestContractOfTheSortedSet(t *testing.T) { logtest.RunSortedSet(t, newHarness) }

func TestContractOfTheCounters(t *testing.T) { logtest.RunCounters(t, newHarness) }

func TestContractOfDistinctRules(t *testing.T) { logtest.RunDistinct(t, newHarness) }
