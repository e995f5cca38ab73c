package redislog

import (
	"time"

	"github.com/stint-dev/stint/internal/supervise"
)

// Fast path. Plain version: each caller also waits for its context, as the callers do whose
// context may end before its deadline. Benchmark: BenchmarkWait, 1.4 times the processor time.
//
// deadlines holds the deadlines of the callers that wait only for a batcher. One timer, for
// the earliest deadline, serves them all: nearly every caller is answered before its deadline,
// and then needs neither a timer nor a second channel. It is guarded by the batcher's mu.
type deadlines struct {
	groups []*group
	timer  *time.Timer
	// next is when the timer fires, zero for never.
	next time.Time
}

// watch makes the wait of g end at its deadline.
func (b *batcher) watch(g *group) {
	d := &b.deadlines
	g.at = len(d.groups)
	d.groups = append(d.groups, g)
	if d.next.IsZero() || g.until.Before(d.next) {
		b.setTimer(g.until)
	}
}

func (b *batcher) setTimer(next time.Time) {
	d := &b.deadlines
	d.next = next
	if d.timer == nil {
		d.timer = time.AfterFunc(time.Until(next), func() { supervise.Do("redis batcher", b.expire) })
		return
	}
	d.timer.Reset(time.Until(next))
}

// expire ends the waits whose deadlines have passed.
func (b *batcher) expire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := &b.deadlines
	now, earliest := time.Now(), time.Time{}
	for at := len(d.groups) - 1; at >= 0; at-- {
		switch g := d.groups[at]; {
		case !now.Before(g.until):
			d.remove(g)
			g.expired = true
			g.state.Store(cancelled)
			g.done <- struct{}{} // does not block: only the one that removes the group sends
		case earliest.IsZero() || g.until.Before(earliest):
			earliest = g.until
		}
	}
	if d.next = earliest; !earliest.IsZero() {
		b.setTimer(earliest)
	}
}

// remove removes g and moves the last group to its place.
func (d *deadlines) remove(g *group) {
	last := len(d.groups) - 1
	d.groups[g.at] = d.groups[last]
	d.groups[g.at].at = g.at
	d.groups[last] = nil
	d.groups = d.groups[:last]
	g.at = -1
}

// finish wakes the callers of groups that have their results, except those whose waits have
// expired.
func (b *batcher) finish(groups []*group) {
	woken := groups[:0]
	b.mu.Lock()
	for _, g := range groups {
		if g.watched {
			if g.at < 0 {
				continue
			}
			b.deadlines.remove(g)
		}
		woken = append(woken, g)
	}
	b.mu.Unlock()
	for _, g := range woken {
		g.done <- struct{}{}
	}
}
