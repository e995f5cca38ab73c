package recorder

import (
	"cmp"
	"maps"
	"slices"

	"github.com/stint-dev/stint/internal/breakdown"
	"github.com/stint-dev/stint/internal/offences"
)

// pendingBatch collects what was drained until the database takes it. It is bounded: beyond
// maxRows rows, offences of new keys are aggregated as `other`.
type pendingBatch struct {
	maxRows    int
	aggregated int64 // offences that lost their row because of maxRows
	lost       int64 // rows of traffic, sketches and samples omitted because of maxRows
	offences   map[offenceID]*offences.Offence
	totals     map[totalsID]*offences.Totals
	keys       map[trafficID]*offences.KeyTraffic
	distinct   map[totalsID]offences.DistinctKeys
	samples    []offences.SampleChunk
	requested  map[int64][]byte // tables by minute
}

type offenceID struct {
	minute, policy int64
	key            string
	kind           offences.Kind
	refusedBy      string
	source         string
}

type totalsID struct{ minute, policy int64 }

type trafficID struct {
	minute, policy int64
	key            string
}

func newPendingBatch(maxRows int) *pendingBatch {
	return &pendingBatch{
		maxRows: maxRows, offences: map[offenceID]*offences.Offence{}, totals: map[totalsID]*offences.Totals{},
		keys: map[trafficID]*offences.KeyTraffic{}, distinct: map[totalsID]offences.DistinctKeys{},
		requested: map[int64][]byte{},
	}
}

func (g *pendingBatch) rows() int {
	return len(g.offences) + len(g.totals) + len(g.keys) + len(g.distinct) + len(g.samples) + len(g.requested)
}

func (g *pendingBatch) full() bool { return g.rows() >= g.maxRows }

func idOf(o *offences.Offence) offenceID {
	return offenceID{o.Minute, o.Policy, o.Key, o.Kind, o.RefusedBy, o.Source}
}

func (g *pendingBatch) addOffence(o offences.Offence) {
	known, found := g.offences[idOf(&o)]
	switch {
	case found:
		known.Merge(&o)
	case o.Key != "" && g.full():
		g.aggregated += o.Count
		// The key is lost, so any one key may have had all of these offences.
		g.addOffence(offences.Offence{Minute: o.Minute, Policy: o.Policy, Kind: o.Kind, RefusedBy: offences.Other, Count: o.Count,
			Overcount: o.Count + o.Overcount, First: offences.Refusal{At: o.First.At}, Last: offences.Refusal{At: o.Last.At}})
	default:
		g.offences[idOf(&o)] = &o
	}
}

func (g *pendingBatch) addTotals(t offences.Totals) {
	id := totalsID{t.Minute, t.Policy}
	if known, found := g.totals[id]; found {
		known.Add(t.Counts)
		return
	}
	g.totals[id] = &t
}

func (g *pendingBatch) addKeyTraffic(k offences.KeyTraffic) {
	id := trafficID{k.Minute, k.Policy, k.Key}
	known, found := g.keys[id]
	switch {
	case found:
		known.Merge(&k)
	case g.full():
		g.lost++
		g.addTotals(offences.Totals{Minute: k.Minute, Policy: k.Policy, Counts: offences.Counts{Untracked: k.Allowed}})
	default:
		g.keys[id] = &k
	}
}

// addDistinct stores a sketch, which includes all earlier sketches of its minute and policy.
func (g *pendingBatch) addDistinct(d offences.DistinctKeys) {
	id := totalsID{d.Minute, d.Policy}
	if _, found := g.distinct[id]; !found && g.full() {
		g.lost++
		return
	}
	g.distinct[id] = d
}

func (g *pendingBatch) addSample(t offences.SampleChunk) {
	if g.full() {
		g.lost++
		return
	}
	g.samples = append(g.samples, t)
}

// addBreakdown adds what was requested in a minute.
func (g *pendingBatch) addBreakdown(minute int64, t *breakdown.Table) {
	size := 0
	for _, data := range g.requested {
		size += len(data)
	}
	known, found := g.requested[minute]
	switch {
	case size > maxBreakdownBytes, !found && (len(g.requested) >= maxBreakdowns || g.full()):
		g.lost++
		return
	case found:
		if before, err := breakdown.Decode(known); err == nil {
			t.Merge(before)
			t.Trim(breakdown.LongLimits)
		}
	}
	g.requested[minute] = t.Encode()
}

// freeze returns a batch of everything in g.
func (g *pendingBatch) freeze(id, node string, maker *offences.RefusalIDMaker) *offences.Batch {
	b := &offences.Batch{ID: id, Node: node, Samples: g.samples}
	for _, o := range g.offences {
		if o.Key != "" {
			o.MAC = maker.MAC(o.Policy, o.Key)
		}
		b.Offences = append(b.Offences, *o)
	}
	slices.SortFunc(b.Offences, func(x, y offences.Offence) int {
		return cmp.Or(cmp.Compare(x.Minute, y.Minute), cmp.Compare(x.Policy, y.Policy),
			slices.Compare(x.MAC[:], y.MAC[:]), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.RefusedBy, y.RefusedBy), cmp.Compare(x.Source, y.Source))
	})
	for _, t := range g.totals {
		b.Totals = append(b.Totals, *t)
	}
	slices.SortFunc(b.Totals, func(x, y offences.Totals) int {
		return cmp.Or(cmp.Compare(x.Minute, y.Minute), cmp.Compare(x.Policy, y.Policy))
	})
	for _, k := range g.keys {
		b.Keys = append(b.Keys, *k)
	}
	slices.SortFunc(b.Keys, func(x, y offences.KeyTraffic) int {
		return cmp.Or(cmp.Compare(x.Minute, y.Minute), cmp.Compare(x.Policy, y.Policy), cmp.Compare(x.Key, y.Key))
	})
	for minute, data := range g.requested {
		b.Breakdowns = append(b.Breakdowns, breakdown.Chunk{Minute: minute, Data: data})
	}
	slices.SortFunc(b.Breakdowns, func(x, y breakdown.Chunk) int { return cmp.Compare(x.Minute, y.Minute) })
	b.Distinct = slices.Collect(maps.Values(g.distinct))
	slices.SortFunc(b.Distinct, func(x, y offences.DistinctKeys) int {
		return cmp.Or(cmp.Compare(x.Minute, y.Minute), cmp.Compare(x.Policy, y.Policy))
	})
	return b
}
