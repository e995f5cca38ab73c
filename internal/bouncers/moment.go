package bouncers

import (
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
)

// moment is what is active at a position: the node's copy, and in place of what has
// changed since, what it was.
type moment struct {
	set     *blocks.Set
	at      time.Time
	changed map[string]*blocks.Entry // the blocks among them that are active, by pattern
	ids     map[string]bool          // of all that have changed
	holes   holes
	exempt  []keys.Pattern // exemptions of other keys than addresses
}

// momentAt returns what was active at a position.
func momentAt(set *blocks.Set, histories []*blocks.History, p Position) *moment {
	m := &moment{set: set, at: p.At, changed: map[string]*blocks.Entry{}, ids: map[string]bool{}}
	var exempt []netip.Prefix
	exemption := func(p keys.Pattern) {
		if network, is := p.Network(); is {
			exempt = append(exempt, network)
			return
		}
		if p.Covers(everyAddressPattern) {
			exempt = append(exempt, everyAddress...)
		}
		m.exempt = append(m.exempt, p)
	}
	for _, h := range histories {
		m.ids[h.ID] = true
		e := h.AsOf(p.Revision)
		switch {
		case e == nil || !e.ActiveAt(p.At):
		case e.Kind == blocks.Exemption:
			exemption(e.Pattern)
		default:
			m.changed[e.Pattern.String()] = e
		}
	}
	for e := range set.All(blocks.Exemption, p.At) {
		if !m.ids[e.ID] {
			exemption(e.Pattern)
		}
	}
	m.holes = newHoles(exempt)
	return m
}

var everyAddressPattern = keys.NetworkPattern(everyAddress[0])

// isKey reports whether a pattern is one key that is no address.
func isKey(p keys.Pattern) bool { return p.Kind() == keys.Exact }

// block returns the active block of exactly a pattern, nil if there is none.
func (m *moment) block(p keys.Pattern) *blocks.Entry {
	if e := m.changed[p.String()]; e != nil {
		return e
	}
	if e := m.set.Of(blocks.Block, p, m.at); e != nil && !m.ids[e.ID] {
		return e
	}
	return nil
}

// targets returns what a bouncer is sent of a block if it is active: its network
// without what is exempt, or its key.
func (m *moment) targets(p keys.Pattern) []target {
	e := m.block(p)
	if e == nil {
		return nil
	}
	t, is := targetOf(e)
	switch {
	case !is || t.key != "" && m.exempts(p):
		return nil
	case t.key != "":
		return []target{t}
	}
	var all []target
	for _, part := range m.holes.cut(t.network) {
		all = append(all, target{network: part})
	}
	return all
}

func (m *moment) exempts(p keys.Pattern) bool {
	for _, e := range m.exempt {
		if e.Covers(p) {
			return true
		}
	}
	return false
}

// ban returns the ban of a target that lasts longest, of all blocks that give it. key
// is the target's pattern where it is no network.
func (m *moment) ban(t target, key keys.Pattern) (found Ban, is bool) {
	take := func(p keys.Pattern) {
		if e := m.block(p); e != nil {
			if b := banOf(t, e); !is || b.outlasts(found) {
				found, is = b, true
			}
		}
	}
	if t.key != "" {
		if !m.exempts(key) {
			take(key)
		}
		return found, is
	}
	if some, _ := m.holes.overlaps(t.network); some {
		return found, false
	}
	take(keys.NetworkPattern(t.network))
	for around, more := parentOf(t.network); more; around, more = parentOf(around) {
		// A larger block gives this part only where it is cut right beside it.
		if near, _ := parentOf(t.network); !m.cuts(near) {
			break
		}
		take(keys.NetworkPattern(around))
	}
	return found, is
}

func (m *moment) cuts(network netip.Prefix) bool {
	some, _ := m.holes.overlaps(network)
	return some
}
