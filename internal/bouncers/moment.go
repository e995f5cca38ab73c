package bouncers

import (
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
)

// moment is the state at a position: the node's copy, with the entries that have changed since
// replaced by their former versions.
type moment struct {
	set     *blocks.Set
	at      time.Time
	changed map[string]*blocks.Entry // the active blocks among the former versions, by pattern
	ids     map[string]bool          // ids of all entries that have changed
	holes   holes
	exempt  []keys.Pattern // exemptions of keys that are not addresses
}

// momentAt returns the state at a position.
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

// isKey reports whether a pattern is one key that is not an address.
func isKey(p keys.Pattern) bool { return p.Kind() == keys.Exact }

// block returns the active block with exactly the pattern, nil if there is none.
func (m *moment) block(p keys.Pattern) *blocks.Entry {
	if e := m.changed[p.String()]; e != nil {
		return e
	}
	if e := m.set.Of(blocks.Block, p, m.at); e != nil && !m.ids[e.ID] {
		return e
	}
	return nil
}

// targets returns the targets of the active block with the pattern, nil if there is none.
func (m *moment) targets(p keys.Pattern) []target {
	if m.block(p) == nil {
		return nil
	}
	return m.possibleTargets(p)
}

// possibleTargets returns the targets that a block with the pattern has if there is one: its
// network without what is exempt, or its key.
func (m *moment) possibleTargets(p keys.Pattern) []target {
	t, is := targetOf(p)
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

// ban returns the longest ban of a target that a filter selects, by any block. key is the pattern
// of a target that is not a network.
func (m *moment) ban(t target, key keys.Pattern, f *Filter) (found Ban, is bool) {
	take := func(p keys.Pattern) {
		if e := m.block(p); e != nil {
			if b := banOf(t, e); f.Selects(b) && (!is || b.outlasts(found)) {
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
		// A larger block has this part only if an exemption is cut out right next to it.
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
