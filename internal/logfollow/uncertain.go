package logfollow

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/stint-dev/stint/client"
)

// uncertainLines are what an earlier process left of a round: lines that it may have sent, and
// lines that are to be sent though others behind them were answered. They belong to offsets, so
// that it does not matter when they are read. The zero value means that there are none.
type uncertainLines struct {
	to int64 // where those lines end
	// listedTo is the offset before which only lines are left. The other lines before to
	// may have been sent at sentAt.
	listedTo int64
	lines    []pendingLine // by ascending offset
	sentAt   time.Time
}

func (d *uncertainLines) restore(saved *fileState) {
	*d = uncertainLines{}
	if saved.SendingTo > saved.Offset {
		*d = uncertainLines{to: saved.SendingTo, listedTo: saved.ListedTo, lines: saved.Pending, sentAt: saved.SentAt}
	}
}

// end forgets what is behind an offset.
func (d *uncertainLines) end(offset int64) {
	d.to, d.listedTo = min(d.to, offset), min(d.listedTo, offset)
	d.lines = d.lines[:len(d.lines)-len(d.from(offset))]
}

// from returns the lines that are left behind an offset.
func (d *uncertainLines) from(offset int64) []pendingLine {
	at, _ := slices.BinarySearchFunc(d.lines, pendingLine{Start: offset}, comparePending)
	return d.lines[at:]
}

// save writes what is behind the offset of s.
func (d *uncertainLines) save(s *fileState) {
	if d.to > s.Offset {
		s.SendingTo, s.SentAt, s.ListedTo, s.Pending = d.to, d.sentAt, d.listedTo, d.from(s.Offset)
	}
}

// lineAt returns what is known of the line at an offset. isPending is false for one that is
// settled.
func (d *uncertainLines) lineAt(start int64) (line pendingLine, isPending bool) {
	switch {
	case start >= d.to:
		return pendingLine{Start: start}, true
	case start >= d.listedTo:
		return pendingLine{Start: start, SentAt: d.sentAt}, true
	}
	if rest := d.from(start); len(rest) > 0 && rest[0].Start == start {
		return rest[0], true
	}
	return pendingLine{}, false
}

// mustListPending reports whether the pending checks differ in whether or when they may
// have been sent, so that the state has to list their lines.
func (f *follower) mustListPending() bool {
	for _, l := range f.logs {
		for _, t := range l.tails() {
			if t.uncertain.to > t.done && t.offset > t.done {
				return true
			}
		}
	}
	return slices.ContainsFunc(f.pending, func(c pendingCheck) bool { return c.isSettled || !c.sentAt.IsZero() })
}

// listPending adds the lines that are read and not settled. Those that were not sent before
// may be sent from sendingAt on; zero if they are not.
func (t *tail) listPending(s *fileState, pending []pendingCheck, sendingAt time.Time) {
	if t.offset == t.done {
		return
	}
	var lines []pendingLine
	for i := 0; i < len(pending); {
		line := pendingLine{Start: pending[i].start, IsChecked: true}
		isSettled, tail := true, pending[i].tail
		// The check of a line is followed by its reports.
		for ; i < len(pending) && pending[i].tail == tail && pending[i].start == line.Start; i++ {
			c := &pending[i]
			if c.isSettled && c.outcome == "" {
				continue
			}
			sentAt := c.sentAt
			if !c.isSettled {
				isSettled = false
				line.IsChecked = line.IsChecked && c.outcome != ""
				if sentAt.IsZero() {
					sentAt = sendingAt
				}
			}
			// Reports have no place in the list of their own: one that was answered counts.
			if line.SentAt.IsZero() || !sentAt.IsZero() && sentAt.Before(line.SentAt) {
				line.SentAt = sentAt
			}
		}
		if tail == t && !isSettled {
			lines = append(lines, line)
		}
	}
	s.SendingTo, s.SentAt = max(t.offset, t.uncertain.to), t.uncertain.sentAt
	s.ListedTo, s.Pending = max(t.offset, t.uncertain.listedTo), slices.Concat(lines, t.uncertain.from(t.offset))
}

// settleUncertain settles what may have been charged so long ago that the server may have
// forgotten it, and returns the others.
func (f *follower) settleUncertain(a *shareAnswers, checks []*pendingCheck) []*pendingCheck {
	kept := make([]*pendingCheck, 0, len(checks))
	now := f.o.Now()
	for _, c := range checks {
		if age := now.Sub(c.sentAt); !c.sentAt.IsZero() && (age > maxDoubt || age < -time.Second) {
			c.isSettled = true
			a.counts.Uncertain++
			a.age = max(a.age, age)
			continue
		}
		kept = append(kept, c)
	}
	return kept
}

// mark says that c may have been charged at a time.
func (c *pendingCheck) mark(at time.Time) {
	if c.sentAt.IsZero() {
		c.sentAt = at
	}
}

// isUndecided reports whether nothing was charged: no connection was made, or Stint itself
// says that it decided nothing. An answer of a proxy says neither.
func isUndecided(err error) bool {
	var outage *client.OutageError
	if errors.As(err, &outage) && outage.Attempts > 1 {
		return false // it is the error of the last attempt only
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op == "dial"
	}
	var problem *client.Problem
	return errors.As(err, &problem) && problem.Code != "" &&
		(problem.Status < http.StatusInternalServerError || problem.Status == http.StatusServiceUnavailable && problem.Code == "unavailable")
}
