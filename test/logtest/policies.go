package logtest

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

func policies() []contract {
	return []contract{
		{"a limit that is lowered and restored forgets nothing", changedAndBack},
		{"without the retention of the old version a lowered limit drops entries", trimmedByRetention},
		{"a raised limit frees a waiting key at once", raisedFrees},
		{"a lowered limit refuses at once", loweredRefuses},
		{"a longer window counts what is still kept", longerWindow},
		{"a shorter window frees at once", shorterWindow},
		{"an added rule counts what other rules have logged", addedRule},
		{"a window that grows from days to the longest counts what was logged", windowGrowsToLongest},
		{"a window that shrinks from the longest to a minute counts what was logged", windowShrinksFromLongest},
		{"a client that sends every three hours is never refused by 200/h, 300/31d or a whole stack in 400 days", everyThreeHours},
		{"a client that sends every three hours is refused by 247/31d on its 31st day", oncePerMonthTooMany},
		{"a limit of 100,000 is exact", largestLimit},
	}
}

func changedAndBack(t *testing.T, h Harness) {
	f := newFixture(t, h, "20/m", "800/d")
	good := f.policy.Retention
	for i := range int64(15) {
		f.at(i * second).allow(1)
	}
	f.change(good, "5/m")
	f.at(20*second).limit(1, "5/1m", 70*second)
	f.at(70 * second).allow(1)
	f.at(74 * second).allow(4)
	f.at(75*second).limit(1, "5/1m", 130*second)
	f.change(good, "20/m", "800/d")
	f.wantStates(f.detail(1), state(15, 0), state(780, 0))
	f.allow(15)
	f.limit(1, "20/1m", 130*second)
	f.wantStates(f.detail(1), state(0, 55*second), state(765, 0))
}

func trimmedByRetention(t *testing.T, h Harness) {
	f := newFixture(t, h, "20/m")
	f.allow(15)
	f.change(rules.Retention{}, "16/s")
	f.at(1000).allow(1)
	f.change(rules.Retention{}, "20/m")
	f.wantStates(f.detail(1), state(19, 0))
	f.wantTimes(1000)
}

func raisedFrees(t *testing.T, h Harness) {
	f := newFixture(t, h, "5/m")
	f.allow(5)
	f.at(1).limit(1, "5/1m", minute)
	f.change(f.policy.Retention, "7/m")
	f.allow(2)
	f.limit(1, "7/1m", minute)
}

func loweredRefuses(t *testing.T, h Harness) {
	f := newFixture(t, h, "10/m")
	for i := range int64(8) {
		f.at(i * second).allow(1)
	}
	f.change(f.policy.Retention, "3/m")
	f.at(7*second).limit(1, "3/1m", 65*second)
	f.at(65*second-1).limit(1, "3/1m", 65*second)
	f.at(65 * second).allow(1)
}

func longerWindow(t *testing.T, h Harness) {
	f := newFixture(t, h, "5/m")
	f.allow(3)
	f.at(30 * second).allow(1)
	f.change(f.policy.Retention, "5/h")
	f.at(minute).allow(1)
	f.at(minute).limit(1, "5/1h", hour)
	f.at(hour-1).limit(1, "5/1h", hour)
	f.at(hour).allow(3)
	f.limit(1, "5/1h", hour+30*second)
}

func shorterWindow(t *testing.T, h Harness) {
	f := newFixture(t, h, "5/h")
	f.allow(5)
	f.at(minute).limit(1, "5/1h", hour)
	f.change(f.policy.Retention, "5/m")
	f.allow(5)
	f.limit(1, "5/1m", 2*minute)
}

func addedRule(t *testing.T, h Harness) {
	f := newFixture(t, h, "100/h")
	f.allow(30)
	f.change(f.policy.Retention, "10/m", "100/h")
	f.at(second).limit(1, "10/1m", minute)
	f.at(minute).allow(10)
	f.wantStates(f.detail(1), state(0, minute), state(60, 0))
}

func windowGrowsToLongest(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/d")
	f.allow(2)
	f.change(f.policy.Retention, "3/31d")
	f.at(day - 1).allow(1)
	f.at(13*day).limit(1, "3/31d", 31*day)
	f.at(31*day-1).limit(1, "3/31d", 31*day)
	f.at(31 * day).allow(2)
	f.limit(1, "3/31d", 32*day-1)
}

func windowShrinksFromLongest(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/31d")
	f.allow(2)
	f.at(20 * day).allow(1)
	f.change(rules.Retention{}, "2/m")
	f.at(20*day + 1).allow(1)
	f.limit(1, "2/1m", 20*day+minute)
	f.at(20*day + minute).allow(1)
}

// everyThreeHours decides under all stacks in one call: with a log behind a network,
// the calls take most of the time.
func everyThreeHours(t *testing.T, h Harness) {
	f := newFixture(t, h, "200/h")
	requests := []timestamplog.Request{
		f.request(1), f.with("300/31d").request(1), f.with("1/s", "20/m", "200/h", "8/d", "57/7d", "300/31d").request(1),
	}
	results := make([]timestamplog.Result, len(requests))
	for at := int64(0); at < 400*day; at += 3 * hour {
		f.at(at)
		f.Log.Decide(t.Context(), requests, results)
		for i, r := range results {
			if r.Err != nil || r.Now != f.Clock.NowMS() {
				t.Fatalf("Decide after %v under %v: got %+v", time.Duration(at)*time.Millisecond, requests[i].Rules, r)
			}
			f.wantAllowed(r)
		}
	}
}

func oncePerMonthTooMany(t *testing.T, h Harness) {
	f := newFixture(t, h, "247/31d")
	for i := range int64(247) {
		f.at(i * 3 * hour).allow(1)
	}
	f.at(247*3*hour).limit(1, "247/31d", 31*day)
	f.at(31*day-1).limit(1, "247/31d", 31*day)
	for i := range int64(247) {
		f.at(31*day + i*3*hour).allow(1)
	}
}

func largestLimit(t *testing.T, h Harness) {
	f := newFixture(t, h, "100000/h")
	for i := range int64(100) {
		f.at(i).allow(1000)
	}
	f.at(100).limit(1, "100000/1h", hour)
	f.at(100).limit(1000, "100000/1h", hour)
	f.at(hour-1).limit(1, "100000/1h", hour)
	f.at(hour).allow(1000)
	f.limit(1, "100000/1h", hour+1)
	f.wantStates(f.at(hour+50).detail(1), state(50_000, 0))
	f.wait(time.Hour)
	f.wantStates(f.detail(1), state(100_000, 0))
}
