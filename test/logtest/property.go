package logtest

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

func properties() []contract {
	return []contract{{
		"any sequence of requests, reservations, clock moves, resets and changes of policy is answered as brute force answers it",
		simulate(func() oracle { return newModel() }),
	}}
}

func simulate(newOracle func() oracle) func(*testing.T, Harness) {
	return func(t *testing.T, h Harness) {
		fewerChecks()
		rapid.Check(t, func(rt *rapid.T) { newSimulation(t, rt, h, newOracle()).run() })
	}
}

// checksUnderRace is how many runs each property test takes under the race
// detector, which makes each many times slower and looks for races, which a
// few runs show. Without it they are rapid's own number, 100.
const checksUnderRace = "20"

// fewerChecks applies checksUnderRace unless a number was set.
var fewerChecks = sync.OnceFunc(func() {
	const name = "rapid.checks"
	isSet := !raceDetector
	flag.Visit(func(f *flag.Flag) { isSet = isSet || f.Name == name })
	if isSet {
		return
	}
	if err := flag.Set(name, checksUnderRace); err != nil {
		panic(err)
	}
})

// simulation takes random actions on a Log and on the model and compares what
// their answers.
type simulation struct {
	Harness
	t            *testing.T
	rt           *rapid.T
	model        oracle
	policy       *rules.Policy
	keys         []string
	versions     []version
	retryAt      int64                      // of the last refusal
	reservations []timestamplog.Reservation // that were reserved
	// IDs after firstID, up to lastID, may be repeated.
	firstID, lastID int
}

// oracle answers as a Log should.
type oracle interface {
	judge
	decide(now int64, q timestamplog.Request) answer
	cancelReservation(now int64, reservation timestamplog.Reservation) bool
	times(id timestamplog.LogID, now int64, limit int) []int64
	reset(id timestamplog.LogID, now int64) bool
	expired(id timestamplog.LogID, now int64) bool
	lapsed(id timestamplog.LogID, now int64) bool
	forgetUnnoticed(id timestamplog.LogID)
	reservationsOfIDs() []int64
	show(id timestamplog.LogID) any
}

// version is one version of the policy and when it was replaced.
type version struct {
	stack    rules.Stack
	replaced int64
	// kept is the retention in force while it was the current one.
	kept rules.Retention
}

func newSimulation(t *testing.T, rt *rapid.T, h Harness, model oracle) *simulation {
	h.Clock.Set(Start.UnixMilli())
	s := &simulation{Harness: h, t: t, rt: rt, model: model, keys: []string{"ip:203.0.113.7", "evil{user}", "🔑 *"}}
	s.policy = newPolicy(t, h)
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
		"reset": s.reset, "times": s.compareTimes, "change policy": s.changePolicy, "decide all": s.decideAll,
		"cancel": s.cancelReservation, "advance to reservation": s.advanceToReservation,
	}
	names := []string{
		"decide", "decide", "decide", "decide", "decide", "decide", "decide", "decide", "advance", "advance", "advance",
		"advance", "advance to retry", "advance to retry", "step back", "times", "reset", "change policy",
		"decide all", "decide all", "cancel", "cancel", "advance to reservation",
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

// isDistinct reports whether a model is one of distinct rules.
func isDistinct(model oracle) bool { _, is := model.(*distinctModel); return is }

func (s *simulation) drawStack() rules.Stack {
	name, least := "", 0
	if isDistinct(s.model) {
		name, least = "path", 1
	}
	drawn := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) rules.Rule {
		limit := rapid.IntRange(1, 12).Draw(rt, "limit")
		if rapid.IntRange(0, 40).Draw(rt, "zero") == 40 {
			limit = least
		}
		return rules.Rule{Distinct: name, Limit: limit, Window: rapid.SampledFrom(windows).Draw(rt, "window")}
	}), 0, 4).Draw(s.rt, "stack")
	stack, err := rules.NewStack(drawn...)
	if err != nil {
		s.rt.Fatal(err)
	}
	return stack
}

// setStack makes stack the policy's next version, with the retention that it
// and the versions replaced less than their own longest window ago require.
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
	if s.policy.MovesGeneration(&next) {
		next.Generation++
	}
	s.policy = &next
	s.versions = append(s.versions, version{stack: stack, kept: kept})
}

func (s *simulation) changePolicy() {
	if !s.ClockExpires {
		s.dropExpired() // a longer window must not find what only real time would have expired
	}
	switch rapid.SampledFrom([]string{"back", "limits", "stack"}).Draw(s.rt, "change") {
	case "back":
		s.setStack(rapid.SampledFrom(s.versions).Draw(s.rt, "earlier").stack)
	case "limits":
		s.setStack(s.drawLimits())
	default:
		s.setStack(s.drawStack())
	}
}

