package admin

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/phrase"
)

const (
	// AttackLookInterval is how often AttackWatch should look.
	AttackLookInterval = 10 * time.Second
	// attackLease is how long a node looks alone without renewing its lease.
	attackLease = 3 * AttackLookInterval
	// attackUnknown is after how long without the database an attack is taken to be over.
	attackUnknown = time.Minute
)

// AttackWatch notices when an attack begins, changes its source and ends. All nodes look; the one
// with the lease decides and announces. Look must not be called concurrently.
type AttackWatch struct {
	Detection *Detection
	Holder    string // of the lease; unique among the nodes
	// Announce is called once for each news, on one node, after it was stored.
	Announce func(ctx context.Context, n AttackNews)
	// Apply is called at each look with whether an attack goes on, to switch the policies that are only for
	// attacks; nil for nothing. After a minute without the database it is called with false.
	Apply func(on bool)

	tracker offences.AttackTracker
	known   time.Time // when it was last known whether there is an attack
	active  atomic.Bool
	began   atomic.Int64
}

// AttackNews is something that happened to an attack.
type AttackNews struct {
	What          offences.News
	Attack        *offences.AttackCourse
	Subject, Text string // for people: one line, and some sentences
}

// IsActive reports whether an attack was going on at the last look of any node.
func (w *AttackWatch) IsActive() bool { return w.active.Load() }

// Began returns the number of attacks whose beginning this node announced.
func (w *AttackWatch) Began() int64 { return w.began.Load() }

// Look compares the present refusals with normal, stores what is new about an attack and
// announces it.
func (w *AttackWatch) Look(ctx context.Context) error {
	now := w.Detection.now().UTC()
	err := w.look(ctx, now)
	if err != nil && now.Sub(w.known) >= attackUnknown {
		w.active.Store(false)
	}
	if w.Apply != nil {
		w.Apply(w.active.Load())
	}
	return err
}

func (w *AttackWatch) look(ctx context.Context, now time.Time) error {
	d := w.Detection
	held, err := d.Attacks.AcquireLease(ctx, "attacks", w.Holder, now, now.Add(attackLease))
	if err != nil {
		return err
	}
	before, err := d.Attacks.OpenAttack(ctx)
	if err != nil {
		return err
	}
	w.active.Store(before != nil)
	w.known = now
	if !held {
		return nil
	}
	a, err := d.detect(ctx, now)
	if err != nil {
		return err
	}
	var source *offences.CourseSource
	if a.IsActive() {
		if source, err = w.source(ctx, a.Since, now); err != nil {
			return err
		}
	}
	course, news := w.tracker.Next(before, a, source, now)
	if course == nil {
		return nil
	}
	end := now
	if !course.Ended.IsZero() {
		end = course.Ended.Add(time.Minute) // its last minute
	}
	if course.Refused, err = w.refused(ctx, course.Began, end); err != nil {
		return err
	}
	n := AttackNews{What: news, Attack: course}
	n.Subject, n.Text = describeNews(news, course, a)
	saved, err := d.Attacks.SaveAttack(ctx, before, course, news, n.Subject+". "+n.Text)
	if err != nil || !saved {
		return err
	}
	w.active.Store(course.Ended.IsZero())
	if news == offences.AttackBegan {
		w.began.Add(1)
	}
	if news != offences.NoNews {
		w.Announce(ctx, n)
	}
	return nil
}

// source returns the main source of the last minutes of an attack, nil if there is none.
func (w *AttackWatch) source(ctx context.Context, since, now time.Time) (*offences.CourseSource, error) {
	d := w.Detection
	if recent := now.Add(-offences.SourceSpan); recent.After(since) {
		since = recent
	}
	s, err := findAttackSource(ctx, d.Store, d.View, since, now)
	if err != nil || s == nil {
		return nil, err
	}
	found := &offences.CourseSource{At: now, Pattern: s.Pattern.String(), Ratio: s.Ratio, Keys: s.Keys, Rule: s.Rule, IsBlocked: s.IsBlocked, IsExempt: s.IsExempt}
	if p, known := d.View.Selector().ByID(s.Policy); known {
		found.Policy = p.Name
	}
	return found, nil
}

// refused returns the number of checks that were refused in a span.
func (w *AttackWatch) refused(ctx context.Context, from, to time.Time) (n int64, err error) {
	series, err := w.Detection.Store.TrafficCounts(ctx, 0, from, to, 0)
	for _, p := range series.Points {
		n += p.Limited + p.Blocked
	}
	return n, err
}

// describeNews says what happened in one line, and what is known about it in some sentences.
func describeNews(news offences.News, c *offences.AttackCourse, a *offences.Attack) (subject, text string) {
	switch news {
	case offences.AttackBegan:
		subject = fmt.Sprintf("An attack has begun: %s checks per second are refused", rate(a.Now.Refused()))
		text = fmt.Sprintf("It began at %s. Normally %s per second are refused. ", phrase.At(c.Began), rate(c.Normal))
		if len(c.Sources) == 0 {
			return subject, text + "It comes from many clients: no key has a third of the refusals, and no range has half."
		}
		return subject, text + describeSource(c.Sources[0])
	case offences.SourceChanged:
		s := c.Sources[len(c.Sources)-1]
		return "The attack now comes from " + s.Pattern, fmt.Sprintf("It began at %s. %s checks per second are refused now. %s",
			phrase.At(c.Began), rate(a.Now.Refused()), describeSource(s))
	case offences.AttackEnded:
		return "The attack has ended", fmt.Sprintf("It lasted from %s to %s, with %s, at most %s per second.",
			phrase.At(c.Began), phrase.At(c.Ended), phrase.Count(c.Refused, "refused check"), rate(c.Peak))
	default:
		return "", ""
	}
}

// describeSource says how large the part of a source is, and by what it is refused.
func describeSource(s offences.CourseSource) string {
	text := fmt.Sprintf("%.0f%% of the refusals are of %s", 100*s.Ratio, s.Pattern)
	if s.Keys > 0 {
		text += " (" + phrase.Count(s.Keys, "key") + ")"
	}
	if s.Rule != "" {
		text += ", most by the rule " + s.Rule
		if s.Policy != "" {
			text += " of the policy " + s.Policy
		}
	}
	switch {
	case s.IsExempt:
		text += ". It is exempt: no block and no rule refuses it"
	case s.IsBlocked:
		text += ". It is blocked"
	}
	return text + "."
}

// rate formats a number of checks per second.
func rate(perSecond float64) string {
	if perSecond >= 10 {
		return fmt.Sprintf("%.0f", perSecond)
	}
	return fmt.Sprintf("%.1f", perSecond)
}
