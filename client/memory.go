package client

import (
	"crypto/sha256"
	"strings"
	"sync"
	"time"
)

const (
	// longestMemory bounds how long a refusal is served without asking: as long
	// as a node of Stint may not know that a block was ended or a key reset.
	longestMemory = 2 * time.Second
	// memoryMargin is how much earlier a refusal ends, since Stint rounds to the
	// millisecond.
	memoryMargin = 2 * time.Millisecond
)

// memory remembers refusals, so that a key which goes on asking is refused
// without a call. A nil *memory remembers nothing.
//
// Until its RetryAt a refused request is refused whatever else comes, unless an
// operator changes something or a reservation is cancelled. How long ago the answer
// came is measured by this machine's steady clock: a refusal is served until its
// end, counted from when its check was sent, and its wait is counted from when its answer
// came. So no request is refused too long, and no wait is too short.
type memory struct {
	mu sync.Mutex
	// young is filled until it holds half of what may be remembered, and then
	// becomes old: whatever is of use is young, since all is over within 2 s.
	young, old map[memoryKey]refusal
	half       int
	// hasDigests says whether a refusal of some requests only was ever remembered.
	hasDigests bool
	// epoch counts how often all was forgotten.
	epoch uint64
}

type memoryKey struct {
	policy, key string
	cost        int
	request     digest // zero for a refusal of all requests of the key
}

// digest is the hash of a request: clients choose its texts, and many long ones would take
// any amount of memory.
type digest [sha256.Size]byte

func digestOf(r Request) digest {
	h := sha256.New()
	cut := r.cut()
	for _, text := range []string{cut.Path, cut.Method, cut.Agent, cut.Host, cut.Scope} {
		_, _ = h.Write(append([]byte(text), 0)) // which no text holds
	}
	return digest(h.Sum(nil))
}

type refusal struct {
	decision *Decision
	until    time.Time // served before it
	end      time.Time // of the wait; zero: never
}

func newMemory(size int) *memory {
	if size == 0 {
		return nil
	}
	return &memory{young: map[memoryKey]refusal{}, half: (size + 1) / 2}
}

// keyOf returns what q is remembered by. Questions that would not be answered
// alike the next time are not remembered: peeks, those that would wait, those that
// may have been charged before, and those that are charged although they are refused. A
// refusal that may be about the values of a question is not remembered either; see remember.
func keyOf(q *Check) (memoryKey, bool) {
	return memoryKey{q.Policy, q.Key, max(q.Cost, 1), digest{}}, !q.Peek && q.MaxWait == 0 && q.Hold == 0 && q.IdempotencyKey == "" && q.Charge == "" && q.Pass == ""
}

// lookUp returns the refusal that q would have, nil if it must be asked
// for. seen is to be handed to remember with the answer.
func (m *memory) lookUp(q *Check) (seen uint64, known *Decision) {
	if m == nil {
		return 0, nil
	}
	key, memorable := keyOf(q)
	now := time.Now()
	seen, known, mayBe := m.lookUpKey(key, now, memorable && !q.Fresh)
	if known != nil || !mayBe || q.Request.isZero() || len(q.Values) > 0 {
		return seen, known
	}
	key.request = digestOf(q.Request) // without mu: it may be long
	_, known, _ = m.lookUpKey(key, now, true)
	return seen, known
}

// lookUpKey returns what is known of a key, and whether refusals of some of its requests may
// be. It only says what was seen where it may not be served.
func (m *memory) lookUpKey(key memoryKey, now time.Time, serve bool) (seen uint64, known *Decision, mayBe bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !serve {
		return m.epoch, nil, false
	}
	if r, found := m.find(key, now); found {
		return m.epoch, r.at(now), false
	}
	return m.epoch, nil, m.hasDigests
}

// find returns the refusal that is served under key, with mu held.
func (m *memory) find(key memoryKey, now time.Time) (refusal, bool) {
	r, found := m.young[key]
	if !found {
		r, found = m.old[key]
	}
	return r, found && now.Before(r.until)
}

// copied returns a copy, nil of nil.
func copied(b *Block) *Block {
	if b == nil {
		return nil
	}
	own := *b
	return &own
}

// at returns the refusal as a decision at now.
func (r refusal) at(now time.Time) *Decision {
	d := *r.decision
	d.FromCache, d.Rules, d.Shadow = true, nil, nil
	d.Block = copied(d.Block) // the caller may change it
	if !r.end.IsZero() {
		d.RetryAfter = r.end.Sub(now)
	}
	return &d
}

// endsEarlier reports whether a refusal by a rule may end before its RetryAt, because somebody settles a
// hold or points are forgiven: it limits what is concurrent, amounts or points, as in "16 concurrent" and
// "1M tokens/1d".
func endsEarlier(rule string) bool {
	count, _, _ := strings.Cut(rule, "/")
	return strings.Contains(count, " ")
}

// remember keeps a refusal whose question was sent at that time, unless all was
// forgotten since.
func (m *memory) remember(q *Check, d *Decision, sent time.Time, seen uint64) {
	if m == nil || d.Allowed || d.Degraded || d.Outcome == Unavailable || endsEarlier(d.Rule) {
		return
	}
	key, memorable := keyOf(q)
	if !memorable {
		return
	}
	if d.Conditional {
		if len(q.Values) > 0 {
			return
		}
		key.request = digestOf(q.Request)
	}
	own := *d // the caller may change the one that it gets
	own.Block = copied(d.Block)
	r := refusal{decision: &own, until: sent.Add(longestMemory)}
	if d.RetryAfter != Never {
		r.end = time.Now().Add(d.RetryAfter)
		if end := sent.Add(d.RetryAfter - memoryMargin); end.Before(r.until) {
			r.until = end
		}
	}
	// A caller's string may lie in a buffer that is used again.
	key.key, key.policy = strings.Clone(key.key), strings.Clone(key.policy)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.epoch != seen {
		return
	}
	if len(m.young) >= m.half {
		m.young, m.old = make(map[memoryKey]refusal, m.half), m.young
	}
	m.young[key] = r
	m.hasDigests = m.hasDigests || key.request != digest{}
}

// forgetAll forgets every refusal, and those whose answers are on the way.
func (m *memory) forgetAll() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.young, m.old = map[memoryKey]refusal{}, nil
	m.epoch++
}
