package logtest

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

func properties() []contract {
	return []contract{{
		"any sequence of requests, clock moves, resets and changes of policy is answered as brute force answers it",
		func(t *testing.T, h Harness) {
			rapid.Check(t, func(rt *rapid.T) { newSimulation(t, rt, h).run() })
		},
	}}
}

// simulation takes random actions on a Log and on the model and compares what
// they answer.
type simulation struct {
	Harness
	t        *testing.T
	rt       *rapid.T
	model    *model
	policy   *rules.Policy
	keys     []string
	versions []version
	retryAt  int64 // of the last refusal
}

// version is one version of the policy and when it was replaced.
type version struct {
	stack    rules.Stack
	replaced int64
	// kept is the retention in force while it was the current one.
	kept rules.Retention
}

func newSimulation(t *testing.T, rt *rapid.T, h Harness) *simulation {
	h.Clock.Set(Start.UnixMilli())
	s := &simulation{Harness: h, t: t, rt: rt, model: newModel(), keys: []string{"ip:203.0.113.7", "evil{user}", "🔑 *"}}
	s.policy = newPolicy(t)
	s.setStack(s.drawStack())
	return s
}

func (s *simulation) run() {
	steps := s.Steps
	if steps == 0 {
		steps = 200
	}
	actions := map[string]func(){
		"decide": s.decide, "advance": s.advance, "advance to retry": s.advanceToRetry, "step back": s.stepBack,
		"reset": s.reset, "times": s.compareTimes, "change policy": s.changePolicy,
	}
	names := []string{
		"decide", "decide", "decide", "decide", "decide", "decide", "decide", "decide", "advance", "advance", "advance",
		"advance", "advance to retry", "advance to retry", "step back", "times", "reset", "change policy",
	}
	for range rapid.IntRange(steps/4, steps).Draw(s.rt, "steps") {
		actions[rapid.SampledFrom(names).Draw(s.rt, "action")]()
	}
	for _, key := range s.keys {
		s.compareTimesOf(key)
	}
}

var windows = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 10 * time.Millisecond, time.Second, 1500 * time.Millisecond,
	time.Minute, time.Hour, 24 * time.Hour, 12 * 24 * time.Hour, 25 * 24 * time.Hour, rules.MaxWindow,
}

func (s *simulation) drawStack() rules.Stack {
	drawn := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) rules.Rule {
		limit := rapid.IntRange(1, 12).Draw(rt, "limit")
		if rapid.IntRange(0, 40).Draw(rt, "zero") == 40 {
			limit = 0
		}
		return rules.Rule{Limit: limit, Window: rapid.SampledFrom(windows).Draw(rt, "window")}
	}), 0, 4).Draw(s.rt, "stack")
	stack, err := rules.NewStack(drawn...)
	if err != nil {
		s.rt.Fatal(err)
	}
	return stack
}

// setStack makes stack the policy's next version, with the retention that it
// and the versions replaced less than their own longest window ago demand.
func (s *simulation) setStack(stack rules.Stack) {
	now := s.Clock.NowMS()
	if n := len(s.versions); n > 0 {
		s.versions[n-1].replaced = now
	}
	var kept rules.Retention
	for _, v := range s.versions {
		if now-v.replaced < v.stack.LongestWindow().Milliseconds() {
			kept = kept.Cover(v.stack)
		}
	}
	kept = kept.Cover(stack)
	next := *s.policy
	next.Version, next.Rules, next.Retention = int64(len(s.versions)+1), stack, kept
	s.policy = &next
	s.versions = append(s.versions, version{stack: stack, kept: kept})
}

func (s *simulation) changePolicy() {
	if !s.ClockExpires {
		s.dropExpired() // a longer window must not find what only real time would have expired
	}
	if rapid.Bool().Draw(s.rt, "back") {
		s.setStack(rapid.SampledFrom(s.versions).Draw(s.rt, "earlier").stack)
		return
	}
	s.setStack(s.drawStack())
}

func (s *simulation) advance() {
	steps := []int64{0, 1, 2, rapid.Int64Range(1, 3000).Draw(s.rt, "ms")}
	for _, r := range s.policy.Rules {
		w := r.WindowMS()
		steps = append(steps, w-1, w, w+1, w/2, rapid.Int64Range(0, 2*w).Draw(s.rt, "part of a window"))
	}
	s.Clock.Set(s.Clock.NowMS() + rapid.SampledFrom(steps).Draw(s.rt, "advance"))
}

// advanceToRetry moves the clock to the end of the last wait or just before.
func (s *simulation) advanceToRetry() {
	if s.retryAt == timestamplog.Never || s.retryAt <= s.Clock.NowMS() {
		return
	}
	s.Clock.Set(s.retryAt - rapid.Int64Range(0, 1).Draw(s.rt, "too early by"))
}

func (s *simulation) stepBack() {
	s.dropExpired() // whether a log is gone once its time has come and passed again is not promised
	back := rapid.SampledFrom([]int64{1, 2, 50, 999, 1000, minute, hour, 13 * day, 40 * day}).Draw(s.rt, "back")
	s.Clock.Set(s.Clock.NowMS() - back)
}

