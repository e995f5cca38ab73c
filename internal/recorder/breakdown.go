package recorder

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/breakdown"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
)

const (
	// breakdownShards divides the combinations by client, so that checks seldom wait for each other.
	breakdownShards = 4
	// maxCombinations is how many combinations a shard counts at a time in each open minute, and
	// maxRest how many values of each dimension of those that it had no room for.
	maxCombinations = 1024
	maxRest         = 256
	// foldedValues is how many values of each dimension are remembered as they are counted.
	foldedValues = 1024
	maxFolded    = 512 // bytes of a value that is remembered
	// rowsPerWait is for how many drained combinations the next drain leaves everything: the row of a
	// minute is written whole each time, and a large one should be written seldom.
	rowsPerWait = 64
	// drainedCombinations and drainedRest are how many of the heaviest are drained before their
	// minute closes.
	drainedCombinations = 256
	drainedRest         = 64
	// maxBreakdowns and maxBreakdownBytes bound the minutes that wait while the database is
	// unreachable.
	maxBreakdowns     = 240
	maxBreakdownBytes = 32 << 20
)

// breakdowns counts what is requested in bounded memory, however many different paths and agents
// there are: the tables of two minutes take less than 12 MB with short values, and less than 32 MB if
// all values and keys are long.
type breakdowns struct {
	omitted [len(breakdown.Dimensions)]bool
	seed    maphash.Seed
	folded  [len(breakdown.Dimensions)][foldedValues]atomic.Pointer[foldedValue]
	rules   [256]atomic.Pointer[ruleText]
	shards  [breakdownShards]breakdownShard
	wait    int // how many drains leave everything
}

// foldedValue is what is counted of a value.
type foldedValue struct {
	raw, value string
	hash       uint64 // of value
}

type breakdownShard struct {
	mu      sync.Mutex
	minutes map[int64]*breakdownMinute
	newest  *breakdownMinute
	spare   *breakdownMinute // its memory is used for the next minute
}

// breakdownMinute is the state of one minute.
type breakdownMinute struct {
	start        int64
	combinations *topk[breakdown.Values, combination]
	rest         [len(breakdown.Dimensions)]*topk[string, breakdown.Counts]
	other        [len(breakdown.Dimensions)]breakdown.Counts
	// floor is the largest count that one value may have among other, sent the part of it that was
	// drained.
	floor, sent [len(breakdown.Dimensions)]int64
	// plain are entries of checks that described no request.
	plain     [4]plain
	nextPlain int
}

// plain is the entry of the checks without a description under a policy that were answered by a
// rule.
type plain struct {
	policy    int64
	refusedBy string
	entry     *entry[breakdown.Values, combination]
}

// reported is the outcome of a report.
const reported gate.Outcome = ""

type combination struct {
	counts             breakdown.Counts
	clients, offenders heavyClients
}

// heavyClients are breakdown.Clients that grow by one request at a time.
type heavyClients [breakdown.MaxClients]breakdown.Client

// add counts one request. It may keep key.
func (h *heavyClients) add(key string) {
	free := -1
	for i := range h {
		switch {
		case h[i].Count == 0:
			free = i
		case h[i].Key == key:
			h[i].Count++
			return
		}
	}
	if free >= 0 {
		h[free] = breakdown.Client{Key: key, Count: 1}
		return
	}
	for i := range h {
		h[i].Count--
	}
}

func (h *heavyClients) clients() (all breakdown.Clients) {
	for _, c := range h {
		if c.Count > 0 {
			all = append(all, c)
		}
	}
	return all
}

func newBreakdowns(omitted []string) *breakdowns {
	b := &breakdowns{seed: maphash.MakeSeed()}
	for i := range breakdown.Dimensions {
		b.omitted[i] = slices.Contains(omitted, breakdown.Dimensions[i].Name)
	}
	for i := range b.shards {
		b.shards[i].minutes = map[int64]*breakdownMinute{}
	}
	return b
}

// valuesOf returns the values of a request and a hash of them.
func (b *breakdowns) valuesOf(seen *breakdown.Seen) (values breakdown.Values, hash uint64) {
	for i := range breakdown.Dimensions {
		hash = hash*0x9e3779b97f4a7c15 + 1
		if b.omitted[i] {
			continue
		}
		if raw := breakdown.Dimensions[i].Find(seen); raw != "" {
			f := b.fold(i, raw)
			values[i] = f.value
			hash ^= f.hash
		}
	}
	hash ^= hash >> 32
	return values, hash * 0x9e3779b97f4a7c15
}

