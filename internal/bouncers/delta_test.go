package bouncers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

// fixture has entries with their former states, and one bouncer.
type fixture struct {
	*testing.T
	now      time.Time
	revision int64
	set      *blocks.Set
	entries  []*blocks.History
	cursor   Cursor
	filter   Filter
}

func newFixture(t *testing.T) *fixture {
	return &fixture{T: t, now: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), set: blocks.NewSet()}
}

func (w *fixture) add(kind blocks.Kind, pattern string, lasts time.Duration) *blocks.History {
	w.Helper()
	return w.addFor("by hand", kind, pattern, lasts)
}

// addFor adds an entry with a reason.
func (w *fixture) addFor(reason string, kind blocks.Kind, pattern string, lasts time.Duration) *blocks.History {
	w.Helper()
	return w.addEntry(blocks.Entry{Reason: reason, Kind: kind}, pattern, lasts)
}

// challenge adds a block that challenges, of an operator or of a list.
func (w *fixture) challenge(scope, pattern string, lasts time.Duration) *blocks.History {
	w.Helper()
	return w.addEntry(blocks.Entry{Reason: "by hand", Kind: blocks.Block, EntryTerms: wire.EntryTerms{Action: blocks.Challenge, Scope: scope}}, pattern, lasts)
}

func (w *fixture) addEntry(made blocks.Entry, pattern string, lasts time.Duration) *blocks.History {
	w.Helper()
	p, err := keys.Parser{}.Pattern(pattern)
	if err != nil {
		w.Fatal(err)
	}
	w.revision++
	e := &made
	e.ID, e.Pattern, e.Revision = fmt.Sprintf("0193a000-0000-7000-8000-%012d", w.revision), p, w.revision
	if lasts > 0 {
		e.Expires = w.now.Add(lasts)
	}
	h := &blocks.History{Entry: e}
	w.entries = append(w.entries, h)
	w.set.Apply(e, w.now)
	return h
}

// change changes an entry and stores its former state, like the database.
func (w *fixture) change(h *blocks.History, change func(*blocks.Entry)) {
	w.revision++
	h.Former = append(h.Former, blocks.Former{Revision: h.Revision, Replaced: w.revision, Expires: h.Expires, Ended: h.Ended(), Reason: h.Reason})
	e := *h.Entry
	e.Revision = w.revision
	change(&e)
	h.Entry = &e
	w.set.Apply(&e, w.now)
}

func (w *fixture) expire(h *blocks.History, in time.Duration) {
	w.change(h, func(e *blocks.Entry) { e.Expires = w.now.Add(in) })
}

func (w *fixture) end(h *blocks.History) {
	w.change(h, func(e *blocks.Entry) { e.End = blocks.EndingOf(w.now, "") })
}

// delta returns the answer to a pull, made of what the database returns of the entries.
func (w *fixture) delta(startup bool) Delta {
	p := Pull{Filter: w.filter, Cursor: w.cursor, Startup: startup, Now: w.now}
	since, from := p.Cursor.Before.Revision, p.ExpiriesFrom()
	if p.Cursor.Last.Revision == 0 {
		since, from = w.revision, w.now
	}
	return Compute(w.set, w.changes(since, from, w.now), p)
}

// changes returns the entries that have changed beyond a revision, and those that have or had an
// expiry within a span.
func (w *fixture) changes(since int64, from, to time.Time) Changes {
	ch := Changes{Revision: w.revision}
	for _, h := range w.entries {
		if h.Revision <= since && !h.ExpiresWithin(from, to) {
			continue
		}
		kept := &blocks.History{Entry: h.Entry}
		for _, f := range h.Former {
			if f.Replaced > since || f.Expires.After(from) && !f.Expires.After(to) {
				kept.Former = append(kept.Former, f)
			}
		}
		ch.Entries = append(ch.Entries, kept)
	}
	return ch
}

