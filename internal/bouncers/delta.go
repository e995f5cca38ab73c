package bouncers

import (
	"iter"
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
)

// Changes are the entries that have changed beyond a revision, or one of whose
// expiries has passed in a time, in one consistent view of the database.
type Changes struct {
	Revision int64 // of the view
	Entries  []*blocks.History
}

// Pull is a bouncer's request for what has changed.
type Pull struct {
	Filter  Filter
	Cursor  Cursor
	Startup bool // the bouncer has nothing yet
	Now     time.Time
}

// IsFull reports whether the bouncer is sent everything.
func (p *Pull) IsFull() bool {
	return p.Startup || p.Cursor.Last.Revision == 0 || p.Now.Sub(p.Cursor.Full) >= FullInterval
}

// ExpiriesFrom returns the instant after which expiries are needed: those that the bouncer may
// have missed, and those since the answer before its last one, since a node drops what has
// expired, and a network without what was exempt from it is another one.
func (p *Pull) ExpiriesFrom() time.Time {
	if before := p.Cursor.Before.At; before.Before(p.missedFrom()) {
		return before
	}
	return p.missedFrom()
}

// missedFrom returns the instant after which the bouncer may have missed an expiry.
func (p *Pull) missedFrom() time.Time { return p.Cursor.Last.At.Add(-Overlap) }

// Delta is the answer to a pull. No ban is in both lists.
type Delta struct {
	Deleted []Ban
	New     iter.Seq[Ban]
	Cursor  Cursor // once the bouncer has it all
}

// Compute returns what changed for a bouncer between its cursor and now. set is the
// node's copy, at least of the revision of ch; ch are the changes beyond Cursor.Before.
//
// A block that lasts longer than the bouncer was sent is announced at once, and again
// once the old end has passed, because nftables ignores an address that it has. One
// that lasts shorter is deleted, and announced in the next pull in which it does not
// last shorter still.
func Compute(set *blocks.Set, ch Changes, p Pull) Delta {
	here := Position{ch.Revision, p.Now}
	now := momentAt(set, ch.Entries, here)
	d := Delta{Cursor: Cursor{Last: here, Before: p.Cursor.Last, Full: p.Cursor.Full}}
	var fresh []Ban
	deleted := map[target]bool{}
	if p.Cursor.Last.Revision > 0 && !p.Filter.none() {
		c := comparison{
			before: momentAt(set, ch.Entries, p.Cursor.Before), last: momentAt(set, ch.Entries, p.Cursor.Last), now: now,
			pull: p, found: map[target]int{}, deleted: deleted,
		}
		c.compare(set, ch.Entries)
		d.Deleted, fresh = c.gone, c.fresh
	}
	d.New = func(yield func(Ban) bool) {
		for _, b := range fresh {
			if !yield(b) {
				return
			}
		}
	}
	if p.IsFull() {
		d.Cursor.Full = p.Now
		if p.Startup || p.Cursor.Last.Revision == 0 {
			d.Cursor.Before = here
		}
		d.New = everything(set, now, p.Filter, deleted)
	}
	return d
}

// All ranges over the bans of everything that is active at an instant.
func All(set *blocks.Set, at time.Time, f Filter) iter.Seq[Ban] {
	return everything(set, momentAt(set, nil, Position{At: at}), f, nil)
}

// everything ranges over all bans but those of some targets.
func everything(set *blocks.Set, now *moment, f Filter, without map[target]bool) iter.Seq[Ban] {
	return func(yield func(Ban) bool) {
		if f.none() {
			return
		}
		for e := range set.All(blocks.Block, now.at) {
			if isKey(e.Pattern) && !f.hasKeys() {
				continue
			}
			for _, t := range now.targets(e.Pattern) {
				b, is := now.ban(t, e.Pattern)
				// Two blocks that are cut may give the same part: it is sent once.
				if own := now.block(e.Pattern); !is || b.entry != own.ID || without[t] || !f.Selects(b) {
					continue
				}
				if !yield(b) {
					return
				}
			}
		}
	}
}

// comparison compares what a bouncer was sent with what is active.
type comparison struct {
	before, last, now *moment
	pull              Pull
	affected          []affected
	found             map[target]int // the indexes of affected
	deleted           map[target]bool
	gone, fresh       []Ban
}

// affected is a target that a change may concern.
type affected struct {
	target
	pattern keys.Pattern // of a block that gave or gives it
	again   bool         // what is active is announced even if the bouncer was sent it
}

func (c *comparison) compare(set *blocks.Set, histories []*blocks.History) {
	c.find(set, histories)
	for _, a := range c.affected {
		c.target(a)
	}
}

// find notes what the changes may concern.
func (c *comparison) find(set *blocks.Set, histories []*blocks.History) {
	var exempt []netip.Prefix
	var exemptKeys []keys.Pattern
	from := c.pull.missedFrom()
	for _, h := range histories {
		network, isNetwork := h.Pattern.Network()
		switch {
		case h.Kind == blocks.Block:
			c.pattern(h.Pattern, h.ExpiresWithin(from, c.pull.Now))
		case isNetwork:
			exempt = append(exempt, network)
		default:
			exemptKeys = append(exemptKeys, h.Pattern)
		}
	}
	if len(exempt) == 0 && len(exemptKeys) == 0 {
		return
	}
	// The blocks that the changed exemptions are about.
	changed := newHoles(exempt)
	for e := range set.All(blocks.Block, c.pull.Now) {
		network, isNetwork := e.Pattern.Network()
		concerned := false
		if isNetwork {
			concerned, _ = changed.overlaps(network)
		}
		for _, p := range exemptKeys {
			concerned = concerned || p.Covers(e.Pattern)
		}
		if concerned {
			c.pattern(e.Pattern, false)
		}
	}
}

// pattern notes all that a block of a pattern gave or gives. Several blocks may give a target:
// it is announced again if one of them asks for it.
func (c *comparison) pattern(p keys.Pattern, again bool) {
	if isKey(p) && !c.pull.Filter.hasKeys() {
		return
	}
	for _, m := range []*moment{c.before, c.last, c.now} {
		for _, t := range m.targets(p) {
			i, is := c.found[t]
			if !is {
				i = len(c.affected)
				c.found[t] = i
				c.affected = append(c.affected, affected{target: t, pattern: p})
			}
			c.affected[i].again = c.affected[i].again || again
		}
	}
}

func (c *comparison) target(a affected) {
	t, p := a.target, a.pattern
	before, wasBefore := c.selected(c.before, t, p)
	last, was := c.selected(c.last, t, p)
	now, is := c.selected(c.now, t, p)
	isShorter := was && is && last.outlasts(now) && !c.pull.Startup
	if wasBefore && was && before.outlasts(last) {
		was = false // it was deleted in the last pull, to be announced now
	}
	switch {
	case was && (!is || isShorter):
		c.deleted[t] = true
		c.gone = append(c.gone, last)
	case isShorter:
		// The next pull takes it for deleted in this one, so it must not be announced.
		c.deleted[t] = true
	case is && (!was || a.again || now.outlasts(last)):
		c.fresh = append(c.fresh, now)
	}
}

// selected returns the ban of a target at a moment if the filter selects it.
func (c *comparison) selected(m *moment, t target, p keys.Pattern) (Ban, bool) {
	b, is := m.ban(t, p)
	return b, is && c.pull.Filter.Selects(b)
}
