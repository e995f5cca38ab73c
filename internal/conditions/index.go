package conditions

import "math/bits"

// Index finds which of many conditions a request meets. It is immutable and safe for concurrent
// use. It searches each attribute with an Aho-Corasick automaton, whose words are the longest
// literals of the patterns. Only patterns whose literal occurs are compared, each once.
type Index struct {
	count    int // of conditions
	matchers [attributeCount]*matcher
}

// NewIndex returns the index of conditions. Find identifies them by their index in all.
func NewIndex(all []When) *Index {
	x := &Index{count: len(all)}
	for a := range x.matchers {
		m := &matcher{free: newSet(len(all))}
		used := false
		for i, w := range all {
			if len(w[a]) == 0 {
				m.free.add(i)
				continue
			}
			used = true
			for _, p := range w[a] {
				m.add(p, i)
			}
		}
		if used {
			m.compile()
			x.matchers[a] = m
		}
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
	for a, m := range x.matchers {
		if m == nil {
			continue
		}
		matched := setIn(more[:0], x.count)
		copy(matched, m.free)
		if value := r.values[a]; value != "" {
			m.match(value, matched)
		}
		if Attribute(a) == Path { //nolint:gosec // at most three
			for _, other := range r.otherPaths {
				m.match(other, matched)
			}
		}
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

// matcher finds the conditions that the value of one attribute meets.
type matcher struct {
	free     set   // conditions without patterns for this attribute
	always   []int // conditions with a pattern that has no literal and so matches every value
	patterns []ownedPattern
	words    []string // the literal of each pattern

	// class maps a byte to its column; 0 for bytes that occur in no word.
	class   [256]uint8
	classes int
	// next is indexed by state*classes + class. After compile its elements are states multiplied
	// by 2*classes, plus 1 if a word ends in that state.
	next []int32
	hits [][]int32 // by state, the patterns whose words end there
}

type ownedPattern struct {
	Pattern
	owner int
}

func (m *matcher) add(p Pattern, owner int) {
	word := p.longest()
	if word == "" {
		m.always = append(m.always, owner)
		return
	}
	m.patterns, m.words = append(m.patterns, ownedPattern{p, owner}), append(m.words, word)
}

// compile builds the automaton: first the trie of the words, then the failure links in
// breadth-first order. It stores the failure links in the table.
func (m *matcher) compile() {
	m.classes = 1
	for _, word := range m.words {
		for i := range len(word) {
			if c := &m.class[word[i]]; *c == 0 {
				*c = uint8(m.classes) //nolint:gosec // UTF-8 has fewer than 255 different bytes without control characters
				m.classes++
			}
		}
	}
	m.addState()
	for i, word := range m.words {
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

// match adds the conditions that value meets to matched. It compares each pattern at most once,
// and no pattern of a condition that is already in matched.
func (m *matcher) match(value string, matched set) {
	for _, i := range m.always {
		matched.add(i)
	}
	if len(m.patterns) == 0 {
		return
	}
	var room [roomForSet]uint64
	var compared set
	state := int32(0)
	for i := range len(value) {
		state = m.next[int(state>>1)+int(m.class[value[i]])]
		if state&1 == 0 {
			continue
		}
		for _, hit := range m.hits[int(state>>1)/m.classes] {
			p := &m.patterns[hit]
			if compared == nil {
				compared = setIn(room[:0], len(m.patterns))
			}
			if compared.has(int(hit)) || matched.has(p.owner) {
				continue
			}
			compared.add(int(hit))
			if p.matches(value) {
				matched.add(p.owner)
			}
		}
	}
}
