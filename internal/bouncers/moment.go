package bouncers

import (
	"iter"
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
)

// moment is the state at a position: the node's copy, with the entries that have changed since
// replaced by their former versions.
type moment struct {
	at     time.Time
	layers []*layer        // a pattern may have a block in each
	ids    map[string]bool // ids of all entries that have changed
	holes  holes
	exempt []keys.Pattern // exemptions of keys that are not addresses
}

// layer has blocks of one kind.
type layer struct {
	set     *blocks.Set
	changed map[string]*blocks.Entry // the active blocks among the former versions, by pattern
}

// The layers. All but the first are only for bouncers that show captchas.
const (
	refusing = iota
	challenging
	challengingByLists
)

// layersOf returns the sets of the layers.
func layersOf(set *blocks.Set, captchas bool) []*blocks.Set {
	if !captchas {
		return []*blocks.Set{set}
	}
	own, listed := set.Challenging()
	return []*blocks.Set{set, own, listed}
}

// layerOf returns the layer of a block, false if bouncers do not get it.
func (m *moment) layerOf(e *blocks.Entry) (*layer, bool) {
	n := refusing
	switch {
	case e.Action == blocks.Refuse && e.Scope == "":
	case !e.ChallengesAll():
		return nil, false
	case e.Scope == "":
		n = challenging
	default:
		n = challengingByLists
	}
	if n >= len(m.layers) {
		return nil, false
	}
	return m.layers[n], true
}

// momentAt returns the state at a position, for a bouncer that shows captchas or not.
func momentAt(set *blocks.Set, histories []*blocks.History, p Position, captchas bool) *moment {
	m := &moment{at: p.At, ids: map[string]bool{}}
	for _, s := range layersOf(set, captchas) {
		m.layers = append(m.layers, &layer{s, map[string]*blocks.Entry{}})
	}
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
		if e == nil || !e.ActiveAt(p.At) {
			continue
		}
		if e.Kind == blocks.Exemption {
			exemption(e.Pattern)
		} else if l, is := m.layerOf(e); is {
			l.changed[e.Pattern.String()] = e
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

// block returns the active block of a layer with exactly the pattern, nil if there is none.
func (m *moment) block(l *layer, p keys.Pattern) *blocks.Entry {
	if e := l.changed[p.String()]; e != nil {
		return e
	}
	if e := l.set.Of(blocks.Block, p, m.at); e != nil && !m.ids[e.ID] {
		return e
	}
	return nil
}

// targets returns the targets of the active blocks with the pattern, nil if there is none.
func (m *moment) targets(p keys.Pattern) []target {
	for _, l := range m.layers {
		if m.block(l, p) != nil {
			return m.possibleTargets(p)
		}
	}
	return nil
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

// ban returns the ban of a target that a filter selects: the longest of those that refuse, by any block,
// otherwise the longest captcha. key is the pattern of a target that is not a network.
func (m *moment) ban(t target, key keys.Pattern, f *Filter) (found Ban, is bool) {
	for n, l := range m.layers {
		if n == challenging && (is || m.isRefused(t, f)) {
			break
		}
		for p := range m.patterns(t, key) {
			if e := m.block(l, p); e != nil {
				if b := banOf(t, e); f.Selects(b) && (!is || b.outlasts(found)) {
					found, is = b, true
				}
			}
		}
	}
	return found, is
}

// patterns iterates over the patterns whose blocks have the target, none if it is exempt.
func (m *moment) patterns(t target, key keys.Pattern) iter.Seq[keys.Pattern] {
	return func(yield func(keys.Pattern) bool) {
		if t.key != "" {
			if !m.exempts(key) {
				yield(key)
			}
			return
		}
		if m.cuts(t.network) || !yield(keys.NetworkPattern(t.network)) {
			return
		}
		for around, more := parentOf(t.network); more; around, more = parentOf(around) {
			// A larger block has this part only if an exemption is cut out right next to it.
			if near, _ := parentOf(t.network); !m.cuts(near) || !yield(keys.NetworkPattern(around)) {
				return
			}
		}
	}
}

// isRefused reports whether a ban of a larger network that the filter selects has the target. Bouncers look
// for the smallest network: a captcha of the target would let clients pass that are banned.
func (m *moment) isRefused(t target, f *Filter) bool {
	if t.key != "" {
		return false
	}
	for around, more := parentOf(t.network); more; around, more = parentOf(around) {
		if e := m.block(m.layers[refusing], keys.NetworkPattern(around)); e != nil && f.Selects(banOf(target{network: around}, e)) {
			return true
		}
	}
	return false
}

func (m *moment) cuts(network netip.Prefix) bool {
	some, _ := m.holes.overlaps(network)
	return some
}