// fold returns what is counted of a value. Most values come again and again.
func (b *breakdowns) fold(i int, raw string) *foldedValue {
	place := &b.folded[i][maphash.String(b.seed, raw)%foldedValues]
	if f := place.Load(); f != nil && f.raw == raw {
		return f
	}
	f := &foldedValue{value: breakdown.ValueOf(i, raw)}
	f.hash = maphash.String(b.seed, f.value)
	if f.raw = f.value; raw != f.value {
		f.raw = strings.Clone(raw)
	}
	if len(raw) <= maxFolded {
		place.Store(f)
	}
	return f
}

// textOf returns a rule in its canonical form.
func (b *breakdowns) textOf(rule rules.Rule) string {
	place := &b.rules[(uint64(rule.Limit)*31^uint64(rule.Window/time.Millisecond))%uint64(len(b.rules))] //nolint:gosec // a hash
	if known := place.Load(); known != nil && known.rule == rule {
		return known.text
	}
	known := &ruleText{rule, rule.String()}
	place.Store(known)
	return known.text
}

type ruleText struct {
	rule rules.Rule
	text string
}

// add counts a request. hash is that of its client, whose key may be kept.
func (b *breakdowns) add(at int64, client uint64, key string, seen breakdown.Seen, outcome gate.Outcome) {
	s := &b.shards[client%breakdownShards]
	start := offences.MinuteOf(at)
	isPlain := seen.Request == nil && seen.Outcome == ""
	var e *entry[breakdown.Values, combination]
	s.mu.Lock()
	if isPlain {
		e = s.minute(start).findPlain(&seen)
	}
	if e == nil { // no check waits while the values are found
		s.mu.Unlock()
		described := seenPool.Get().(*breakdown.Seen) //nolint:forcetypeassert // it has nothing else
		*described = seen
		values, hash := b.valuesOf(described)
		isPlain = isPlain && !described.IsOfOne()
		*described = breakdown.Seen{} // its request is not kept
		seenPool.Put(described)
		s.mu.Lock()
		e = s.minute(start).find(hash, &values)
		if isPlain {
			s.minute(start).keepPlain(&seen, e)
		}
	}
	e.certain++
	e.pending++
	c := &e.value
	switch outcome {
	case gate.Allowed:
		c.counts.Allowed++
		c.clients.add(key)
	case gate.Limited:
		c.counts.Limited++
		c.offenders.add(key)
	case gate.Blocked:
		c.counts.Blocked++
		c.offenders.add(key)
	case gate.Challenged:
		c.counts.Challenged++
		c.offenders.add(key)
	case gate.Unavailable:
		c.counts.Unavailable++
	case reported:
		c.counts.Reported++
	}
	s.mu.Unlock()
}

// seenPool has the descriptions of requests whose values are found: they would escape to the heap.
var seenPool = sync.Pool{New: func() any { return new(breakdown.Seen) }}

// findPlain returns the entry of a check without a description, nil if it is not known.
func (m *breakdownMinute) findPlain(seen *breakdown.Seen) *entry[breakdown.Values, combination] {
	for i := range m.plain {
		if p := &m.plain[i]; p.entry != nil && p.policy == seen.Policy && p.refusedBy == seen.RefusedBy {
			return p.entry
		}
	}
	return nil
}

func (m *breakdownMinute) keepPlain(seen *breakdown.Seen, e *entry[breakdown.Values, combination]) {
	m.plain[m.nextPlain%len(m.plain)] = plain{seen.Policy, seen.RefusedBy, e}
	m.nextPlain++
}

// find returns the entry of values, and creates it.
func (m *breakdownMinute) find(hash uint64, values *breakdown.Values) *entry[breakdown.Values, combination] {
	e := m.combinations.find(hash, values)
	if e == nil {
		m.plain = [len(m.plain)]plain{} // their entries may be evicted
		e = m.combinations.insert(hash, *values, m.evict, func(c *combination) { *c = combination{} })
	}
	return e
}

func (s *breakdownShard) minute(start int64) *breakdownMinute {
	if s.newest != nil && s.newest.start == start {
		return s.newest
	}
	m, known := s.minutes[start]
	if !known {
		if m, s.spare = s.spare, nil; m == nil {
			m = &breakdownMinute{combinations: newTopk[breakdown.Values, combination](maxCombinations)}
			for i := range m.rest {
				m.rest[i] = newTopk[string, breakdown.Counts](maxRest)
			}
		}
		m.start = start
		s.minutes[start] = m
	}
	if s.newest == nil || start > s.newest.start {
		s.newest = m
	}
	return m
}

