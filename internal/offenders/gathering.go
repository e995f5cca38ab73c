package offenders

import (
	"cmp"
	"maps"
	"slices"

	"github.com/stint-dev/stint/internal/refusal"
)

// Batch is what one flush writes: amounts to add, in the order of their rows'
// keys, so that two nodes that write the same rows never wait for each other
// in a circle.
type Batch struct {
	// ID makes writing it twice harmless: a batch whose commit was lost on the
	// way is given again under the same id.
	ID       string
	Node     string
	Offences []Offence
	Totals   []Totals
	Keys     []KeyTraffic
	Distinct []DistinctKeys
	Traces   []TraceChunk
}

// Rows returns how many rows the batch holds.
func (b *Batch) Rows() int {
	return len(b.Offences) + len(b.Totals) + len(b.Keys) + len(b.Distinct) + len(b.Traces)
}

// halves splits a batch of at least two rows. Both have new ids to be given.
// The sketches stay in front: escalations are evaluated piece by piece, and their
// guard has to know the keys by then.
func (b *Batch) halves() (one, other *Batch) {
	one, other = &Batch{Node: b.Node}, &Batch{Node: b.Node}
	left := b.Rows() / 2
	one.Distinct, other.Distinct = cut(b.Distinct, &left)
	one.Offences, other.Offences = cut(b.Offences, &left)
	one.Totals, other.Totals = cut(b.Totals, &left)
	one.Keys, other.Keys = cut(b.Keys, &left)
	one.Traces, other.Traces = cut(b.Traces, &left)
	return one, other
}

func cut[T any](all []T, left *int) (one, other []T) {
	n := min(*left, len(all))
	*left -= n
	return all[:n], all[n:]
}

// gathering adds up what has been drained until the database takes it. It is
// bounded: beyond most rows of keys, new ones are folded into `other`.
type gathering struct {
	most     int
	folded   int64 // offences that lost their row because of the bound
	lost     int64 // rows of traffic, sketches and traces left out because of it
	offences map[offenceID]*Offence
	totals   map[totalsID]*Totals
	keys     map[trafficKey]*KeyTraffic
	distinct map[totalsID]DistinctKeys
	traces   []TraceChunk
}

type offenceID struct {
	minute, policy int64
	key            string
	kind           Kind
	decider        string
	source         string
}

type totalsID struct{ minute, policy int64 }

func newGathering(most int) *gathering {
	return &gathering{
		most: most, offences: map[offenceID]*Offence{}, totals: map[totalsID]*Totals{},
		keys: map[trafficKey]*KeyTraffic{}, distinct: map[totalsID]DistinctKeys{},
	}
}

func (g *gathering) rows() int {
	return len(g.offences) + len(g.totals) + len(g.keys) + len(g.distinct) + len(g.traces)
}

func (g *gathering) full() bool { return g.rows() >= g.most }

func (o *Offence) id() offenceID {
	return offenceID{o.Minute, o.Policy, o.Key, o.Kind, o.Decider, o.Source}
}

func (g *gathering) addOffence(o Offence) {
	known, found := g.offences[o.id()]
	switch {
	case found:
		known.Merge(&o)
	case o.Key != "" && g.full():
		g.folded += o.Count
		// Which key it was is forgotten, so any one may have had all of it.
		g.addOffence(Offence{Minute: o.Minute, Policy: o.Policy, Kind: o.Kind, Decider: Other, Count: o.Count,
			Over: o.Count + o.Over, First: Refusal{At: o.First.At}, Last: Refusal{At: o.Last.At}})
	default:
		g.offences[o.id()] = &o
	}
}

func (g *gathering) addTotals(t Totals) {
	id := totalsID{t.Minute, t.Policy}
	if known, found := g.totals[id]; found {
		known.Add(t.Counts)
		return
	}
	g.totals[id] = &t
}

func (g *gathering) addKeyTraffic(k KeyTraffic) {
	id := trafficKey{k.Minute, k.Policy, k.Key}
	known, found := g.keys[id]
	switch {
	case found:
		known.Merge(&k)
	case g.full():
		g.lost++
		g.addTotals(Totals{k.Minute, k.Policy, Counts{Untracked: k.Allowed}})
	default:
		g.keys[id] = &k
	}
}

// addDistinct takes over a sketch, which holds all that an earlier one of its
// minute held.
func (g *gathering) addDistinct(d DistinctKeys) {
	id := totalsID{d.Minute, d.Policy}
	if _, found := g.distinct[id]; !found && g.full() {
		g.lost++
		return
	}
	g.distinct[id] = d
}

func (g *gathering) addTrace(t TraceChunk) {
	if g.full() {
		g.lost++
		return
	}
	g.traces = append(g.traces, t)
}

// freeze returns the batch of all that was gathered.
func (g *gathering) freeze(id, node string, maker *refusal.Maker) *Batch {
	b := &Batch{ID: id, Node: node, Traces: g.traces}
	for _, o := range g.offences {
		if o.Key != "" {
			o.MAC = maker.MAC(o.Policy, o.Key)
		}
		b.Offences = append(b.Offences, *o)
	}
	slices.SortFunc(b.Offences, func(x, y Offence) int {
		return cmp.Or(cmp.Compare(x.Minute, y.Minute), cmp.Compare(x.Policy, y.Policy),
			slices.Compare(x.MAC[:], y.MAC[:]), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Decider, y.Decider), cmp.Compare(x.Source, y.Source))
	})
	for _, t := range g.totals {
		b.Totals = append(b.Totals, *t)
	}
	slices.SortFunc(b.Totals, func(x, y Totals) int {
		return cmp.Or(cmp.Compare(x.Minute, y.Minute), cmp.Compare(x.Policy, y.Policy))
	})
	for _, k := range g.keys {
		b.Keys = append(b.Keys, *k)
	}
	slices.SortFunc(b.Keys, func(x, y KeyTraffic) int {
		return cmp.Or(cmp.Compare(x.Minute, y.Minute), cmp.Compare(x.Policy, y.Policy), cmp.Compare(x.Key, y.Key))
	})
	b.Distinct = slices.Collect(maps.Values(g.distinct))
	slices.SortFunc(b.Distinct, func(x, y DistinctKeys) int {
		return cmp.Or(cmp.Compare(x.Minute, y.Minute), cmp.Compare(x.Policy, y.Policy))
	})
	return b
}
