package recorder

import (
	"cmp"
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"
	"sync"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
)

// shard counts the keys whose hash falls to it.
type shard struct {
	mu     sync.Mutex
	limits shardLimits
	// omitPaths leaves the path out of what is kept of a refusal.
	omitPaths bool
	minutes   map[int64]*minute
	newest    *minute // the one that nearly every check falls into
	offences  *topk[offenceKey, offenceValue]
	carried   []offences.Offence // evicted with a row in the database, to which they belong
	traffic   *topk[trafficKey, trafficValue]
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
	start           int64
	policies        []*policyMinute
	last            *policyMinute
	offenceFloor    int64 // the largest count of offences that was evicted
	trafficFloor    int64 // the largest count of checks that was evicted
	aggregatedFloor int64 // the largest count of a key that was aggregated instead of admitted
	rows            int   // of offences in the database
	sources         map[string]string
}

// bound is how many offences any one key may have that its rows do not show.
func (m *minute) bound() int64 { return max(m.offenceFloor, m.aggregatedFloor) }

type policyMinute struct {
	policy int64
	counts offences.Counts                // not drained yet
	other  [offences.KindCount]aggregated // not drained yet
}

// aggregated are offences that have no row of their own.
type aggregated struct {
	count       int64
	first, last int64
}

type offenceKey struct {
	minute, policy int64
	key, source    string
	kind           offences.Kind
	rule           rules.Rule    // Limited and Shadow
	block          *blocks.Entry // Blocked
}

// sourceSeed keeps who names the sources from choosing names that hash alike.
var sourceSeed = maphash.MakeSeed()

// mix returns the hash of k, given that of its key.
func (k *offenceKey) mix(hash uint64) uint64 {
	hash = mixIn(mixIn(hash, uint64(k.minute)), uint64(k.policy))
	hash = mixIn(mixIn(hash, uint64(k.rule.Limit)<<2|uint64(k.kind)), uint64(k.rule.Window))
	if k.block != nil {
		hash = mixIn(hash, uint64(k.block.Revision))
	}
	if k.source != "" {
		hash = mixIn(hash, maphash.String(sourceSeed, k.source))
	}
	return hash
}

// mixIn is the step of xxhash for eight more bytes.
func mixIn(hash, more uint64) uint64 {
	const prime1, prime2 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F
	return bits.RotateLeft64(hash^more*prime2, 27) * prime1
}

func (k *offenceKey) refusedBy() string {
	if k.block != nil {
		return k.block.ID
	}
	return k.rule.String()
}

type offenceValue struct{ first, last refusalSample }

func (v *offenceValue) reset() { v.first.reset(); v.last.reset() }

type trafficKey struct {
	minute, policy int64
	key            string
}

// mix returns the hash of k, given that of its key.
func (k *trafficKey) mix(hash uint64) uint64 {
	return mixIn(mixIn(hash, uint64(k.minute)), uint64(k.policy))
}

// trafficValue is what has not been drained yet, and whether the key offended
// in this minute.
type trafficValue struct {
	allowed, refused, cost int64
	offends                bool
}

func (v *trafficValue) reset() { *v = trafficValue{} }

type (
	offenceEntry = entry[offenceKey, offenceValue]
	trafficEntry = entry[trafficKey, trafficValue]
)

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

func (f *aggregated) add(count, first, last int64) {
	if f.count == 0 || first < f.first {
		f.first = first
	}
	f.count += count
	f.last = max(f.last, last)
}

