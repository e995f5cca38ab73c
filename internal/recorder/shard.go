package recorder

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
)

// shard counts the keys whose hashes map to it.
type shard struct {
	mu       sync.Mutex
	limits   shardLimits
	omits    omissions // from the stored refusals and the kept requests
	requests keyRequests
	minutes  map[int64]*minute
	newest   *minute // the newest minute, into which nearly every check falls
	offences *topk[offenceKey, offenceValue]
	carried  []offences.Offence // evicted entries with a row in the database, to which they are added
	traffic  *topk[trafficKey, trafficValue]
}

// shardLimits are the recorder's limits divided by the number of shards.
type shardLimits struct {
	keys int // entries in memory
	rows int // offence rows of a minute that are admitted whatever their count
	late int // further rows in each drain, the heaviest first
	rare int // and then further rows of the networks with the fewest keys among the rest
	kept int // keys with a refusal, and as many without, whose traffic is written when their minute closes
}

// minute is the state of one minute, except the entries of its keys.
type minute struct {
	start           int64
	policies        []*policyMinute
	last            *policyMinute
	offenceFloor    int64 // the largest count of offences that was evicted
	trafficFloor    int64 // the largest count of checks that was evicted
	aggregatedFloor int64 // the largest count of a key that was aggregated instead of admitted
	rows            int   // offence rows in the database
	early           int   // rows of keys without a refusal that were drained before the minute closed
	// evicted has how often the keys were refused that were evicted, nil until there are any.
	evicted *roughCounts
	// units has how many keys of each safety unit were refused, nil until entries are ranked by it.
	units   *roughCounts
	sources map[string]*string
}

// bound returns the largest number of offences that any one key may have beyond those in its
// rows.
func (m *minute) bound() int64 { return max(m.offenceFloor, m.aggregatedFloor) }

// policyMinute is the state of one policy in one minute. The keys of entries point to it instead
// of naming both.
type policyMinute struct {
	minute *minute
	policy int64
	counts offences.Counts                // not drained yet
	other  [offences.KindCount]aggregated // not drained yet
}

// aggregated are offences that have no row of their own.
type aggregated struct {
	count       int64
	first, last int64
}

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
	p := &policyMinute{minute: m, policy: id}
	m.policies = append(m.policies, p)
	m.last = p
	return p
}

func (a *aggregated) add(count, first, last int64) {
	if a.count == 0 || first < a.first {
		a.first = first
	}
	a.count += count
	a.last = max(a.last, last)
}

// countTraffic counts one check of a key. It reports whether the key is new to the minute, or was
// evicted before. It returns a copy of the key that the caller may keep.
func (s *shard) countTraffic(in *policyMinute, hash uint64, key string, cost int, outcome gate.Outcome) (fresh bool, kept string) {
	k := trafficKey{in, key}
	hash = in.mix(hash)
	e := s.traffic.find(hash, &k)
	if fresh = e == nil; fresh {
		k.key = strings.Clone(key)
		e = s.traffic.insert(hash, k, s.evictTraffic, (*trafficValue).reset)
		e.over = uint32(in.minute.trafficFloor)
	}
	if outcome == gate.Unavailable { // the check was not decided
		return fresh, e.key.key
	}
	e.certain++
	e.pending++
	if outcome == gate.Allowed {
		e.value.allowed++
		e.value.cost += int64(cost)
	} else {
		e.value.refused++
		e.offends = true
	}
	return fresh, e.key.key
}

func (s *shard) evictTraffic(e *trafficEntry) {
	in := e.key.in
	in.minute.trafficFloor = max(in.minute.trafficFloor, e.upper())
	in.counts.Untracked += int64(e.value.allowed)
}

// maxSources bounds the number of sources in a minute of a shard. Offences with further sources
// are counted without a source, so that a caller who sends a new source with every request evicts
// no keys.
const maxSources = 64

// source returns the stored copy of a source, nil for none.
func (m *minute) source(text string) *string {
	if text == "" {
		return nil
	}
	kept, known := m.sources[text]
	if !known && len(m.sources) < maxSources {
		if m.sources == nil {
			m.sources = map[string]*string{}
		}
		kept = new(strings.Clone(text))
		m.sources[*kept] = kept
	}
	return kept
}

