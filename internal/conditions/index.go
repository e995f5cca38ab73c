package conditions

import (
	"math/bits"
	"slices"
	"strings"
)

// Index finds which of many conditions a request meets. It is immutable and safe for concurrent
// use. It searches each attribute with an Aho-Corasick automaton, whose words are the longest
// literals of the globs, in lower case. Only globs whose literal occurs are compared, each once for
// a reading, however many conditions and lists contain it.
type Index struct {
	count    int // of conditions
	matchers []*matcher
}

// NewIndex returns the index of conditions. Find identifies them by their index in all.
func NewIndex(all []When) *Index {
	x := &Index{count: len(all)}
	var attributes []Attribute
	for _, w := range all {
		for _, g := range w {
			if !slices.Contains(attributes, g.attribute) {
				attributes = append(attributes, g.attribute)
			}
		}
	}
	slices.SortFunc(attributes, Attribute.compare)
	for _, a := range attributes {
		b := builder{m: &matcher{attribute: a, free: newSet(len(all)), onlyNot: newSet(len(all))}, tests: map[string]int32{}, globs: map[globKey]int{}}
		for i, w := range all {
			patterns := w.of(a)
			if len(patterns) == 0 {
				b.m.free.add(i)
				continue
			}
			if !slices.ContainsFunc(patterns, func(p Pattern) bool { return !p.isNot }) {
				b.m.onlyNot.add(i)
			}
			for _, p := range patterns {
				b.add(p, i)
			}
		}
		b.compile()
		if a == Agent {
			b.m.agents = newAgentCache()
		}
		x.matchers = append(x.matchers, b.m)
	}
	return x
}

// Find calls found with the index of each condition that r meets, in ascending order.
func (x *Index) Find(r *Request, found func(i int)) {
	if x == nil || x.count == 0 || r == nil {
		return
	}
	var room, more [roomForSet]uint64
	met := setIn(room[:0], x.count)
	for i := range met {
		met[i] = ^uint64(0)
	}
	matched := setIn(more[:0], x.count)
	for _, m := range x.matchers {
		copy(matched, m.free)
		m.find(r, matched)
		any := uint64(0)
		for i := range met {
			met[i] &= matched[i]
			any |= met[i]
		}
		if any == 0 {
			return
		}
	}
	for i, word := range met {
		for ; word != 0; word &= word - 1 {
			if at := 64*i + bits.TrailingZeros64(word); at < x.count {
				found(at)
			}
		}
	}
}

// set is a set of small numbers.
type set []uint64

const roomForSet = 8 // words that need no allocation: 512 members

func newSet(n int) set { return make(set, (n+63)/64) }

// setIn returns an empty set for n members, which uses room if that is large enough.
func setIn(room []uint64, n int) set {
	if words := (n + 63) / 64; words <= cap(room) {
		s := room[:words]
		clear(s)
		return s
	}
	return newSet(n)
}

func (s set) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s set) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }

// matcher finds the conditions whose patterns of one attribute a request meets.
type matcher struct {
	attribute Attribute
	free      set // conditions without patterns for this attribute
	onlyNot   set // conditions whose patterns for this attribute all have "not"
	// tests are the different patterns without their "not".
	tests  []test
	always []int32 // tests with a glob that has no literal and so matches every value
	globs  []indexedGlob
	isSent bool        // some globs are also compared with what was sent
	hasNot bool        // some condition has a pattern with "not"
	agents *agentCache // nil for other attributes

	// class maps a byte to its column; 0 for bytes that occur in no word. A letter has the column
	// of its lower case.
	class   [256]uint8
	classes int
	// next is indexed by state*classes + class. After compile its elements are states multiplied
	// by 2*classes, plus 1 if a word ends in that state.
	next []int32
	hits [][]int32 // by state, the globs whose words end there
}

// test has the conditions that contain a pattern, and those that contain it with "not".
type test struct{ meets, excludes []int }

type indexedGlob struct {
	glob
	tests []int32
}

// outcome has the conditions that a value meets, and those that it excludes.
type outcome struct{ met, excluded set }

func (o outcome) add(t test) {
	for _, i := range t.meets {
		o.met.add(i)
	}
	for _, i := range t.excludes {
		o.excluded.add(i)
	}
}

// builder collects the different patterns and globs of an attribute.
type builder struct {
	m     *matcher
	tests map[string]int32 // by the text without "not"
	globs map[globKey]int
}

type globKey struct {
	text                string
	ignoresCase, isSent bool
}

func (b *builder) add(p Pattern, condition int) {
	text := strings.TrimPrefix(p.text, notPrefix)
	at, known := b.tests[text]
	if !known {
		at = int32(len(b.m.tests)) //nolint:gosec // far fewer patterns
		b.m.tests = append(b.m.tests, test{})
		b.tests[text] = at
		for _, g := range p.globs {
			b.addGlob(g, at)
		}
	}
	of := &b.m.tests[at].meets
	if p.isNot {
		of, b.m.hasNot = &b.m.tests[at].excludes, true
	}
	*of = append(*of, condition)
}

func (b *builder) addGlob(g glob, of int32) {
	if g.longest() == "" {
		b.m.always = append(b.m.always, of)
		return
	}
	key := globKey{g.text, g.ignoresCase, g.isSent}
	at, known := b.globs[key]
	if !known {
		at = len(b.m.globs)
		b.m.globs, b.globs[key] = append(b.m.globs, indexedGlob{glob: g}), at
		b.m.isSent = b.m.isSent || g.isSent
	}
	b.m.globs[at].tests = append(b.m.globs[at].tests, of)
}