// compute returns the answer to a pull as "+value" and "-value", captchas with a question mark, and
// the next cursor.
func (w *fixture) compute(startup bool) (string, Cursor) {
	d := w.delta(startup)
	var all []string
	text := func(sign string, b Ban) string {
		if b.Type == TypeCaptcha {
			return sign + b.Value + "?"
		}
		return sign + b.Value
	}
	for _, b := range d.Deleted {
		all = append(all, text("-", b))
	}
	for b := range d.New {
		all = append(all, text("+", b))
	}
	slices.Sort(all)
	return strings.Join(all, " "), d.Cursor
}

// pull computes an answer, which must be want, and confirms it.
func (w *fixture) pull(want string) {
	w.Helper()
	got, cursor := w.compute(false)
	if got != want {
		w.Fatalf("got %q, want %q", got, want)
	}
	w.cursor = cursor
}

func TestCursorMovesByOneAnswerAtATime(t *testing.T) {
	w := newFixture(t)
	w.add(blocks.Block, "ip:192.0.2.1", time.Hour)
	w.pull("+192.0.2.1")
	first := w.cursor
	if first.Last != (Position{1, w.now}) || first.Before != first.Last || !first.Full.Equal(w.now) {
		t.Fatalf("after the first answer the cursor is %+v", first)
	}
	w.now = w.now.Add(10 * time.Second)
	w.add(blocks.Block, "ip:192.0.2.2", time.Hour)
	for range 2 { // an answer that is not confirmed is computed again
		if got, _ := w.compute(false); got != "+192.0.2.2" {
			t.Fatalf("an unconfirmed pull got %q, want +192.0.2.2", got)
		}
	}
	w.pull("+192.0.2.2")
	if w.cursor.Before != first.Last || w.cursor.Last != (Position{2, w.now}) || w.cursor.Full != first.Full {
		t.Errorf("the cursor is %+v", w.cursor)
	}
	w.pull("")
	if got, _ := w.compute(true); got != "+192.0.2.1 +192.0.2.2" {
		t.Errorf("a bouncer that starts again got %q, want everything", got)
	}
	w.now = w.now.Add(FullInterval)
	w.add(blocks.Block, "ip:192.0.2.3", time.Hour)
	w.pull("+192.0.2.3 -192.0.2.1 -192.0.2.2") // everything again, and what has expired
	if !w.cursor.Full.Equal(w.now) {
		t.Errorf("everything was sent at %s, the cursor has %s", w.now, w.cursor.Full)
	}
}

func TestExtensionIsSentAtOnceAndAfterTheFormerEnd(t *testing.T) {
	w := newFixture(t)
	block := w.add(blocks.Block, "ip:192.0.2.1", time.Minute)
	w.pull("+192.0.2.1")
	w.expire(block, time.Hour)
	w.pull("+192.0.2.1")
	w.now = w.now.Add(30 * time.Second)
	w.pull("")
	w.now = w.now.Add(30 * time.Second) // the old end
	w.pull("+192.0.2.1")
	// A firewall that rounds up, or a node whose clock is ahead, may have kept the old
	// one for longer: within the overlap it is sent again.
	w.now = w.now.Add(Overlap)
	w.pull("+192.0.2.1")
	w.pull("")
}

func TestExemptPartsAreKnownAfterTheExemptionIsSwept(t *testing.T) {
	w := newFixture(t)
	w.add(blocks.Exemption, "ip:192.0.2.1", time.Second)
	w.pull("")
	block := w.add(blocks.Block, "ip:192.0.2.1", time.Minute)
	w.pull("")
	w.now = w.now.Add(10 * time.Second)
	w.set.Sweep(w.now)
	w.expire(block, 20*time.Second) // shorter than it was, but it was never sent
	w.pull("+192.0.2.1")
	w.end(block)
	w.pull("-192.0.2.1")
}

