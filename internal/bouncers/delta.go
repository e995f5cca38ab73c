package bouncers

import (
	"iter"
	"net/netip"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
)

// Changes are the entries that changed after a revision, and those with an expiry that passed
// in a time range, in one consistent view of the database.
type Changes struct {
	Revision int64 // of the view
	Entries  []*blocks.History
}

// Pull is a bouncer's request for changes.
type Pull struct {
	Filter  Filter
	Cursor  Cursor
	Startup bool // the bouncer has no bans yet
	Now     time.Time
}

// IsFull reports whether the response must contain everything.
func (p *Pull) IsFull() bool {
	return p.Startup || p.Cursor.Last.Revision == 0 || p.Now.Sub(p.Cursor.Full) >= FullInterval
}

// ExpiriesFrom returns the instant after which expiries are needed: those that the bouncer may
// have missed, and those since the response before its last one. The node drops expired
// entries, and without an expired exemption the targets of a block differ.
func (p *Pull) ExpiriesFrom() time.Time {
	if before := p.Cursor.Before.At; before.Before(p.missedFrom()) {
		return before
	}
	return p.missedFrom()
}

// missedFrom returns the instant after which the bouncer may have missed an expiry.
func (p *Pull) missedFrom() time.Time { return p.Cursor.Last.At.Add(-Overlap) }

// Delta is the response to a Pull. No ban is in both lists.
type Delta struct {
	Deleted []Ban
	New     iter.Seq[Ban]
	Cursor  Cursor // after the bouncer has received everything
}

// Compute returns what changed for a bouncer between its cursor and now. set is the node's
// copy, at least of the revision of ch; ch are the changes after Cursor.Before.
//
// A block that now ends later than the bouncer was sent is announced at once, and again after the
// old end has passed, because nftables ignores an address that it already has. A block that now
// ends earlier, or only challenges, is deleted, and announced in the next pull unless it has become
// weaker again: some bouncers read what is deleted first and others what is new.
func Compute(set *blocks.Set, ch Changes, p Pull) Delta {
	here := Position{ch.Revision, p.Now}
	now := momentAt(set, ch.Entries, here, p.Filter.Captchas)
	d := Delta{Cursor: Cursor{Last: here, Before: p.Cursor.Last, Full: p.Cursor.Full}}
	var fresh []Ban
	deleted := map[target]bool{}
	if p.Cursor.Last.Revision > 0 && !p.Filter.none() {
		c := comparison{
			before: momentAt(set, ch.Entries, p.Cursor.Before, p.Filter.Captchas), last: momentAt(set, ch.Entries, p.Cursor.Last, p.Filter.Captchas), now: now,
			pull: p, found: map[target]int{}, deleted: deleted,
		}
		c.compare(ch.Entries)
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
		d.New = everything(now, p.Filter, deleted)
	}
	return d
}

// All iterates over the bans of all blocks that are active at an instant.
func All(set *blocks.Set, at time.Time, f Filter) iter.Seq[Ban] {
	return everything(momentAt(set, nil, Position{At: at}, f.Captchas), f, nil)
}

// everything iterates over all bans except those of some targets.
func everything(now *moment, f Filter, without map[target]bool) iter.Seq[Ban] {
	return func(yield func(Ban) bool) {
		if f.none() {
			return
		}
		for _, l := range now.layers {
			for e := range l.set.All(blocks.Block, now.at) {
				if isKey(e.Pattern) && !f.hasKeys() {
					continue
				}
				for _, t := range now.targets(e.Pattern) {
					b, is := now.ban(t, e.Pattern, &f)
					// Two blocks that are cut, or of two layers, may have the same part. It is sent once.
					if own := now.block(l, e.Pattern); !is || own == nil || b.entry != own.ID || without[t] {
						continue
					}
					if !yield(b) {
						return
					}
				}
			}
		}
	}
}

// comparison compares what a bouncer was sent with the active blocks.
type comparison struct {
	before, last, now *moment
	pull              Pull
	affected          []affected
	found             map[target]int // the indexes of affected
	deleted           map[target]bool
	gone, fresh       []Ban
}

// affected is a target that a change may affect.
type affected struct {
	target
	pattern keys.Pattern // of a block that has or had the target
	again   bool         // announce the active ban even if the bouncer was already sent it
}

func (c *comparison) compare(histories []*blocks.History) {
	c.find(histories)
	for _, a := range c.affected {
		c.target(a)
	}
}

// find collects the targets that the changes may affect.
func (c *comparison) find(histories []*blocks.History) {
	var exempt, refused []netip.Prefix
	var exemptKeys []keys.Pattern
	from := c.pull.missedFrom()
	for _, h := range histories {
		network, isNetwork := h.Pattern.Network()
		switch {
		case h.Kind == blocks.Block:
			c.pattern(h.Pattern, h.ExpiresWithin(from, c.pull.Now))
			if isNetwork && h.Action == blocks.Refuse {
				refused = append(refused, network)
			}
		case isNetwork:
			exempt = append(exempt, network)
		default:
			exemptKeys = append(exemptKeys, h.Pattern)
		}
	}
	// The blocks that the changed exemptions affect, and the captchas that the changed bans affect.
	for n, l := range c.now.layers {
		changed := newHoles(slices.Clone(exempt))
		if n > refusing {
			changed = newHoles(slices.Concat(exempt, refused))
		}
		if len(changed) > 0 || len(exemptKeys) > 0 {
			c.concerned(l, changed, exemptKeys)
		}
	}
}

// concerned adds the blocks of a layer that overlap networks or that patterns of keys cover.
func (c *comparison) concerned(l *layer, changed holes, exemptKeys []keys.Pattern) {
	for e := range l.set.All(blocks.Block, c.pull.Now) {
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

// pattern adds all targets that blocks of a pattern have or had. Several blocks may have the
// same target: it is announced again if one of them requires that.
func (c *comparison) pattern(p keys.Pattern, again bool) {
	if isKey(p) && !c.pull.Filter.hasKeys() {
		return
	}
	for _, m := range []*moment{c.before, c.last, c.now} {
		targets := m.targets(p)
		if again {
			// The block may have been ended, and another one may have had its parts since.
			targets = m.possibleTargets(p)
		}
		for _, t := range targets {
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
	before, wasBefore := c.before.ban(t, p, &c.pull.Filter)
	last, was := c.last.ban(t, p, &c.pull.Filter)
	now, is := c.now.ban(t, p, &c.pull.Filter)
	isWeaker := was && is && now.isWeakerThan(last) && !c.pull.Startup
	if wasBefore && was && last.isWeakerThan(before) {
		was = false // deleted in the last pull, to be announced now
	}
	switch {
	case was && (!is || isWeaker):
		c.deleted[t] = true
		c.gone = append(c.gone, last)
	case isWeaker:
		// The next pull assumes that this one deleted it, so it must not be announced.
		c.deleted[t] = true
	case is && (!was || a.again || now.Type != last.Type || now.outlasts(last)):
		c.fresh = append(c.fresh, now)
	}
}