// evict counts what is pending of a combination by each dimension alone.
func (m *breakdownMinute) evict(e *entry[breakdown.Values, combination]) {
	if e.pending == 0 {
		return
	}
	for i, value := range e.key {
		m.addRest(i, value, e.value.counts, e.pending)
	}
	e.pending = 0
}

func (m *breakdownMinute) addRest(i int, value string, c breakdown.Counts, n uint32) {
	t := m.rest[i]
	hash := maphash.String(restSeed, value)
	e := t.find(hash, &value)
	if e == nil {
		e = t.insert(hash, value, func(e *entry[string, breakdown.Counts]) { m.forget(i, e) }, func(c *breakdown.Counts) { *c = breakdown.Counts{} })
		e.over = uint32(m.floor[i]) //nolint:gosec // a count of a minute
	}
	e.certain += n
	e.pending += n
	e.value.Add(c)
}

var restSeed = maphash.MakeSeed()

// forget counts what is pending of a value without the value.
func (m *breakdownMinute) forget(i int, e *entry[string, breakdown.Counts]) {
	m.floor[i] = max(m.floor[i], int64(e.over)+int64(e.pending))
	m.other[i].Add(e.value)
	e.value, e.pending = breakdown.Counts{}, 0
}

// drain adds what was counted since the last drain to g, and forgets the minutes that began before
// closed. Of an open minute it leaves out what is not among the heaviest so far. After a drain of many
// combinations it leaves everything up to 16 times, but not what closes.
func (b *breakdowns) drain(g *pendingBatch, closed int64) {
	if b.wait--; b.wait >= 0 && !b.closes(closed) {
		return
	}
	rows, tables := 0, map[int64]*breakdown.Table{}
	for i := range b.shards {
		s := &b.shards[i]
		drained := map[int64]*breakdown.Table{}
		s.mu.Lock()
		for start, m := range s.minutes {
			t := &breakdown.Table{}
			m.drain(t, start < closed)
			drained[start] = t
			if start >= closed {
				rows += len(t.Rows)
				continue
			}
			delete(s.minutes, start)
			if s.newest == m {
				s.newest = nil
			}
			m.reset()
			s.spare = m
		}
		s.mu.Unlock()
		for start, t := range drained { // no check waits for it
			if known, found := tables[start]; found {
				known.Merge(t)
			} else {
				tables[start] = t
			}
		}
	}
	b.wait = rows / rowsPerWait
	for start, t := range tables {
		if !t.IsEmpty() {
			g.addBreakdown(start, t)
		}
	}
}

// closes reports whether a minute began before closed.
func (b *breakdowns) closes(closed int64) (is bool) {
	for i := range b.shards {
		s := &b.shards[i]
		s.mu.Lock()
		for start := range s.minutes {
			is = is || start < closed
		}
		s.mu.Unlock()
	}
	return is
}

func (m *breakdownMinute) drain(t *breakdown.Table, closes bool) {
	for n, e := range heaviest(m.combinations) {
		switch {
		case e.pending == 0:
		case n < drainedCombinations:
			row := t.Row(e.key)
			row.Counts = e.value.counts
			row.Clients, row.Offenders = e.value.clients.clients(), e.value.offenders.clients()
			e.value, e.pending = combination{}, 0
		case closes:
			m.evict(e)
		}
	}
	for i := range m.rest {
		for n, e := range heaviest(m.rest[i]) {
			switch {
			case e.pending == 0:
			case n < drainedRest:
				t.AddRest(i, e.key, e.value)
				e.value, e.pending = breakdown.Counts{}, 0
			case closes:
				m.forget(i, e)
			}
		}
		t.Rest[i].Other, m.other[i] = m.other[i], breakdown.Counts{}
		if t.Rest[i].Other != (breakdown.Counts{}) {
			t.Rest[i].Overcount, m.sent[i] = m.floor[i]-m.sent[i], m.floor[i]
		}
	}
}

// heaviest returns the entries, those with most requests first if not all have room.
func heaviest[K comparable, V any](t *topk[K, V]) []*entry[K, V] {
	if len(t.entries) <= drainedRest {
		return t.entries
	}
	all := slices.Clone(t.entries)
	slices.SortFunc(all, func(a, b *entry[K, V]) int { return cmp.Compare(b.certain, a.certain) })
	return all
}

// reset empties a minute for the next one.
func (m *breakdownMinute) reset() {
	all := func(*entry[breakdown.Values, combination]) bool { return true }
	m.combinations.drop(all)
	m.combinations.forget()
	for i := range m.rest {
		m.rest[i].drop(func(*entry[string, breakdown.Counts]) bool { return true })
		m.rest[i].forget()
	}
	*m = breakdownMinute{combinations: m.combinations, rest: m.rest}
}