func TestPartOfTwoBlocksIsSentAgainAfterTheEndOfEither(t *testing.T) {
	w := newFixture(t)
	w.add(blocks.Exemption, "ip:192.0.2.4/30", time.Hour)
	larger := w.add(blocks.Block, "ip:192.0.2.0/28", 5*time.Second)
	w.add(blocks.Block, "ip:192.0.2.0/29", 15*time.Second)
	w.pull("+192.0.2.0/30 +192.0.2.8/29")
	w.now = w.now.Add(time.Second)
	w.expire(larger, time.Minute)
	w.pull("+192.0.2.0/30 +192.0.2.8/29")
	w.now = w.now.Add(7 * time.Second)
	w.pull("+192.0.2.0/30 +192.0.2.8/29")
	w.now = w.now.Add(8 * time.Second) // a firewall that kept the first end has dropped it now
	w.pull("+192.0.2.0/30")
}

// The part that was sent lasts until the end of a block that has been ended since. Then it has to
// be sent again, because a larger block has the same part.
func TestPartOfAnEndedBlockIsSentAgainForAnotherBlock(t *testing.T) {
	w := newFixture(t)
	w.add(blocks.Exemption, "ip:192.0.2.4/30", time.Hour)
	smaller := w.add(blocks.Block, "ip:192.0.2.0/29", 10*time.Second)
	w.pull("+192.0.2.0/30")
	w.end(smaller)
	w.add(blocks.Block, "ip:192.0.2.0/28", time.Minute)
	w.pull("+192.0.2.0/30 +192.0.2.8/29")
	w.pull("")
	w.pull("")
	w.now = w.now.Add(10 * time.Second) // the end of the smaller one
	w.pull("+192.0.2.0/30")
}

func TestNodeWithAClockBehindSendsExpiredBlocks(t *testing.T) {
	w := newFixture(t)
	block := w.add(blocks.Block, "ip:192.0.2.1", time.Minute)
	w.pull("+192.0.2.1")
	w.expire(block, time.Hour)
	w.now = w.now.Add(time.Minute + time.Second)
	w.pull("+192.0.2.1")
	w.now = w.now.Add(-Overlap / 2) // the next node that is asked
	w.pull("+192.0.2.1")
}

func TestShortenedBlockIsDeletedAndThenSent(t *testing.T) {
	w := newFixture(t)
	block := w.add(blocks.Block, "ip:192.0.2.1", time.Hour)
	w.pull("+192.0.2.1")
	w.expire(block, time.Minute)
	w.pull("-192.0.2.1")
	w.pull("+192.0.2.1")
	w.pull("")
	w.expire(block, time.Second)
	w.pull("-192.0.2.1")
	w.end(block) // before the next pull
	w.pull("")
}

func TestBlockShortenedTwiceIsDeletedOnce(t *testing.T) {
	w := newFixture(t)
	block := w.add(blocks.Block, "ip:192.0.2.1", time.Hour)
	w.pull("+192.0.2.1")
	w.expire(block, 10*time.Minute)
	w.pull("-192.0.2.1")
	w.expire(block, 5*time.Minute)
	w.pull("")
	w.pull("+192.0.2.1")
	w.end(block)
	w.pull("-192.0.2.1")
}

func TestPermanentBlockBecomesShorter(t *testing.T) {
	w := newFixture(t)
	block := w.add(blocks.Block, "ip:192.0.2.1", 0)
	w.pull("+192.0.2.1")
	w.expire(block, time.Hour)
	w.pull("-192.0.2.1")
	w.pull("+192.0.2.1")
	w.change(block, func(e *blocks.Entry) { e.Expires = time.Time{} })
	w.pull("+192.0.2.1")
}

func TestTwoBlocksWithTheSamePartAreOneBan(t *testing.T) {
	w := newFixture(t)
	w.add(blocks.Exemption, "ip:192.0.2.128/25", 0)
	large := w.add(blocks.Block, "ip:192.0.2.0/24", time.Hour)
	w.pull("+192.0.2.0/25")
	small := w.add(blocks.Block, "ip:192.0.2.0/25", time.Minute)
	w.pull("")
	w.end(large) // what is left lasts shorter
	w.pull("-192.0.2.0/25")
	w.pull("+192.0.2.0/25")
	w.end(small)
	w.pull("-192.0.2.0/25")
}

