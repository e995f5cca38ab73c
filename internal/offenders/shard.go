package offenders

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/rules"
)

// shard counts the keys whose hash falls to it.
type shard struct {
	mu       sync.Mutex
	limits   shardLimits
	minutes  map[int64]*minute
	newest   *minute // the one that nearly every check falls into
	offences *tally[offenceKey, offenceValue]
	carried  []Offence // evicted with a row in the database, to which they belong
	traffic  *tally[trafficKey, trafficValue]
}

// shardLimits are the recorder's limits divided by the number of shards.
type shardLimits struct {
	keys int // entries in memory
	rows int // offence rows of a minute that are admitted whatever their count
	late int // and beyond them in each drain, the heaviest first
	kept int // keys of a minute whose traffic is kept
}

// minute is what one minute holds that is not by key.
type minute struct {
	start        int64
	policies     []*policyMinute
	last         *policyMinute
	offenceFloor int64 // the largest count of offences that was evicted
	trafficFloor int64 // the largest count of checks that was evicted
	foldedFloor  int64 // the largest count of a key that was folded instead of admitted
	rows         int   // of offences in the database
	sources      map[string]string
}

// bound is how many offences any one key may have that its rows do not show.
func (m *minute) bound() int64 { return max(m.offenceFloor, m.foldedFloor) }

type policyMinute struct {
	policy int64
	counts Counts                 // not drained yet
	other  [len(kindNames)]folded // not drained yet
}

// folded are offences that have no row of their own.
type folded struct {
	count       int64
	first, last int64
}

type offenceKey struct {
	minute, policy int64
	key, source    string
	kind           Kind
	rule           rules.Rule    // Limited and Shadow
	block          *blocks.Block // Blocked
}

func (k *offenceKey) decider() string {
	if k.block != nil {
		return k.block.ID
	}
	return k.rule.String()
}

type offenceValue struct{ first, last instant }

func (v *offenceValue) reset() { v.first.reset(); v.last.reset() }

type trafficKey struct {
	minute, policy int64
	key            string
}

// trafficValue is what has not been drained yet, and whether the key offended
// in this minute.
type trafficValue struct {
	allowed, refused, cost int64
	offends                bool
}

func (v *trafficValue) reset() { *v = trafficValue{} }

func (s *shard) minute(start int64) *minute {
	if s.newest != nil && s.newest.start == start {
		return s.newest
	}
	m, known := s.minutes[start]
	if !known {
		m = &minute{start: start}
		s.minutes[start] = m
	}
	if s.newest == nil || s.newest.start < start {
		s.newest = m
	}
	return m
}

func (m *minute) policy(id int64) *policyMinute {
	if m.last != nil && m.last.policy == id {
		return m.last
	}
	for _, p := range m.policies {
		if p.policy == id {
			m.last = p
			return p
		}
	}
	p := &policyMinute{policy: id}
	m.policies = append(m.policies, p)
	m.last = p
	return p
}

func (f *folded) add(count, first, last int64) {
	if f.count == 0 || first < f.first {
		f.first = first
	}
	f.count += count
	f.last = max(f.last, last)
}

// countTraffic counts one check of a key and reports whether the key is new to
// the minute, or has been forgotten.
func (s *shard) countTraffic(m *minute, policy int64, key string, cost int, refused bool) (fresh bool) {
	k := trafficKey{m.start, policy, key}
	e, known := s.traffic.entries[k]
	if !known {
		k.key = strings.Clone(key)
		e = s.traffic.make(k, s.evictTraffic)
		e.over = m.trafficFloor
	}
	e.certain++
	e.pending++
	if refused {
		e.value.refused++
		e.value.offends = true
	} else {
		e.value.allowed++
		e.value.cost += int64(cost)
	}
	return !known
}

func (s *shard) evictTraffic(k trafficKey, e *entry[trafficValue]) {
	m := s.minute(k.minute)
	m.trafficFloor = max(m.trafficFloor, e.upper())
	m.policy(k.policy).counts.Untracked += e.value.allowed
	s.traffic.drop(k, e, (*trafficValue).reset)
}

// maxSources bounds the sources that a minute of a shard keeps apart; offences
// of more are counted without one, so that a caller who makes a source of
// every request costs the keys nothing.
const maxSources = 64

// source returns what a source is kept as.
func (m *minute) source(text string) string {
	if text == "" {
		return ""
	}
	kept, known := m.sources[text]
	if !known && len(m.sources) < maxSources {
		if m.sources == nil {
			m.sources = map[string]string{}
		}
		kept = strings.Clone(text)
		m.sources[kept] = kept
	}
	return kept
}

// countOffence counts one refusal.
func (s *shard) countOffence(m *minute, k offenceKey, at, boundary, retryAt int64, meta map[string]string) {
	k.source = m.source(k.source[:min(len(k.source), maxSource)])
	e, known := s.offences.entries[k]
	if !known {
		k.key = strings.Clone(k.key)
		e = s.offences.make(k, s.evictOffence)
		e.over = m.offenceFloor
	}
	// After a drain first begins anew: a ladder has to know how old the oldest
	// of what it is given is.
	if e.pending == 0 || at < e.value.first.at {
		e.value.first.set(at, boundary, retryAt, meta)
	}
	e.certain++
	e.pending++
	if at >= e.value.last.at {
		e.value.last.set(at, boundary, retryAt, meta)
	}
}

