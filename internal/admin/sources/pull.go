package sources

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/netip"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/rowfile"
)

const (
	// pullTimeout bounds one pull, the download included.
	pullTimeout = 10 * time.Minute
	maxBytes    = 256 << 20 // of a list
	maxRows     = 1_000_000 // of a list, valid and invalid
	maxNotes    = 5
	// minHeld is how many rows may always be added and ended: a short list may change as a whole.
	minHeld = 20
	// maxEstimated is how many added rows an estimate of the traffic takes, which holds them in
	// memory.
	maxEstimated = 200_000
)

var errHeld = errors.New("the pull is held")

// pull pulls a list and stores its state. The error is about this node or its database; what is
// wrong with the list is its Problem.
func (s *Sources) pull(ctx context.Context, by audit.Actor, l *blocks.List, agreed bool) error {
	state := l.State
	now := s.Now()
	state.Checked = now
	err := s.read(ctx, by, l, &state, agreed)
	if _, isSaid := errors.AsType[*fault.Error](err); err != nil && !isSaid && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = ctx.Err() // and not what became of the connection by it
	}
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err() // the node stops
	}
	state.Problem = ""
	if err != nil && !errors.Is(err, errHeld) {
		if fault.Is(err, fault.Unavailable) {
			return err // the database, or a temporary file
		}
		state.Problem = escape.Clip(escape.Log(problemOf(err)), 300)
	}
	l.State = state
	s.raise(ctx, l)
	saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return s.Store.SetListState(saving, l.Name, l.State)
}

// problemOf returns an error about a list for people.
func problemOf(err error) string {
	if mistake, is := errors.AsType[*fault.Error](err); is {
		return mistake.Message
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "the server did not send the whole list in time"
	}
	return err.Error()
}

// read downloads a list and puts its rows in force.
func (s *Sources) read(ctx context.Context, by audit.Actor, l *blocks.List, state *blocks.ListState, agreed bool) error {
	if state.Problem != "" && l.HasHeader && l.Header == "" {
		return errors.New(state.Problem)
	}
	request := Request{URL: l.URL, Header: l.Header}
	if state.Problem == "" && state.Held == nil {
		request.ETag, request.Modified = state.ETag, state.Modified
	}
	answer, err := s.Fetch(ctx, request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	now := s.Now()
	if answer.IsSame {
		state.Pulled = now
		return nil
	}
	next := *state
	next.ETag, next.Modified, next.Held = answer.ETag, answer.Modified, nil
	expires := false
	rows := s.rowsOf(l, answer.Body, &next, &expires)
	var added *keys.Index[struct{}]
	if s.Traffic != nil && l.RowsOf().Kind == blocks.Block && l.As != blocks.AsShadow {
		added = keys.NewIndex[struct{}]()
		rows = indexed(rows, added)
	}
	diff, err := s.Entries.Pull(ctx, by, l.RowsOf(), rows, func(d blocks.PullDiff) error {
		if isHeld(l, d, agreed) {
			next.Held = &blocks.HeldPull{PullDiff: d, Since: now, Ratio: -1}
			if state.Held != nil {
				next.Held.Since = state.Held.Since
			}
			return errHeld
		}
		return nil
	})
	switch {
	case errors.Is(err, errHeld):
		next.Held.Ratio = s.ratio(ctx, added)
		state.Held, state.Notes = next.Held, next.Notes
		return errHeld
	case err != nil && !fault.Is(err, fault.Saved): // what is saved takes effect on this node as soon as it can read it
		return err
	}
	next.Rows, next.Pulled = diff.Rows, now
	if expires { // rows that end by themselves are read again, also where the list is the same
		next.ETag, next.Modified = "", ""
	}
	if diff.Added+diff.Ended > 0 {
		next.Changed = now
	}
	*state = next
	return nil
}

// isHeld reports whether a pull changes so much that an operator must agree: more than half of the
// rows are new or gone. The first pull never does.
func isHeld(l *blocks.List, d blocks.PullDiff, agreed bool) bool {
	if l.State.Pulled.IsZero() {
		return false
	}
	if held := l.State.Held; agreed && held != nil {
		apart := max(d.Rows, held.Rows) - min(d.Rows, held.Rows)
		return apart > max(minHeld, held.Rows/10)
	}
	isMuch := func(n int) bool { return n > minHeld && 2*n > max(d.Before, l.State.Rows) }
	return isMuch(d.Added) || isMuch(d.Ended)
}

// rowsOf yields the rows of a list that may be in force, and counts the others. It fails if the
// list is empty, too long, or no list at all. expires is set if a row ends by itself.
func (s *Sources) rowsOf(l *blocks.List, body io.Reader, state *blocks.ListState, expires *bool) iter.Seq2[blocks.Entry, error] {
	kind := l.RowsOf().Kind
	defaults := blocklist.Defaults{Kind: kind, Reading: keys.Reading{Parser: s.View.Parser()}, Now: s.Now(), Reason: "list " + l.Name, Column: l.Column}
	never := slices.Concat(s.Own(), reserved)
	return func(yield func(blocks.Entry, error) bool) {
		state.Invalid, state.LeftOut, state.Notes = 0, 0, nil
		note := func(line int, problem string) {
			if len(state.Notes) < maxNotes {
				state.Notes = append(state.Notes, escape.Log(fmt.Sprintf("line %d: %s", line, problem)))
			}
		}
		rows, good := 0, 0
		for row, err := range blocklist.Read(&bounded{body, maxBytes}, blocklist.Format(l.Format), defaults) {
			if rows++; rows > maxRows {
				err = fmt.Errorf("the list has more than %d rows", maxRows)
			}
			if bad, is := errors.AsType[*rowfile.RowError](err); is {
				state.Invalid++
				note(bad.Line, bad.Problem)
				continue
			}
			if err != nil {
				yield(blocks.Entry{}, err)
				return
			}
			if row.HasEnded {
				continue
			}
			problem := leftOut(row.Pattern, never)
			if row.Scope != "" {
				problem = "is left out: rows of a list have no scope, and without it the row would refuse every check"
			}
			if problem != "" {
				state.LeftOut++
				note(row.Line, row.Pattern.String()+" "+problem)
				continue
			}
			good++
			entry := row.Entry()
			*expires = *expires || !entry.Expires.IsZero()
			if !yield(entry, nil) {
				return
			}
		}
		switch {
		case state.Invalid > good:
			yield(blocks.Entry{}, fmt.Errorf("it is no list that can be read: %d of %d rows are invalid, the first in %s", state.Invalid, rows, first(state.Notes)))
		case good == 0:
			yield(blocks.Entry{}, errors.New("the list is empty"))
		}
	}
}

func first(notes []string) string {
	if len(notes) == 0 {
		return "none"
	}
	return notes[0]
}

// bounded fails once a list is too long.
type bounded struct {
	from io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the list is longer than %d MiB", maxBytes>>20)
	}
	return n, err
}