// drawLimits returns the present stack with other limits.
func (s *simulation) drawLimits() rules.Stack {
	changed := slices.Clone(s.policy.Rules)
	for i := range changed {
		changed[i].Limit = rapid.IntRange(min(1, len(changed[i].Distinct)), 12).Draw(s.rt, "limit")
	}
	stack, err := rules.NewStack(changed...)
	if err != nil {
		s.rt.Fatal(err)
	}
	return stack
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
	// Whether a log, or an ID, is gone after it has expired and the clock is back before that is
	// not promised.
	s.dropExpired()
	s.leaveExpiredIDs()
	s.resetCancelled()
	for _, key := range s.keys {
		s.model.forgetUnnoticed(s.id(key))
	}
	back := rapid.SampledFrom([]int64{1, 2, 50, 999, 1000, minute, hour, 13 * day, 40 * day}).Draw(s.rt, "back")
	s.Clock.Set(s.Clock.NowMS() - back)
	s.Log.Decide(s.t.Context(), nil, nil) // so that Steady sees the step
}

// resetCancelled resets the logs of which a charge was cancelled after its time: a log may then no longer
// know which of its entries were made for reservations, which a correction of the clock depends on.
func (s *simulation) resetCancelled() {
	if m, keepsEntries := s.model.(*model); keepsEntries {
		for charge := range m.cancelled {
			if charge.Counts > 0 && charge.LogID == s.id(charge.Key) {
				s.resetLog(charge.LogID)
			}
		}
	}
}

// leaveExpiredIDs stops IDs whose lifetime is over from being repeated.
func (s *simulation) leaveExpiredIDs() {
	over := func(reservation int64) bool { return s.Clock.NowMS() >= reservation+timestamplog.IDLifetime }
	s.reservations = slices.DeleteFunc(s.reservations, func(reservation timestamplog.Reservation) bool {
		// A correction of the clock moves a charge away from its time.
		return over(reservation.At) || reservation.Counts > 0 || reservation.Generation != s.policy.Generation
	})
	if slices.ContainsFunc(s.model.reservationsOfIDs(), over) {
		s.firstID = s.lastID
	}
}

func (s *simulation) id(key string) timestamplog.LogID { return timestamplog.LogIDOf(s.policy, key) }

// dropExpired resets the logs that have expired, and those of which only IDs
// are known.
func (s *simulation) dropExpired() {
	for _, key := range s.keys {
		id := s.id(key)
		if s.model.lapsed(id, s.Clock.NowMS()) {
			s.resetLog(id)
		}
	}
}

func (s *simulation) reset() {
	s.resetLog(s.id(rapid.SampledFrom(s.keys).Draw(s.rt, "key")))
}

func (s *simulation) resetLog(id timestamplog.LogID) {
	s.reservations = slices.DeleteFunc(s.reservations, func(r timestamplog.Reservation) bool { return r.Counts > 0 && r.LogID == id })
	expired := s.model.expired(id, s.Clock.NowMS())
	want := s.model.reset(id, s.Clock.NowMS())
	existed, err := s.Log.Reset(s.t.Context(), id)
	if err != nil {
		s.rt.Fatalf("Reset: %v", err)
	}
	if existed != want && (s.ClockExpires || !expired) {
		s.rt.Fatalf("Reset: got %v, want %v", existed, want)
	}
}

func (s *simulation) drawRequest(rt *rapid.T) timestamplog.Request {
	largest := min(s.policy.LargestCost(), timestamplog.MaxCost)
	cost := 1
	if rapid.Bool().Draw(rt, "costly") {
		cost = rapid.IntRange(1, largest).Draw(rt, "cost")
	}
	q := timestamplog.RequestOf(s.policy, rapid.SampledFrom(s.keys).Draw(rt, "key"), cost)
	q.Peek = rapid.IntRange(0, 4).Draw(rt, "peek") == 4
	q.Detail = rapid.Bool().Draw(rt, "detail")
	if !q.Options.CountRefused {
		s.drawWait(rt, &q)
	}
	if rapid.IntRange(0, 4).Draw(rt, "always") == 4 {
		q.ChargeAlways, q.MaxWait = true, 0
		q.Cost = rapid.IntRange(1, 40).Draw(rt, "usage") // above every limit too
	}
	if rapid.IntRange(0, 4).Draw(rt, "uncharged") == 4 {
		q.Uncharged, q.ChargeAlways, q.ID, q.Cost = true, false, "", cost
	}
	if isDistinct(s.model) {
		drawValue(rt, &q)
	}
	return q
}

// drawWait gives some requests a MaxWait and some an ID.
func (s *simulation) drawWait(rt *rapid.T, q *timestamplog.Request) {
	if rapid.Bool().Draw(rt, "waits") && (q.Algorithm == nil || q.Algorithm.TakesReservations()) {
		q.MaxWait = rapid.SampledFrom([]int64{1, 15, 1000, 100_000, timestamplog.MaxWait}).Draw(rt, "max wait")
	}
	if q.Peek || q.MaxWait == 0 && rapid.IntRange(0, 3).Draw(rt, "named") > 0 {
		return
	}
	if s.lastID == s.firstID || rapid.IntRange(0, 3).Draw(rt, "again") > 0 {
		s.lastID++
		q.ID = fmt.Sprint("id ", s.lastID)
	} else {
		q.ID = fmt.Sprint("id ", s.lastID-rapid.IntRange(0, min(3, s.lastID-s.firstID-1)).Draw(rt, "ago"))
	}
}

