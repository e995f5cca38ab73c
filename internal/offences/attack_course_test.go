package offences_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/offences"
)

// look is what is seen at one look, ten seconds after the one before.
type look struct {
	rate    float64 // refused checks per second, 0 for no attack
	pattern string  // of the main source, "" for none
}

// course looks again and again, and returns the news of each look and the last attack.
func course(t *testing.T, looks []look) (news []offences.News, attacks []*offences.AttackCourse) {
	t.Helper()
	var tracker offences.AttackTracker
	var open *offences.AttackCourse
	var began time.Time
	var excess float64
	for i, l := range looks {
		now := attackStart.Add(time.Duration(i) * 10 * time.Second)
		a := &offences.Attack{Now: offences.Rates{Limited: l.rate}}
		if l.rate == 0 {
			began, excess = time.Time{}, 0
		} else {
			if began.IsZero() {
				began = now
			}
			excess += 10 * l.rate
			a.Since, a.Excess, a.Peak = began, excess, l.rate
			if open != nil && now.Sub(open.Seen) < 3*time.Minute {
				a.Since = open.Began
			}
		}
		var source *offences.CourseSource
		if l.pattern != "" {
			source = &offences.CourseSource{At: now, Pattern: l.pattern}
		}
		next, what := tracker.Next(open, a, source, now)
		news = append(news, what)
		if open = next; next != nil && what == offences.AttackBegan {
			attacks = append(attacks, next)
		} else if next != nil {
			attacks[len(attacks)-1] = next
		}
		if what == offences.AttackEnded {
			open = nil
		}
	}
	return news, attacks
}

func repeat(n int, l look) []look {
	all := make([]look, n)
	for i := range all {
		all[i] = l
	}
	return all
}

func TestOneAttackIsOneAlarm(t *testing.T) {
	const a, b, aWide = "ip:203.0.113.7", "ip:198.51.100.0/24", "ip:203.0.113.0/24"
	quiet := look{}
	join := func(parts ...[]look) (all []look) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	for name, c := range map[string]struct {
		looks   []look
		news    map[int]offences.News // by the number of the look; all others have none
		sources int                   // of the last attack
	}{
		"an attack is announced at the first look":       {repeat(30, look{70, a}), map[int]offences.News{0: offences.AttackBegan}, 1},
		"the weakest within a minute":                    {repeat(12, look{0.5, a}), map[int]offences.News{5: offences.AttackBegan}, 1},
		"one impatient client is none":                   {join(repeat(2, look{1, a}), repeat(20, quiet)), nil, 0},
		"it ends after three quiet minutes":              {join(repeat(6, look{70, a}), repeat(30, quiet)), map[int]offences.News{0: offences.AttackBegan, 23: offences.AttackEnded}, 1},
		"pauses below three minutes are no end":          {join(repeat(6, look{70, a}), repeat(17, quiet), repeat(3, look{70, a}), repeat(17, quiet), repeat(3, look{70, a})), map[int]offences.News{0: offences.AttackBegan}, 1},
		"the next attack is another one":                 {join(repeat(6, look{70, a}), repeat(30, quiet), repeat(3, look{70, b})), map[int]offences.News{0: offences.AttackBegan, 23: offences.AttackEnded, 36: offences.AttackBegan}, 1},
		"a new source is announced once it lasts":        {join(repeat(6, look{70, a}), repeat(10, look{70, b})), map[int]offences.News{0: offences.AttackBegan, 9: offences.SourceChanged}, 2},
		"sources that alternate are announced once each": {join(repeat(6, look{70, a}), repeat(6, look{70, b}), repeat(6, look{70, a}), repeat(6, look{70, b})), map[int]offences.News{0: offences.AttackBegan, 9: offences.SourceChanged}, 2},
		"a source that flickers is not":                  {join(repeat(6, look{70, a}), repeat(2, look{70, b}), repeat(2, look{70, a}), repeat(2, look{70, b}), repeat(5, look{70, a})), map[int]offences.News{0: offences.AttackBegan}, 1},
		"a wider range is new, and a part of it is not":  {join(repeat(6, look{70, a}), repeat(6, look{70, aWide}), repeat(6, look{70, a})), map[int]offences.News{0: offences.AttackBegan, 9: offences.SourceChanged}, 2},
		"a source that is found later":                   {join(repeat(6, look{70, ""}), repeat(6, look{70, a})), map[int]offences.News{0: offences.AttackBegan, 9: offences.SourceChanged}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			news, attacks := course(t, c.looks)
			for i, got := range news {
				if got != c.news[i] {
					t.Errorf("look %d: got %q, want %q", i, got, c.news[i])
				}
			}
			sources := 0
			if len(attacks) > 0 {
				sources = len(attacks[len(attacks)-1].Sources)
			}
			if sources != c.sources {
				t.Errorf("the attack has %d sources, want %d", sources, c.sources)
			}
		})
	}
}

// Nobody may have looked for a while, for example because the only node was stopped.
func TestAnAttackThatEndedUnseenEndsWhenItWasLastSeen(t *testing.T) {
	var tracker offences.AttackTracker
	seen := attackStart.Add(time.Hour)
	open := &offences.AttackCourse{Began: attackStart, Seen: seen}
	now := seen.Add(6 * time.Hour)
	for name, a := range map[string]*offences.Attack{
		"quiet now": {}, "another one now": {Since: now.Add(-time.Minute), Excess: 1000, Now: offences.Rates{Limited: 70}},
	} {
		if next, news := tracker.Next(open, a, nil, now); news != offences.AttackEnded || !next.Ended.Equal(seen) {
			t.Errorf("%s: got %q at %v, want the end at %v", name, news, next.Ended, seen)
		}
	}
	if next, news := tracker.Next(open, &offences.Attack{Since: attackStart, Now: offences.Rates{Limited: 90}}, nil, now); news != offences.NoNews || next.Peak != 90 {
		t.Errorf("it goes on: got %q and %+v", news, next)
	}
}