// countTraffic counts one check of a key. It reports whether the key is new to
// the minute, or has been forgotten, and returns a copy of it that may be kept.
func (s *shard) countTraffic(m *minute, policy int64, hash uint64, key string, cost int, refused bool) (fresh bool, kept string) {
	k := trafficKey{m.start, policy, key}
	hash = k.mix(hash)
	e := s.traffic.find(hash, &k)
	if fresh = e == nil; fresh {
		k.key = strings.Clone(key)
		e = s.traffic.insert(hash, k, s.evictTraffic, (*trafficValue).reset)
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
	return fresh, e.key.key
}

func (s *shard) evictTraffic(e *trafficEntry) {
	m := s.minute(e.key.minute)
	m.trafficFloor = max(m.trafficFloor, e.upper())
	m.policy(e.key.policy).counts.Untracked += e.value.allowed
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

// countOffence counts one refusal. The key in k may be kept.
func (s *shard) countOffence(m *minute, hash uint64, k offenceKey, at, boundary, retryAt int64, meta map[string]string) {
	k.source = m.source(k.source[:min(len(k.source), maxSource)])
	if s.omitPaths {
		meta = withoutPath(meta)
	}
	hash = k.mix(hash)
	e := s.offences.find(hash, &k)
	if e == nil {
		e = s.offences.insert(hash, k, s.evictOffence, (*offenceValue).reset)
		e.over = m.offenceFloor
	}
	// After a drain first begins again: an escalation has to know how old the oldest
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

func (s *shard) evictOffence(e *offenceEntry) {
	m := s.minute(e.key.minute)
	m.offenceFloor = max(m.offenceFloor, e.upper())
	if e.row && e.pending > 0 {
		s.carried = append(s.carried, takeOffence(e))
	}
	m.aggregate(e)
}

// fold moves what e has not drained to `other`.
func (m *minute) aggregate(e *offenceEntry) {
	if e.pending == 0 {
		return
	}
	m.policy(e.key.policy).other[e.key.kind].add(e.pending, e.value.first.at, e.value.last.at)
	e.certain -= e.pending
	e.over += e.pending
	e.pending = 0
}

// drain adds all that was counted since the last drain to g and to others, and
// forgets the minutes that began before closed.
func (s *shard) drain(g *pendingBatch, others *overflow, closed int64) {
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

func (p *policyMinute) drain(g *pendingBatch, others *overflow, start, bound int64) {
	if p.counts != (offences.Counts{}) {
		g.addTotals(offences.Totals{Minute: start, Policy: p.policy, Counts: p.counts})
		p.counts = offences.Counts{}
	}
	for kind := range p.other {
		if f := &p.other[kind]; f.count > 0 {
			others.add(offences.Offence{
				Minute: start, Policy: p.policy, Kind: offences.Kind(kind), RefusedBy: offences.Other, Count: f.count, Overcount: bound,
				First: offences.Refusal{At: f.first}, Last: offences.Refusal{At: f.last},
			})
			*f = aggregated{}
		}
	}
}

func (s *shard) drainOffences(g *pendingBatch, closed int64) {
	for _, o := range s.carried {
		g.addOffence(o)
	}
	s.carried = nil
	var queue []*offenceEntry // those that have no row in the database yet
	for _, e := range s.offences.entries {
		if e.pending > 0 {
			if e.row {
				g.addOffence(takeOffence(e))
			} else {
				queue = append(queue, e)
			}
		}
	}
	s.admit(g, queue)
	s.offences.drop(func(e *offenceEntry) bool { return e.key.minute < closed }, (*offenceValue).reset)
}

// admit gives rows to those that wait for one, as long as the minute has room,
// the heaviest first; what finds none goes to `other` at once, so that nothing
// waits longer than the rest.
func (s *shard) admit(g *pendingBatch, queue []*offenceEntry) {
	slices.SortFunc(queue, func(a, c *offenceEntry) int { return cmp.Compare(c.upper(), a.upper()) })
	late := s.limits.late
	for _, e := range queue {
		m := s.minute(e.key.minute)
		switch {
		case m.rows < s.limits.rows:
		case late > 0:
			late--
		default:
			m.aggregatedFloor = max(m.aggregatedFloor, e.upper())
			m.aggregate(e)
			continue
		}
		m.rows++
		e.row = true
		o := takeOffence(e)
		o.Overcount = e.over
		g.addOffence(o)
	}
}

// takeOffence returns what of e was not drained yet, and resets it.
func takeOffence(e *offenceEntry) offences.Offence {
	source := clean(e.key.source)
	o := offences.Offence{Minute: e.key.minute, Policy: e.key.policy, Key: e.key.key, Kind: e.key.kind, RefusedBy: e.key.refusedBy(), Source: source,
		Count: e.pending, First: e.value.first.refusal(source), Last: e.value.last.refusal(source)}
	e.pending = 0
	return o
}

// drainTraffic drains the keys that offend as they go, so that their share is
// right at any time, and of the others the heaviest when their minute closes.
func (s *shard) drainTraffic(g *pendingBatch, closed int64) {
	var ending []*trafficEntry
	for _, e := range s.traffic.entries {
		switch {
		case e.key.minute < closed:
			ending = append(ending, e)
		case e.value.offends && e.pending > 0 && (e.row || s.minute(e.key.minute).rows < s.limits.rows):
			emitTraffic(g, e)
		}
	}
	slices.SortFunc(ending, func(a, c *trafficEntry) int {
		if a.value.offends != c.value.offends {
			if a.value.offends {
				return -1
			}
			return 1
		}
		return cmp.Compare(c.upper(), a.upper())
	})
	for i, e := range ending {
		if e.pending > 0 && (e.row || i < s.limits.kept) {
			emitTraffic(g, e)
		}
		s.minute(e.key.minute).policy(e.key.policy).counts.Untracked += e.value.allowed
	}
	s.traffic.drop(func(e *trafficEntry) bool { return e.key.minute < closed }, (*trafficValue).reset)
}

func emitTraffic(g *pendingBatch, e *trafficEntry) {
	over := e.over
	if e.row {
		over = 0 // it has been said
	}
	g.addKeyTraffic(offences.KeyTraffic{Minute: e.key.minute, Policy: e.key.policy, Key: e.key.key,
		Allowed: e.value.allowed, Refused: e.value.refused, Cost: e.value.cost, Overcount: over})
	e.row, e.pending = true, 0
	e.value = trafficValue{offends: e.value.offends}
}
