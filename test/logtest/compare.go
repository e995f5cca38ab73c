package logtest

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/timestamplog"
)

func (s *simulation) compare(q timestamplog.Request, want answer, got timestamplog.Result) {
	if got.Err != nil {
		s.rt.Fatalf("Decide: %v", got.Err)
	}
	same := got.Allowed == want.Allowed && got.Now == want.Now && got.RetryAt == want.RetryAt &&
		got.ReservedAt == want.ReservedAt && got.Replayed == want.Replayed &&
		isSameReplayedCost(got.ReplayedCost, want.ReplayedCost) && slices.Equal(got.States, want.States)
	if !same || !want.names(got.Rule, got.Boundary) {
		s.rt.Fatalf("%q cost %d always %v peek %v max wait %v id %q under %v kept %v:\n got %+v\nwant %+v\nlog %v",
			q.Key, q.Cost, q.ChargeAlways, q.Peek, q.MaxWait, q.ID, q.Rules, q.Retention, got, want, s.model.show(q.LogID))
	}
}

// isSameReplayedCost reports whether a log may answer got for a cost that was charged. It need
// not keep all of a cost that no reservation has.
func isSameReplayedCost(got, charged int) bool {
	return got == charged || charged > timestamplog.MaxCost && got >= timestamplog.MaxCost && got <= charged
}

// names reports whether a Result may name that rule and that boundary.
func (a *answer) names(rule int, boundary int64) bool {
	switch {
	case a.Allowed:
		return rule == -1 && boundary == 0
	case a.isCounted:
		return rule == a.Rule && boundary == 0
	case !slices.Contains(a.retries, a.reservation): // only the reservations ahead make it wait
		return rule == len(a.retries)-1 && boundary == 0
	}
	return rule >= 0 && rule < len(a.retries) && a.retries[rule] == a.reservation && a.boundaries[rule] == boundary
}

// checkNeverMore counts everything that was ever allowed, also what the logs
// have dropped since: no rule may have let more than its limit into the window
// that ends at a reservation just given. A rule counts from when the retention has covered it, for a
// raised limit or a longer window holds from then on.
func (s *simulation) checkNeverMore(q timestamplog.Request, reservation int64) {
	log, isLog := s.model.(*model)
	if !isLog && !isDistinct(s.model) {
		return
	}
	for _, rule := range q.Rules {
		since := int64(1)
		for i, v := range s.versions {
			if v.kept.Entries < rule.Limit || v.kept.Window < rule.Window {
				since = int64(i + 2)
			}
		}
		used := 0
		if m, is := s.model.(*distinctModel); is {
			used, log = m.maxDifferent(q.LogID, rule, reservation, since), m.model
		}
		for _, a := range log.allowed[q.LogID] {
			if a.version >= since && reservation-a.at < rule.WindowMS() {
				used++
			}
		}
		if used > rule.Limit {
			s.rt.Fatalf("rule %v: %d requests of %q are in the window that ends at %d, more than its limit", rule, used, q.Key, reservation)
		}
	}
}

// wasCharged reports whether anything was charged at now under q's policy, and nothing
// is reserved ahead.
func (s *simulation) wasCharged(q timestamplog.Request, now int64) bool {
	log, isLog := s.model.(*model)
	return isLog && slices.ContainsFunc(log.allowed[q.LogID], func(a allowedTime) bool { return a.at == now && a.version == q.Version }) &&
		!slices.ContainsFunc(log.allowed[q.LogID], func(a allowedTime) bool { return a.at > now })
}

func (s *simulation) compareTimes() {
	s.compareTimesOf(rapid.SampledFrom(s.keys).Draw(s.rt, "key"))
}

func (s *simulation) compareTimesOf(key string) {
	id := s.id(key)
	limit := rapid.SampledFrom([]int{0, 1, 5, 1000}).Draw(s.rt, "at most")
	got, now, err := s.Log.Timestamps(s.t.Context(), id, limit)
	if err != nil || now != s.Clock.NowMS() {
		s.rt.Fatalf("Timestamps: got the time %d and the error %v, want the clock's %d", now, err, s.Clock.NowMS())
	}
	want := s.model.times(id, now, limit)
	if !s.ClockExpires && s.model.expired(id, now) {
		return
	}
	if !slices.Equal(got, want) {
		s.rt.Fatalf("Timestamps of %q with limit %d at %d:\n got %v\nwant %v", key, limit, now, got, want)
	}
}