func (s *simulation) decide() {
	requests := rapid.SliceOfN(rapid.Custom(s.drawRequest), 1, 5).Draw(s.rt, "requests")
	results := make([]timestamplog.Result, len(requests))
	s.Log.Decide(s.t.Context(), requests, results)
	results = own(results)
	for i, q := range requests {
		var want answer
		if q.Uncharged {
			want = decideAll(s.model, s.Clock.NowMS(), requests[i:i+1])[0]
			q.Peek = true // nothing was charged
		} else {
			want = s.model.decide(s.Clock.NowMS(), q)
		}
		s.check(q, want, results[i])
	}
}

// decideAll decides requests of different keys as one.
func (s *simulation) decideAll() {
	keys := rapid.Permutation(s.keys).Draw(s.rt, "keys")[:rapid.IntRange(1, len(s.keys)).Draw(s.rt, "how many")]
	requests := make([]timestamplog.Request, len(keys))
	for i, key := range keys {
		requests[i] = s.drawRequest(s.rt)
		requests[i].LogID = s.id(key)
	}
	results := make([]timestamplog.Result, len(requests))
	err := s.Log.DecideAll(s.t.Context(), requests, results)
	if s.CrossSlot && errors.Is(err, timestamplog.ErrCrossSlot) {
		return
	}
	if err != nil {
		s.rt.Fatalf("DecideAll: %v", err)
	}
	results = own(results)
	answers := decideAll(s.model, s.Clock.NowMS(), requests)
	peek := slices.ContainsFunc(requests, func(q timestamplog.Request) bool { return q.Peek })
	refused := slices.ContainsFunc(answers, func(a answer) bool { return !a.Allowed })
	for i, q := range requests {
		q.Peek = peek || q.Uncharged || refused && !q.ChargeAlways
		s.check(q, answers[i], results[i])
	}
}

// check compares an answer with the model's, and keeps what later steps use.
func (s *simulation) check(q timestamplog.Request, want answer, got timestamplog.Result) {
	s.compare(q, want, got)
	switch {
	case !want.Allowed:
		s.retryAt = want.RetryAt
		if q.ChargeAlways && !q.Peek && s.wasCharged(q, want.Now) {
			s.checkNeverMore(q, want.Now)
		}
	case !q.Peek && !want.Replayed: // a peek does not move what a step back left ahead
		s.checkNeverMore(q, want.ReservedAt)
		r := timestamplog.Reservation{LogID: q.LogID, At: want.ReservedAt, Cost: q.Cost, ID: q.ID}
		if _, keepsEntries := s.model.(*model); keepsEntries && q.ID != "" && !q.Options.CountRefused && !q.ChargeAlways && rapid.Bool().Draw(s.rt, "may be cancelled") {
			r.Counts = min(q.Rules.LongestWindow().Milliseconds(), timestamplog.MaxCounts)
		}
		if want.ReservedAt > want.Now || r.Counts > 0 {
			s.reservations = append(s.reservations, r)
		}
	}
}

func (s *simulation) cancelReservation() {
	if len(s.reservations) == 0 {
		return
	}
	reservation := rapid.SampledFrom(s.reservations).Draw(s.rt, "reservation")
	if reservation.Counts == 0 { // the time of a charge is trusted
		switch rapid.IntRange(0, 9).Draw(s.rt, "as") {
		case 0:
			reservation.ID += "0"
		case 1:
			reservation.At++
		}
	}
	got, err := s.Log.Cancel(s.t.Context(), reservation)
	if err != nil {
		s.rt.Fatalf("Cancel: %v", err)
	}
	if want := s.model.cancelReservation(s.Clock.NowMS(), reservation); got != want {
		s.rt.Fatalf("Cancel(%+v) at %d: got %v, want %v; log %v", reservation, s.Clock.NowMS(), got, want, s.model.show(reservation.LogID))
	}
	if got && reservation.At > s.Clock.NowMS() && reservation.LogID == s.id(reservation.Key) && rapid.Bool().Draw(s.rt, "made again") {
		s.reserveAgain(reservation)
	}
}

// reserveAgain reserves what was cancelled again under its ID, for any time and any cost.
func (s *simulation) reserveAgain(cancelled timestamplog.Reservation) {
	q := timestamplog.RequestOf(s.policy, cancelled.Key, rapid.IntRange(1, min(s.policy.LargestCost(), timestamplog.MaxCost)).Draw(s.rt, "cost"))
	q.ID, q.MaxWait = cancelled.ID, timestamplog.MaxWait
	results := make([]timestamplog.Result, 1)
	s.Log.Decide(s.t.Context(), []timestamplog.Request{q}, results)
	s.check(q, s.model.decide(s.Clock.NowMS(), q), own(results)[0])
}

// advanceToReservation moves the clock to a reservation or just before.
func (s *simulation) advanceToReservation() {
	if len(s.reservations) == 0 {
		return
	}
	if reservation := rapid.SampledFrom(s.reservations).Draw(s.rt, "reservation"); reservation.At > s.Clock.NowMS() {
		s.Clock.Set(reservation.At - rapid.Int64Range(0, 1).Draw(s.rt, "too early by"))
	}
}
