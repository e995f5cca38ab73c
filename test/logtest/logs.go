package logtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog"
)

func logs() []contract {
	return []contract{
		{"a log lists its times, the newest first, as many as asked", listsTimes},
		{"a log forgets what its window and its largest limit do not need", keepsWhatIsNeeded},
		{"a log without entries does not exist", emptyDoesNotExist},
		{"a log expires when its newest entry leaves the longest window", expires},
		{"a reset forgets the log and no other", resets},
		{"an empty stack writes nothing", emptyStackWritesNothing},
		{"keys do not share logs, however they are spelt", hostileKeys},
		{"policies do not share logs", policiesApart},
		{"generations do not share logs", generationsApart},
		{"a log returns its clock's time", returnsTime},
		{"a context that has ended leaves requests unanswered", endedContext},
	}
}

func listsTimes(t *testing.T, h Harness) {
	f := newFixture(t, h, "10/s", "20/m")
	for _, at := range []int64{0, 5, 700, 1000, 1000, 2500} {
		f.at(at).allow(1)
	}
	f.at(2600).allow(2)
	f.wantTimes(2600, 2600, 2500, 1000, 1000, 700, 5, 0)
	for limit, want := range []int{0, 1, 2, 3} {
		if got := f.timesOf(f.id(), limit); len(got) != want || want > 0 && got[0] != 2600 {
			t.Errorf("Timestamps with limit %d: got %v, want %d, the newest first", limit, got, want)
		}
	}
	f.at(60_004)
	if f.ClockExpires {
		f.wantTimes(2600, 2600, 2500, 1000, 1000, 700, 5)
	}
}

func keepsWhatIsNeeded(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/s", "4/10s")
	for i := range int64(20) {
		f.at(i * 3 * second).allow(1)
	}
	f.wantTimes(57_000, 54_000, 51_000, 48_000)
	f.at(61_000).allow(1)
	f.wantTimes(61_000, 57_000, 54_000)
	f.at(100_000).allow(3)
	f.wantTimes(100_000, 100_000, 100_000)
}

func emptyDoesNotExist(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/m", "0/h")
	f.limit(1, "0/1h", timestamplog.Never)
	f.peek(1)
	open := f.with("3/m")
	open.wantAllowed(open.peek(3))
	for _, g := range []*fixture{f, open, f.forKey("host:never.example.com")} {
		g.wantTimes()
		if g.reset() {
			t.Errorf("Reset of %q returns true, want false", g.key)
		}
	}
}

func expires(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/s", "5/m")
	if !f.ClockExpires {
		f.allow(1)
		f.at(minute).allow(3)
		f.wantTimes(minute, minute, minute)
		return
	}
	f.allow(1)
	f.at(30 * second).allow(1)
	f.at(90*second - 1)
	f.wantTimes(30 * second)
	f.at(90 * second)
	f.wantTimes()
	if f.reset() {
		t.Error("Reset after the newest entry left the longest window returns true, want false")
	}
	f.allow(3)
}

func resets(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/m")
	other := f.forKey("ip:203.0.113.8")
	f.allow(2)
	other.allow(2)
	f.limit(1, "2/1m", minute)
	if !f.reset() {
		t.Error("the first Reset returns false, want true")
	}
	if f.reset() {
		t.Error("the second Reset returns true, want false")
	}
	f.wantTimes()
	other.limit(1, "2/1m", minute)
	f.at(second).allow(2)
	f.limit(1, "2/1m", minute+second)
	f.wantTimes(second, second)
}

func emptyStackWritesNothing(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/m")
	f.allow(2)
	limited := f.policy
	f.change(limited.Retention)
	for range 10 {
		f.at(second).allow(1)
	}
	f.wantTimes(0, 0)
	f.change(limited.Retention, "3/m")
	f.allow(1)
	f.limit(1, "3/1m", minute)
}

// hostile are keys that a log built on text could take for each other, for a
// pattern, for a cluster's hash tag or for a part of its own names.
var hostile = []string{
	"a", "A", "b", " a", "a ", "a b", "evil{user}", "{user}evil", "{}", "{", "}", "{a}{b}",
	"*", "ip:*", "?", "[a-z]", `a\*`, `"`, `'`, `'; FLUSHALL; --`, "`", "$(id)", "%s%n", "a:b", "a.b", "1.1:a", "0", "-1", "nil", "true",
	"é", "e\u0301", "\u202e", "日本語", "🔑", "\ufeffa", "ip:203.0.113.7", "ip:2001:db8::/64", "token:abc", "<script>", "../../etc/passwd",
	strings.Repeat("k", 512), strings.Repeat("k", 511), strings.Repeat("é", 256), strings.Repeat("{", 512),
}

func hostileKeys(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/m")
	for i, key := range hostile {
		k := f.forKey(key)
		k.at(int64(i)).allow(1)
		k.wantTimes(int64(i))
	}
	for i, key := range hostile {
		k := f.forKey(key)
		k.at(1000).allow(2)
		k.limit(1, "3/1m", minute+int64(i))
		if !k.reset() {
			t.Errorf("Reset of %q returns false, want true", key)
		}
	}
	for _, key := range hostile {
		f.forKey(key).wantTimes()
	}
}

func policiesApart(t *testing.T, h Harness) {
	f := newFixture(t, h, "1/m")
	other := f.with("1/m")
	f.allow(1)
	other.at(5).allow(1)
	f.limit(1, "1/1m", minute)
	other.limit(1, "1/1m", minute+5)
}

func generationsApart(t *testing.T, h Harness) {
	f := newFixture(t, h, "1/m")
	f.allow(1)
	next := *f.policy
	next.Generation++
	next.Version++
	old := f.policy
	f.policy = &next
	f.wantTimes()
	f.at(5).allow(1)
	f.limit(1, "1/1m", minute+5)
	f.policy = old
	f.wantTimes(0)
}

func returnsTime(t *testing.T, h Harness) {
	for _, ms := range []int64{0, 1, day} {
		h.Clock.Set(Start.UnixMilli() + ms)
		now, err := h.Log.Now(t.Context())
		if err != nil || now.UnixMilli() != h.Clock.NowMS() {
			t.Errorf("Now: got %v, error %v, want %v", now, err, h.Clock.Now())
		}
	}
	h.Clock.Set(Start.UnixMilli())
}

func endedContext(t *testing.T, h Harness) {
	f := newFixture(t, h, "5/m")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	requests := []timestamplog.Request{f.request(1), f.request(1)}
	results := make([]timestamplog.Result, len(requests))
	f.Log.Decide(ctx, requests, results)
	for i, r := range results {
		if !errors.Is(r.Err, context.Canceled) && !errors.Is(r.Err, timestamplog.ErrUnreachable) {
			t.Errorf("request %d: got the error %v, want context.Canceled or ErrUnreachable", i, r.Err)
		}
	}
	ctx, cancel = context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	f.Log.Decide(ctx, requests[:1], results)
	if !errors.Is(results[0].Err, context.DeadlineExceeded) && !errors.Is(results[0].Err, timestamplog.ErrUnreachable) {
		t.Errorf("Decide after the deadline: got the error %v, want context.DeadlineExceeded or ErrUnreachable", results[0].Err)
	}
	// What was unanswered may have been charged, but never twice.
	if charged := len(f.times()); charged > 3 {
		t.Errorf("3 unanswered requests were charged %d times, want at most once each", charged)
	}
	f.allow(2)
}