func (s *shard) evictOffence(k offenceKey, e *entry[offenceValue]) {
	m := s.minute(k.minute)
	m.offenceFloor = max(m.offenceFloor, e.upper())
	if e.row && e.pending > 0 {
		s.carried = append(s.carried, take(k, e))
	}
	s.fold(m, k, e)
	s.offences.drop(k, e, (*offenceValue).reset)
}

// fold moves what e has not drained to `other`.
func (s *shard) fold(m *minute, k offenceKey, e *entry[offenceValue]) {
	if e.pending == 0 {
		return
	}
	m.policy(k.policy).other[k.kind].add(e.pending, e.value.first.at, e.value.last.at)
	e.certain -= e.pending
	e.over += e.pending
	e.pending = 0
}

// drain adds all that was counted since the last drain to g and to others, and
// forgets the minutes that began before closed.
func (s *shard) drain(g *gathering, others *otherRows, closed int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drainOffences(g, closed)
	s.drainTraffic(g, closed)
	for start, m := range s.minutes {
		for _, p := range m.policies {
			p.drain(g, others, start, m.bound())
		}
		if start < closed {
			delete(s.minutes, start)
			if s.newest == m {
				s.newest = nil
			}
		}
	}
}

func (p *policyMinute) drain(g *gathering, others *otherRows, start, bound int64) {
	if p.counts != (Counts{}) {
		g.addTotals(Totals{start, p.policy, p.counts})
		p.counts = Counts{}
	}
	for kind := range p.other {
		if f := &p.other[kind]; f.count > 0 {
			others.add(Offence{
				Minute: start, Policy: p.policy, Kind: Kind(kind), Decider: Other, Count: f.count, Over: bound,
				First: Refusal{At: f.first}, Last: Refusal{At: f.last},
			})
			*f = folded{}
		}
	}
}

// waiting is an offence that has no row in the database yet.
type waiting struct {
	key   offenceKey
	entry *entry[offenceValue]
}

func (s *shard) drainOffences(g *gathering, closed int64) {
	for _, o := range s.carried {
		g.addOffence(o)
	}
	s.carried = nil
	var queue []waiting
	for k, e := range s.offences.entries {
		if e.pending > 0 {
			if e.row {
				g.addOffence(take(k, e))
			} else {
				queue = append(queue, waiting{k, e})
			}
		}
	}
	s.admit(g, queue)
	for k, e := range s.offences.entries {
		if k.minute < closed {
			s.offences.drop(k, e, (*offenceValue).reset)
		}
	}
}

// admit gives rows to those that wait for one, as long as the minute has room,
// the heaviest first; what finds none goes to `other` at once, so that nothing
// waits longer than the rest.
func (s *shard) admit(g *gathering, queue []waiting) {
	slices.SortFunc(queue, func(a, c waiting) int { return cmp.Compare(c.entry.upper(), a.entry.upper()) })
	late := s.limits.late
	for _, w := range queue {
		m := s.minute(w.key.minute)
		switch {
		case m.rows < s.limits.rows:
		case late > 0:
			late--
		default:
			m.foldedFloor = max(m.foldedFloor, w.entry.upper())
			s.fold(m, w.key, w.entry)
			continue
		}
		m.rows++
		w.entry.row = true
		o := take(w.key, w.entry)
		o.Over = w.entry.over
		g.addOffence(o)
	}
}

// take returns what e has not drained.
func take(k offenceKey, e *entry[offenceValue]) Offence {
	source := clean(k.source)
	o := Offence{Minute: k.minute, Policy: k.policy, Key: k.key, Kind: k.kind, Decider: k.decider(), Source: source,
		Count: e.pending, First: e.value.first.refusal(source), Last: e.value.last.refusal(source)}
	e.pending = 0
	return o
}

// drainTraffic drains the keys that offend as they go, so that their share is
// right at any time, and of the others the heaviest when their minute closes.
func (s *shard) drainTraffic(g *gathering, closed int64) {
	type heavy struct {
		key   trafficKey
		entry *entry[trafficValue]
	}
	var ending []heavy
	for k, e := range s.traffic.entries {
		switch {
		case k.minute < closed:
			ending = append(ending, heavy{k, e})
		case e.value.offends && e.pending > 0 && (e.row || s.minute(k.minute).rows < s.limits.rows):
			emitTraffic(g, k, e)
		}
	}
	slices.SortFunc(ending, func(a, c heavy) int {
		if a.entry.value.offends != c.entry.value.offends {
			if a.entry.value.offends {
				return -1
			}
			return 1
		}
		return cmp.Compare(c.entry.upper(), a.entry.upper())
	})
	for i, h := range ending {
		if h.entry.pending > 0 && (h.entry.row || i < s.limits.kept) {
			emitTraffic(g, h.key, h.entry)
		}
		s.minute(h.key.minute).policy(h.key.policy).counts.Untracked += h.entry.value.allowed
		s.traffic.drop(h.key, h.entry, (*trafficValue).reset)
	}
}

func emitTraffic(g *gathering, k trafficKey, e *entry[trafficValue]) {
	over := e.over
	if e.row {
		over = 0 // it has been said
	}
	g.addKeyTraffic(KeyTraffic{Minute: k.minute, Policy: k.policy, Key: k.key,
		Allowed: e.value.allowed, Refused: e.value.refused, Cost: e.value.cost, Over: over})
	e.row, e.pending = true, 0
	e.value = trafficValue{offends: e.value.offends}
}