// compile builds the automaton: first the trie of the words, then the failure links in
// breadth-first order. It stores the failure links in the table.
func (b *builder) compile() {
	m := b.m
	words := make([]string, len(m.globs))
	m.classes = 1
	for i := range m.globs {
		words[i] = lower(m.globs[i].longest())
		for j := range len(words[i]) {
			if c := &m.class[words[i][j]]; *c == 0 {
				*c = uint8(m.classes) //nolint:gosec // UTF-8 has fewer than 255 different bytes without control characters
				m.classes++
			}
		}
	}
	for c := byte('A'); c <= 'Z'; c++ {
		m.class[c] = m.class[c+'a'-'A']
	}
	m.addState()
	for i, word := range words {
		state := int32(0)
		for j := range len(word) {
			at := int(state)*m.classes + int(m.class[word[j]])
			if m.next[at] == 0 {
				m.next[at] = m.addState()
			}
			state = m.next[at]
		}
		m.hits[state] = append(m.hits[state], int32(i)) //nolint:gosec // far fewer patterns
	}
	failure := make([]int32, len(m.hits))
	queue := []int32{}
	for c := range m.classes {
		if s := m.next[c]; s != 0 {
			queue = append(queue, s)
		}
	}
	for len(queue) > 0 {
		state := queue[0]
		queue = queue[1:]
		m.hits[state] = append(m.hits[state], m.hits[failure[state]]...)
		for c := range m.classes {
			at, fallback := int(state)*m.classes+c, m.next[int(failure[state])*m.classes+c]
			if s := m.next[at]; s != 0 {
				failure[s] = fallback
				queue = append(queue, s)
			} else {
				m.next[at] = fallback
			}
		}
	}
	for i, state := range m.next {
		if m.next[i] = state * int32(m.classes) * 2; len(m.hits[state]) > 0 { //nolint:gosec // at most 256
			m.next[i]++
		}
	}
}

func (m *matcher) addState() int32 {
	m.next, m.hits = append(m.next, make([]int32, m.classes)...), append(m.hits, nil)
	return int32(len(m.hits) - 1) //nolint:gosec // bounded by the number of patterns and their length
}

// find adds the conditions whose patterns r meets to matched, which has the conditions that are free; see
// firstMet.
func (m *matcher) find(r *Request, matched set) {
	if m.agents == nil || len(r.values[Agent.index]) > MaxAgent {
		m.search(r, matched)
		return
	}
	agent := r.values[Agent.index]
	met, place, hash := m.agents.find(agent)
	if met != nil {
		copy(matched, met)
		return
	}
	m.search(r, matched)
	place.notice(agent, hash, matched)
}

// search is find without what is remembered.
func (m *matcher) search(r *Request, matched set) {
	a, of := m.attribute, outcome{met: matched}
	switch {
	case m.isSent || m.hasNot:
		m.findExcluding(r, matched)
	case a.isNamed():
		values, _ := r.valuesOf(a)
		for _, value := range values {
			m.match(lower(value), false, of)
		}
	case r.values[a.index] != "":
		m.match(r.values[a.index], false, of)
		if a == Path {
			for _, other := range r.otherPaths {
				m.match(other, false, of)
			}
		}
	}
}

// findExcluding does the same with one set for what was sent and one for each reading.
func (m *matcher) findExcluding(r *Request, matched set) {
	var room [4][roomForSet]uint64
	members := 64 * len(matched)
	sent := outcome{setIn(room[0][:0], members), setIn(room[1][:0], members)}
	if m.isSent {
		for _, target := range r.sent() {
			m.match(target, true, sent)
		}
	}
	of := outcome{setIn(room[2][:0], members), setIn(room[3][:0], members)}
	for reading := range r.readings(m.attribute) {
		copy(of.met, sent.met)
		copy(of.excluded, sent.excluded)
		m.match(reading, false, of)
		for i := range matched {
			matched[i] |= (of.met[i] | m.onlyNot[i]) &^ of.excluded[i]
		}
	}
}

// match adds what the globs that value matches say to of: of those that are compared with what was
// sent, if value is that, and else of all.
func (m *matcher) match(value string, isSent bool, of outcome) {
	switch value {
	case missing:
		return
	case tooMany:
		for _, t := range m.tests {
			of.add(test{meets: t.meets})
		}
		for _, i := range m.always { // it is not missing
			of.add(m.tests[i])
		}
		return
	}
	for _, i := range m.always {
		of.add(m.tests[i])
	}
	if len(m.globs) == 0 {
		return
	}
	state := int32(0)
	for i := range len(value) {
		if state = m.next[int(state>>1)+int(m.class[value[i]])]; state&1 != 0 {
			m.compare(value, i, state, isSent, of)
			return
		}
	}
}

// compare goes on with match at a byte of value, whose state is the first in which a word ends. It
// compares each glob at most once.
func (m *matcher) compare(value string, at int, state int32, isSent bool, of outcome) {
	var room [4 * roomForSet]uint64
	compared, low := setIn(room[:0], len(m.globs)), lower(value)
	for {
		if state&1 != 0 {
			for _, hit := range m.hits[int(state>>1)/m.classes] {
				g := &m.globs[hit]
				if isSent && !g.isSent || compared.has(int(hit)) {
					continue
				}
				compared.add(int(hit))
				if g.matches(value) || g.ignoresCase && g.matches(low) {
					for _, t := range g.tests {
						of.add(m.tests[t])
					}
				}
			}
		}
		if at++; at == len(value) {
			return
		}
		state = m.next[int(state>>1)+int(m.class[value[at]])]
	}
}
