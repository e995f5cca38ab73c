package logtest

import "testing"

func clocks() []contract {
	return []contract{
		{"a clock that steps back an hour refuses a client who waited at most once more", backAnHour},
		{"a clock that steps back does not open the limit", backStaysShut},
		{"a clock that steps back keeps the distances between entries", backKeepsDistances},
		{"a clock that steps back a millisecond is like any other", backOneMillisecond},
		{"a clock that steps back repeatedly never opens the limit", backRepeatedly},
		{"a peek after a step back answers as if the log had moved and moves nothing", backPeek},
		{"a refusal after a step back keeps the log moved", backRefusalMoves},
		{"an allowed request after a step back is the newest", backAllowed},
		{"a clock that does not advance allows what the stack allows at one instant", stopped},
		{"a clock that jumps ahead frees what has aged out", jumpsAhead},
	}
}

func backAnHour(t *testing.T, h Harness) {
	f := newFixture(t, h, "1/m")
	f.at(hour).allow(1)
	f.at(hour+second).limit(1, "1/1m", hour+minute)
	// The client waits 59 s until RetryAt; the clock steps back an hour in between.
	f.at(minute).limit(1, "1/1m", 2*minute)
	f.at(2*minute-1).limit(1, "1/1m", 2*minute)
	f.at(2 * minute).allow(1)
}

func backStaysShut(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/m")
	for i := range int64(3) {
		f.at(hour + i*second).allow(1)
	}
	f.at(0).limit(1, "3/1m", minute-2*second)
	f.at(minute-2*second-1).limit(1, "3/1m", minute-2*second)
	f.at(minute - 2*second).allow(1)
	f.limit(1, "3/1m", minute-second)
}

func backKeepsDistances(t *testing.T, h Harness) {
	f := newFixture(t, h, "10/m")
	for _, at := range []int64{0, 7, 500, 30_000} {
		f.at(hour + at).allow(1)
	}
	f.at(0).allow(1)
	f.wantTimes(0, 0, -29_500, -29_993, -30_000)
	f.wantStates(f.at(30_000).detail(1), state(6, 0))
	f.wantStates(f.at(29_999).detail(1), state(5, 0))
}

func backOneMillisecond(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/s")
	f.at(10).allow(1)
	f.at(9).allow(1)
	f.wantTimes(9, 9)
	f.at(8).limit(1, "2/1s", 1008)
	f.at(1007).limit(1, "2/1s", 1008)
	f.at(1008).allow(2)
}

func backRepeatedly(t *testing.T, h Harness) {
	f := newFixture(t, h, "4/s")
	f.allow(4)
	for i := range int64(100) {
		f.at(-i*hour).limit(1, "4/1s", -i*hour+1000)
	}
	f.at(-99*hour + 1000).allow(4)
}

func backPeek(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/m")
	f.at(hour).allow(1)
	f.at(hour + second).allow(1)
	f.at(0)
	for range 3 {
		f.wantLimited(f.peek(1), "2/1m", minute-second)
		f.wantStates(f.detail(1), state(0, minute-second))
		f.wantTimes(0, -1000)
	}
	// Had a peek moved the log, these would have aged by the 10 s that follow.
	f.at(10 * second)
	f.wantLimited(f.peek(1), "2/1m", 10*second+minute-second)
	f.at(hour + second)
	f.wantTimes(hour+second, hour)
	f.limit(1, "2/1m", hour+minute)
}

func backRefusalMoves(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/m")
	f.at(hour).allow(2)
	f.at(0).limit(1, "2/1m", minute)
	f.at(10 * second)
	f.wantTimes(0, 0)
	f.wantLimited(f.peek(1), "2/1m", minute)
	f.limit(1, "2/1m", minute)
}

func backAllowed(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/m")
	f.at(hour).allow(2)
	f.at(0).allow(1)
	f.wantTimes(0, 0, 0)
	f.limit(1, "3/1m", minute)
}

func stopped(t *testing.T, h Harness) {
	f := newFixture(t, h, "5/1ms", "12/s")
	f.allow(5)
	for range 50 {
		f.limit(1, "5/1ms", 1)
	}
	f.at(1).allow(5)
	f.at(2).allow(2)
	for range 50 {
		f.limit(1, "12/1s", 1000)
	}
}

func jumpsAhead(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/s", "3/h")
	f.allow(2)
	f.at(hour - 1).allow(1)
	f.at(10 * hour).allow(2)
	f.at(10_000 * day).allow(2)
	f.limit(1, "2/1s", 10_000*day+1000)
}