// countOffence counts one refusal of a check by a policy, nil for none. It may keep k.key.
func (s *shard) countOffence(hash uint64, k offenceKey, counted keys.Key, check *gate.Check, by *rules.Policy, at, boundary, retryAt int64) {
	k.source = k.in.minute.source(check.Source[:min(len(check.Source), maxSource)])
	asked := askedRequest{meta: check.Meta, request: check.Request, omits: s.omits}
	ofKey := hash
	hash = k.mix(hash)
	e := s.offences.find(hash, &k)
	if e == nil {
		e = s.offences.insert(hash, k, s.evictOffence, (*offenceValue).reset)
		e.value.unit = unitOf(counted, ofKey)
		m := k.in.minute
		if m.evicted != nil {
			e.value.before = m.evicted.of(hash)
		}
		if m.units != nil {
			m.units.add(e.value.unit, 1)
		}
		e.over = uint32(k.in.minute.offenceFloor)
	}
	// first starts again after each drain, because an escalation must know the age of the oldest
	// offence in what it gets.
	if e.pending == 0 || at < e.value.first.at {
		e.value.first.set(at, boundary, retryAt, asked)
		e.value.met = nil
		if m := k.in.minute; by != nil && k.kind != offences.Blocked && (e.row || m.rows < s.limits.rows) {
			e.value.met = s.conditionsMet(by, check.Request)
		}
	}
	e.certain++
	e.pending++
	if at >= e.value.last.at {
		e.value.last.set(at, boundary, retryAt, asked)
	}
}

// maxMetValue bounds the stored value that met a condition, in bytes.
const maxMetValue = 256

// conditionsMet returns the conditions of a policy that a request met, nil if it met them all
// because there are none. It is called for the first refusal of a row since a drain only, since
// it compares the request with the patterns one after the other.
func (s *shard) conditionsMet(p *rules.Policy, r *conditions.Request) []conditions.Met {
	if p.When.IsZero() || r == nil || !p.When.Meets(r) { // reports, and not the check, met those of a policy with an outcome
		return nil
	}
	all := p.When.Met(r)
	for i := range all {
		m := &all[i]
		if slices.Contains(s.omits, m.Attribute) {
			m.Value = ""
		}
		m.Value = clean(strings.Clone(m.Value[:min(len(m.Value), maxMetValue)]))
	}
	return all
}

func (s *shard) evictOffence(e *offenceEntry) {
	m := e.key.in.minute
	m.offenceFloor = max(m.offenceFloor, e.upper())
	if m.evicted == nil {
		m.evicted = new(roughCounts)
	}
	m.evicted.add(e.hash, e.certain)
	if e.row && e.pending > 0 {
		s.carried = append(s.carried, takeOffence(e))
	}
	aggregate(e)
}

// aggregate moves the pending count of e to `other`.
func aggregate(e *offenceEntry) {
	if e.pending == 0 {
		return
	}
	e.key.in.other[e.key.kind].add(int64(e.pending), e.value.first.at, e.value.last.at)
	e.certain -= e.pending
	e.over += e.pending
	e.pending = 0
}