// reserved are the networks that no list blocks or exempts: private, shared, loopback, link-local,
// and multicast addresses, and those that no client has.
var reserved = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4", "::/8", "64:ff9b::/96", "fc00::/7", "fe80::/10", "ff00::/8")

func prefixes(all ...string) (networks []netip.Prefix) {
	for _, text := range all {
		networks = append(networks, netip.MustParsePrefix(text))
	}
	return networks
}

// A list may have no network with fewer bits.
const minBits4, minBits6 = 8, 16

// leftOut says why no list may have a pattern, "" if it may.
func leftOut(p keys.Pattern, never []netip.Prefix) string {
	network, is := p.Network()
	if !is {
		switch p.Kind() {
		case keys.Exact, keys.FromOrigin:
			return ""
		}
		return "is left out: a list names addresses, networks, autonomous systems, countries and keys"
	}
	if network.Addr().Is4() && network.Bits() < minBits4 || network.Addr().Is6() && network.Bits() < minBits6 {
		return fmt.Sprintf("is left out: it is wider than a /%d, or a /%d of IPv6", minBits4, minBits6)
	}
	for _, other := range never {
		if network.Overlaps(other) {
			return "is left out: it overlaps " + other.String() + ", which is private, reserved or of this installation"
		}
	}
	return ""
}

// indexed adds the rows to an index as they are read, up to maxEstimated.
func indexed(rows iter.Seq2[blocks.Entry, error], index *keys.Index[struct{}]) iter.Seq2[blocks.Entry, error] {
	return func(yield func(blocks.Entry, error) bool) {
		n := 0
		for e, err := range rows {
			if n++; err == nil && n <= maxEstimated {
				index.Set(e.Pattern, struct{}{})
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// ratio returns how much of the last day's allowed checks rows would have refused, -1 if that is not
// known.
func (s *Sources) ratio(ctx context.Context, rows *keys.Index[struct{}]) float64 {
	if rows == nil || s.Traffic == nil {
		return -1
	}
	now, active := s.Now(), s.View.Blocks()
	estimate, err := s.Traffic.EstimateTraffic(ctx, now.Add(-24*time.Hour), now, func(k keys.Key) bool {
		_, _, found := rows.Best(k)
		if !found {
			return false
		}
		m := active.Match(k, now)
		return m.Block == nil && m.Exemption == nil
	})
	if err != nil || estimate == nil {
		return -1
	}
	return estimate.Ratio
}

// raise notifies that a list is stale or held, once, and that it is not any more.
func (s *Sources) raise(ctx context.Context, l *blocks.List) {
	state := StateOf(l, s.Now())
	isTrouble := state == "stale" || state == "held"
	if isTrouble == l.State.Alarmed {
		return
	}
	l.State.Alarmed = isTrouble
	if s.Alarm == nil {
		return
	}
	subject, text := "The source "+l.Name+" is current again", "It has "+phrase.Count(l.State.Rows, "row")+"."
	switch state {
	case "stale":
		subject, text = "The source "+l.Name+" is stale", "It could not be pulled for a long time, and its rows stay in force: "+l.State.Problem
	case "held":
		h := l.State.Held
		subject = "A pull of the source " + l.Name + " is held"
		text = fmt.Sprintf("It has %s, %s of which are new, and %s of the %s before are gone. Nothing changes until somebody agrees (block source agree %s).",
			phrase.Count(h.Rows, "row"), phrase.Number(h.Added), phrase.Number(h.Ended), phrase.Count(h.Before, "row"), l.Name)
	}
	s.Alarm(ctx, isTrouble, subject, text)
}