func (s *simulation) ref(key string) timestamplog.Ref { return timestamplog.RefOf(s.policy, key) }

// dropExpired resets the logs whose time has come.
func (s *simulation) dropExpired() {
	for _, key := range s.keys {
		if ref := s.ref(key); s.model.expired(ref, s.Clock.NowMS()) {
			s.resetRef(ref)
		}
	}
}

func (s *simulation) reset() {
	s.resetRef(s.ref(rapid.SampledFrom(s.keys).Draw(s.rt, "key")))
}

func (s *simulation) resetRef(ref timestamplog.Ref) {
	expired := s.model.expired(ref, s.Clock.NowMS())
	want := s.model.reset(ref, s.Clock.NowMS())
	held, err := s.Log.Reset(s.t.Context(), ref)
	if err != nil {
		s.rt.Fatalf("Reset: %v", err)
	}
	if held != want && (s.ClockExpires || !expired) {
		s.rt.Fatalf("Reset says %v, want %v", held, want)
	}
}

func (s *simulation) drawRequest(rt *rapid.T) timestamplog.Request {
	largest := min(s.policy.Rules.LargestCost(), timestamplog.MaxCost)
	cost := 1
	if rapid.Bool().Draw(rt, "costly") {
		cost = rapid.IntRange(1, largest).Draw(rt, "cost")
	}
	q := timestamplog.RequestOf(s.policy, rapid.SampledFrom(s.keys).Draw(rt, "key"), cost)
	q.Peek = rapid.IntRange(0, 4).Draw(rt, "peek") == 4
	q.Detail = rapid.Bool().Draw(rt, "detail")
	return q
}

func (s *simulation) decide() {
	requests := rapid.SliceOfN(rapid.Custom(s.drawRequest), 1, 5).Draw(s.rt, "requests")
	results := make([]timestamplog.Result, len(requests))
	s.Log.Decide(s.t.Context(), requests, results)
	for i, q := range requests {
		want := s.model.decide(s.Clock.NowMS(), q)
		s.compare(q, want, results[i])
		switch {
		case !want.Allowed:
			s.retryAt = want.RetryAt
		case !q.Peek: // a peek does not move what a step back left ahead
			s.checkNeverMore(q)
		}
	}
}

func (s *simulation) compare(q timestamplog.Request, want answer, got timestamplog.Result) {
	if got.Err != nil {
		s.rt.Fatalf("Decide: %v", got.Err)
	}
	same := got.Allowed == want.Allowed && got.Now == want.Now && got.RetryAt == want.RetryAt &&
		slices.Equal(got.States, want.States)
	if want.Allowed {
		same = same && got.Rule == -1 && got.Boundary == 0
	} else {
		same = same && got.Rule >= 0 && got.Rule < len(q.Rules) &&
			want.retries[got.Rule] == want.RetryAt && want.boundaries[got.Rule] == got.Boundary
	}
	if !same {
		s.rt.Fatalf("%q cost %d peek %v under %v kept %v:\n got %+v\nwant %+v\nlog %v",
			q.Key, q.Cost, q.Peek, q.Rules, q.Retention, got, want, s.model.logs[q.Ref])
	}
}

// checkNeverMore counts everything that was ever allowed, also what the logs
// have dropped since: no rule may have let more than its limit into the window
// that ends now. A rule counts from when the retention has covered it, for a
// raised limit or a longer window holds from then on.
func (s *simulation) checkNeverMore(q timestamplog.Request) {
	for _, rule := range q.Rules {
		since := int64(1)
		for i, v := range s.versions {
			if v.kept.Entries < rule.Limit || v.kept.Window < rule.Window {
				since = int64(i + 2)
			}
		}
		used := 0
		for _, a := range s.model.allowed[q.Ref] {
			if a.version >= since && s.Clock.NowMS()-a.at < rule.WindowMS() {
				used++
			}
		}
		if used > rule.Limit {
			s.rt.Fatalf("%v let %d of %q into the window that ends now", rule, used, q.Key)
		}
	}
}

func (s *simulation) compareTimes() {
	s.compareTimesOf(rapid.SampledFrom(s.keys).Draw(s.rt, "key"))
}

func (s *simulation) compareTimesOf(key string) {
	ref := s.ref(key)
	limit := rapid.SampledFrom([]int{0, 1, 5, 1000}).Draw(s.rt, "at most")
	got, now, err := s.Log.Times(s.t.Context(), ref, limit)
	if err != nil || now != s.Clock.NowMS() {
		s.rt.Fatalf("Times: the log's time is %d, the clock's %d, error %v", now, s.Clock.NowMS(), err)
	}
	want := s.model.times(ref, now, limit)
	if !s.ClockExpires && s.model.expired(ref, now) {
		return
	}
	if !slices.Equal(got, want) {
		s.rt.Fatalf("Times of %q up to %d at %d:\n got %v\nwant %v", key, limit, now, got, want)
	}
}
