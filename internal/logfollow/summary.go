package logfollow

import (
	"fmt"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/accesslog"
)

// Summary counts what was done with lines.
type Summary struct {
	Lines       int64 `json:"lines"`   // that were read, all but blank ones
	Checked     int64 `json:"checked"` // that the server has answered; the sum of the next four
	Allowed     int64 `json:"allowed"`
	Limited     int64 `json:"limited"`     // by a rule
	Blocked     int64 `json:"blocked"`     // by a block
	Unavailable int64 `json:"unavailable"` // under on_failure deny
	Degraded    int64 `json:"degraded"`    // of those, decided without Redis
	Replayed    int64 `json:"replayed"`    // of those, charged before a restart and not charged again
	Reported    int64 `json:"reported"`    // outcomes that the server has answered
	Rejected    int64 `json:"rejected"`    // checks and reports that the server finds invalid, for example a cost above its limit
	Late        int64 `json:"late"`        // that were too old, and not checked
	Uncertain   int64 `json:"uncertain"`   // checks and reports that may have been charged too long ago to be sent again
	Bad         int64 `json:"bad_lines"`   // that hold no request
	Skipped     int64 `json:"skipped"`     // that --skip-path or a filter leaves out
	// FirstBad are the first bad lines.
	FirstBad []accesslog.BadLine `json:"first_bad"`
}

const maxFirstBad = 10

// String returns what was done as one line that is safe to print.
func (s *Summary) String() string {
	var b strings.Builder
	lines := "lines"
	if s.Lines == 1 {
		lines = "line"
	}
	fmt.Fprintf(&b, "%d %s: %d checked", s.Lines, lines, s.Checked)
	for _, part := range []struct {
		n    int64
		what string
	}{
		{s.Allowed, "allowed"}, {s.Limited, "limited"}, {s.Blocked, "blocked"}, {s.Unavailable, "unavailable"}, {s.Degraded, "degraded"},
		{s.Replayed, "replayed"}, {s.Reported, "reported"}, {s.Rejected, "rejected"}, {s.Late, "too old"}, {s.Uncertain, "uncertain"}, {s.Bad, "without a request"}, {s.Skipped, "skipped"},
	} {
		if part.n > 0 {
			fmt.Fprintf(&b, ", %d %s", part.n, part.what)
		}
	}
	return b.String()
}

// add adds what was counted elsewhere, without bad lines.
func (s *Summary) add(o *Summary) {
	s.Checked += o.Checked
	s.Allowed += o.Allowed
	s.Limited += o.Limited
	s.Blocked += o.Blocked
	s.Unavailable += o.Unavailable
	s.Degraded += o.Degraded
	s.Replayed += o.Replayed
	s.Reported += o.Reported
	s.Rejected += o.Rejected
	s.Uncertain += o.Uncertain
}

// minus returns what was counted after earlier.
func (s *Summary) minus(earlier *Summary) *Summary {
	return &Summary{
		Lines: s.Lines - earlier.Lines, Checked: s.Checked - earlier.Checked, Allowed: s.Allowed - earlier.Allowed,
		Limited: s.Limited - earlier.Limited, Blocked: s.Blocked - earlier.Blocked, Unavailable: s.Unavailable - earlier.Unavailable,
		Degraded: s.Degraded - earlier.Degraded, Replayed: s.Replayed - earlier.Replayed, Rejected: s.Rejected - earlier.Rejected,
		Reported: s.Reported - earlier.Reported,
		Late:     s.Late - earlier.Late, Uncertain: s.Uncertain - earlier.Uncertain, Bad: s.Bad - earlier.Bad, Skipped: s.Skipped - earlier.Skipped,
	}
}

// logSummary logs what was done since the last time, if there was anything.
func (f *follower) logSummary(now time.Time) {
	if now.Sub(f.summarizedAt) < f.o.SummaryEvery {
		return
	}
	if f.counts.Lines > f.summarized.Lines {
		since := f.counts.minus(&f.summarized)
		text := ""
		if f.maxLag > 0 {
			text = fmt.Sprintf("; the longest delay was %s", f.maxLag.Round(time.Millisecond))
		}
		f.o.Logf("%s in %s%s.", since, now.Sub(f.summarizedAt).Round(time.Second), text)
	}
	f.logSite()
	f.summarized, f.summarizedAt, f.maxLag = f.counts, now, 0
}

// logSite logs what the answers show of the site, if that has changed.
func (f *follower) logSite() {
	site := f.o.Outcomes.Site()
	if site == nil {
		return
	}
	if known := site.Report().String(); known != f.siteKnown {
		if f.siteKnown = known; known != "" {
			f.o.Logf("%s", known)
		}
	}
}

// bad counts a line without a request.
func (f *follower) bad(name string, l line, why error) {
	f.counts.Bad++
	if len(f.counts.FirstBad) < maxFirstBad {
		bad := accesslog.BadLine{File: name, Why: why.Error(), Text: accesslog.Quote(l.text)}
		f.counts.FirstBad = append(f.counts.FirstBad, bad)
		f.o.Logf("%q, byte %d: %s: %s", name, l.start, bad.Why, bad.Text)
	}
}