func TestFilterAppliesToSentAndDeletedBans(t *testing.T) {
	w := newFixture(t)
	w.filter = Filter{Scopes: []string{"IP", "user"}, Containing: []string{"HAND"}, NotContained: []string{"other"}}
	address := w.add(blocks.Block, "ip:192.0.2.1", time.Hour)
	w.add(blocks.Block, "ip:198.51.100.0/24", time.Hour)
	w.add(blocks.Block, "user:alice", time.Hour)
	w.add(blocks.Block, "user:a*", time.Hour)
	w.pull("+192.0.2.1 +alice")
	w.change(address, func(e *blocks.Entry) { e.Reason = "by another hand" }) // is not selected any more
	w.pull("-192.0.2.1")
	w.filter = Filter{Origins: []string{"lists"}}
	w.add(blocks.Block, "ip:192.0.2.2", time.Hour)
	w.pull("")
}

func TestOnlyBouncersThatShowCaptchasGetThem(t *testing.T) {
	w := newFixture(t)
	w.challenge("", "ip:192.0.2.1", time.Hour)
	w.challenge(blocks.ChallengeScope, "ip:192.0.2.2", time.Hour)
	w.challenge("login", "ip:192.0.2.3", time.Hour) // challenges some checks only
	w.add(blocks.Block, "ip:192.0.2.4", time.Hour)
	w.pull("+192.0.2.4")
	w.cursor = Cursor{}
	w.filter = Filter{Captchas: true}
	w.pull("+192.0.2.1? +192.0.2.2? +192.0.2.4")
	w.cursor = Cursor{}
	w.filter.Type = TypeCaptcha
	w.pull("+192.0.2.1? +192.0.2.2?")
	w.cursor = Cursor{}
	w.filter.Type = TypeBan
	w.pull("+192.0.2.4")
	w.cursor = Cursor{}
	w.filter.Type = "throttle"
	w.pull("")
}

// A bouncer has one value for each address: a ban takes the place of a captcha, and a captcha that of a ban
// only after the ban was deleted.
func TestABanTakesThePlaceOfACaptcha(t *testing.T) {
	w := newFixture(t)
	w.filter = Filter{Captchas: true}
	challenge := w.challenge("", "ip:192.0.2.1", time.Hour)
	w.pull("+192.0.2.1?")
	block := w.add(blocks.Block, "ip:192.0.2.1", time.Minute)
	w.pull("+192.0.2.1")
	w.pull("")
	w.end(block)
	w.pull("-192.0.2.1")
	w.pull("+192.0.2.1?")
	w.add(blocks.Block, "ip:192.0.2.1", time.Minute)
	w.pull("+192.0.2.1")
	w.now = w.now.Add(time.Minute)
	w.pull("-192.0.2.1")
	w.pull("+192.0.2.1?")
	listed := w.challenge(blocks.ChallengeScope, "ip:192.0.2.1", 2*time.Hour)
	w.pull("+192.0.2.1?") // for longer
	w.end(listed)
	w.pull("-192.0.2.1?")
	w.pull("+192.0.2.1?")
	w.end(challenge)
	w.pull("-192.0.2.1?")
	w.pull("")
}

// Bouncers look for the smallest network: a captcha within a ban would let clients pass that are banned.
func TestNoCaptchaIsSentWithinABan(t *testing.T) {
	w := newFixture(t)
	w.filter = Filter{Captchas: true}
	w.challenge("", "ip:198.51.100.0/28", time.Hour)
	w.challenge("", "ip:203.0.113.0/24", time.Hour)
	w.pull("+198.51.100.0/28? +203.0.113.0/24?")
	larger := w.add(blocks.Block, "ip:198.51.100.0/24", time.Hour)
	w.add(blocks.Block, "ip:203.0.113.9", time.Hour)
	w.pull("+198.51.100.0/24 +203.0.113.9 -198.51.100.0/28?")
	w.end(larger)
	w.pull("+198.51.100.0/28? -198.51.100.0/24")
	w.add(blocks.Exemption, "ip:203.0.113.128/25", time.Hour)
	w.pull("+203.0.113.0/25? -203.0.113.0/24?")
}