// drain adds everything since the last drain to g and to others, and forgets the minutes that
// began before closed.
func (s *shard) drain(g *pendingBatch, others *overflow, closed int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drainOffences(g, closed)
	s.drainTraffic(g, closed)
	s.requests.forgetBefore(closed - offences.KeyRequestAge.Milliseconds())
	closes := false
	for start, m := range s.minutes {
		for _, p := range m.policies {
			p.drain(g, others, start, m.bound())
		}
		if start < closed {
			closes = true
			delete(s.minutes, start)
			if s.newest == m {
				s.newest = nil
			}
		}
	}
	if closes {
		s.offences.forget()
		s.traffic.forget()
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
	var queue []*offenceEntry // entries without a row in the database
	for _, e := range s.offences.entries {
		if e.pending > 0 {
			if e.row {
				g.addOffence(takeOffence(e))
			} else {
				queue = append(queue, e)
			}
		}
	}
	s.admit(g, queue, closed)
	s.offences.drop(func(e *offenceEntry) bool { return e.key.in.minute.start < closed })
}

// admit gives rows to entries that have none, those that were refused most often first, as long as
// their minute has room. The others wait for the next drain, so that a key that goes on offending
// gets a row with all that was counted, and are moved to `other` when their minute closes.
func (s *shard) admit(g *pendingBatch, queue []*offenceEntry, closed int64) {
	slices.SortFunc(queue, func(a, c *offenceEntry) int { return cmp.Compare(seen(c), seen(a)) })
	late := s.limits.late
	left := queue[:0]
	for _, e := range queue {
		switch m := e.key.in.minute; {
		case m.rows < s.limits.rows:
		case late > 0:
			late--
		default:
			left = append(left, e)
			continue
		}
		giveRow(g, e)
	}
	if len(left) > s.limits.rare {
		s.measureCrowds()
		rarestFirst(left)
	}
	for i, e := range left {
		if i < s.limits.rare {
			giveRow(g, e)
			continue
		}
		if m := e.key.in.minute; m.start < closed {
			m.aggregatedFloor = max(m.aggregatedFloor, e.upper())
			aggregate(e)
		}
	}
}

// giveRow drains e, which has no row in the database yet.
func giveRow(g *pendingBatch, e *offenceEntry) {
	e.key.in.minute.rows++
	e.row = true
	o := takeOffence(e)
	o.Overcount = int64(e.over)
	g.addOffence(o)
}

// takeOffence returns what was counted in e since the last drain, and resets that.
func takeOffence(e *offenceEntry) offences.Offence {
	source := ""
	if e.key.source != nil {
		source = clean(*e.key.source)
	}
	o := offences.Offence{Minute: e.key.in.minute.start, Policy: e.key.in.policy, Key: e.key.key, Kind: e.key.kind, RefusedBy: e.key.refusedBy(), Source: source,
		Count: int64(e.pending), First: e.value.first.refusal(source), Last: e.value.last.refusal(source)}
	o.First.Met = e.value.met
	if o.First.At == o.Last.At {
		o.Last.Met = o.First.Met
	}
	e.pending = 0
	return o
}

// drainTraffic drains offending keys at every drain, so that their ratio of refusals is right at
// any time. Of the keys without a refusal it drains the heaviest when their minute closes, and
// before that the first, so that a client can be found while it is there. A flood of refused keys
// takes no room from the others.
func (s *shard) drainTraffic(g *pendingBatch, closed int64) {
	var ending []*trafficEntry
	for _, e := range s.traffic.entries {
		m := e.key.in.minute
		switch {
		case m.start < closed:
			ending = append(ending, e)
		case e.pending == 0:
		case e.offends:
			if e.row || m.rows < s.limits.rows {
				emitTraffic(g, e)
			}
		case !e.row && m.early < s.limits.kept:
			m.early++
			emitTraffic(g, e)
		}
	}
	slices.SortFunc(ending, func(a, c *trafficEntry) int { return cmp.Compare(c.upper(), a.upper()) })
	var kept, keptOffending int
	for _, e := range ending {
		n := &kept
		if e.offends {
			n = &keptOffending
		}
		if e.pending > 0 && (e.row || *n < s.limits.kept) {
			emitTraffic(g, e)
		}
		*n++
		e.key.in.counts.Untracked += int64(e.value.allowed)
	}
	s.traffic.drop(func(e *trafficEntry) bool { return e.key.in.minute.start < closed })
}

func emitTraffic(g *pendingBatch, e *trafficEntry) {
	over := int64(e.over)
	if e.row {
		over = 0 // it was written with the row
	}
	g.addKeyTraffic(offences.KeyTraffic{Minute: e.key.in.minute.start, Policy: e.key.in.policy, Key: e.key.key,
		Allowed: int64(e.value.allowed), Refused: int64(e.value.refused), Cost: e.value.cost, Overcount: over})
	e.row, e.pending = true, 0
	e.value = trafficValue{}
}
