package offences

import (
	"time"

	"github.com/stint-dev/stint/internal/keys"
)

const (
	// announceAfter is how many checks beyond normal an attack must have had refused before it is
	// announced, so that one impatient client is no alarm. At the lowest rate of an attack it
	// takes a minute.
	announceAfter = attackMargin * 60
	// quietEnd is how long an attack must have been inactive before it has ended. A pause that is
	// shorter belongs to it, as in DetectAttack.
	quietEnd = quietMinutes * time.Minute
	// maxHeld is how long policies and lists for attacks prolong an attack of which nothing else is
	// seen. They refuse the attacker, who would otherwise be let in each few minutes; but they refuse
	// people who did nothing too, and must not keep themselves in force.
	maxHeld = 30 * time.Minute
	// sourceWait is how long a new source must be the main one before it is announced.
	sourceWait = 30 * time.Second
	// maxAttackSources bounds the sources of one attack that are announced and stored.
	maxAttackSources = 20
	// SourceSpan is how far back the present source of an attack is looked for. A source that
	// began late would otherwise be hidden by the one before it.
	SourceSpan = 5 * time.Minute
)

// AttackCourse is one attack from its beginning to its end.
type AttackCourse struct {
	ID      string
	Began   time.Time
	Seen    time.Time // when it was last found active
	Ended   time.Time // zero while it goes on
	Normal  float64   // refused checks per second before it
	Peak    float64   // the highest rate of refused checks per second
	Refused int64     // checks refused since it began
	// Sources are its main sources in the order in which they were found.
	Sources []CourseSource
}

// CourseSource is a source of an attack, as it is stored.
type CourseSource struct {
	At      time.Time `json:"at"` // when it was found
	Pattern string    `json:"pattern"`
	Ratio   float64   `json:"ratio"` // of the offences at that time
	Keys    int       `json:"keys"`  // number of keys that offended within it; 0 if it is one key
	// Policy and Rule limit most of its requests; "" if all are blocked. Policy is a name.
	Policy string `json:"policy"`
	Rule   string `json:"rule"`
	// IsBlocked and IsExempt report whether a block or an exemption covered all of it.
	IsBlocked bool `json:"blocked"`
	IsExempt  bool `json:"exempt"`
}

// covers reports whether all keys of another source are among those of s.
func (s *CourseSource) covers(other *CourseSource) bool {
	wide, err := (keys.Parser{}).Pattern(s.Pattern)
	if err != nil {
		return s.Pattern == other.Pattern
	}
	narrow, err := (keys.Parser{}).Pattern(other.Pattern)
	return err == nil && wide.Covers(narrow)
}

// News says what happened to an attack.
type News string

// The news of an attack.
const (
	NoNews        News = ""
	AttackBegan   News = "began"
	SourceChanged News = "source" // the last of Sources is new
	AttackEnded   News = "ended"
)

// AttackTracker follows attacks from look to look. The zero value has seen nothing. It only has
// to remember a source that is not announced yet: all else is in the course.
type AttackTracker struct {
	pending      string
	pendingSince time.Time
}

// Next returns how the attack goes on at now, and what is new. course is the attack that was
// open, nil for none; the result is nil if there is still none. a is the present state, and
// source its main source within SourceSpan, which may be nil. Next does not set ID and Refused.
func (t *AttackTracker) Next(course *AttackCourse, a *Attack, source *CourseSource, now time.Time) (*AttackCourse, News) {
	if course == nil {
		if !a.IsActive() || a.Excess < announceAfter {
			return nil, NoNews
		}
		t.pending = ""
		next := &AttackCourse{Began: a.Since, Seen: now, Normal: a.Baseline.Refused(), Peak: a.Peak}
		if source != nil {
			next.Sources = []CourseSource{*source}
		}
		return next, AttackBegan
	}
	next := *course
	last := course.lastSign(a.Held)
	// An attack that began after a pause is another one; nobody may have looked in between.
	if !a.IsActive() || a.Since.Sub(last) > quietEnd {
		if now.Sub(last) < quietEnd {
			return &next, NoNews
		}
		next.Ended = last
		return &next, AttackEnded
	}
	next.Seen, next.Peak = now, max(next.Peak, a.Now.Refused())
	if !t.isNew(course, source, now) {
		return &next, NoNews
	}
	next.Sources = append(next.Sources[:len(next.Sources):len(next.Sources)], *source)
	return &next, SourceChanged
}

// lastSign returns when an attack was last seen: Seen, or held, see Attack, for maxHeld after that.
func (c *AttackCourse) lastSign(held time.Time) time.Time {
	if limit := c.Seen.Add(maxHeld); held.After(limit) {
		held = limit
	}
	if held.After(c.Seen) {
		return held
	}
	return c.Seen
}

// isNew reports whether a source is not covered by the sources of an attack, and has been its
// main source for sourceWait.
func (t *AttackTracker) isNew(course *AttackCourse, source *CourseSource, now time.Time) bool {
	known := source == nil || len(course.Sources) >= maxAttackSources
	for i := 0; !known && i < len(course.Sources); i++ {
		known = course.Sources[i].covers(source)
	}
	if known {
		t.pending = ""
		return false
	}
	if t.pending != source.Pattern {
		t.pending, t.pendingSince = source.Pattern, now
	}
	return now.Sub(t.pendingSince) >= sourceWait
}
