package blocks

import (
	"cmp"
	"container/heap"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/keys"
)

// Set is a node's copy of the active entries, matched in memory. It is safe for concurrent use.
// Only MatchIn, Challenging, the counts and the methods with Scope in their names find blocks with a
// scope and blocks that challenge: code that enforces blocks without knowing either, such as firewalls
// and most bouncers, never gets them.
type Set struct {
	index *keys.Index[slot]

	mu     sync.Mutex // held while index changes; look-ups do not need it
	blocks int        // number of blocks in index
	// bySource is the number of those blocks by source.
	bySource map[Source]int
	// exemptions has the exemptions in index, so that they can be listed without examining all
	// blocks.
	exemptions map[keys.Pattern]*Entry
	// exempted is the number of those exemptions by the kind of their pattern, such as "bot". The map is
	// replaced and never changed.
	exempted atomic.Pointer[map[string]int]
	// expiring has the entries that will expire, and some that have been replaced since.
	expiring expiryHeap
	// ended has the entries that were ended or swept recently, so that an older state of such an
	// entry that arrives late does not bring it back.
	ended map[string]ending
	// scopes has the blocks of each scope, and those that challenge, as a set of their own, by
	// Entry.place; nil if there are none. The map is replaced and never changed.
	scopes atomic.Pointer[map[string]*Set]
}

// slot holds the active entries of one pattern, nil if there is none.
type slot struct{ block, exemption *Entry }

func (s slot) of(kind Kind) *Entry {
	if kind == Exemption {
		return s.exemption
	}
	return s.block
}

func (s slot) with(kind Kind, e *Entry) slot {
	if kind == Exemption {
		s.exemption = e
	} else {
		s.block = e
	}
	return s
}

type ending struct {
	revision int64
	at       time.Time
}

// maxDelay is how late an older state may arrive at this node.
const maxDelay = time.Minute

// NewSet returns an empty set.
func NewSet() *Set {
	return &Set{index: keys.NewIndex[slot](), bySource: map[Source]int{}, exemptions: map[keys.Pattern]*Entry{}, ended: map[string]ending{}}
}

// Apply applies the newest state of an entry: it stores an entry that is active at now, and
// removes it otherwise. e must not be changed afterwards. States may arrive out of order, up to a
// minute late: the revision decides which one is newer.
func (s *Set) Apply(e *Entry, now time.Time) {
	if place := e.place(); place != "" {
		s.ofScope(place).apply(e, now)
		return
	}
	s.apply(e, now)
}

// ofScope returns the set of the blocks of a scope, and creates it if needed.
func (s *Set) ofScope(scope string) *Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.inScope(scope); found != nil {
		return found
	}
	all := map[string]*Set{scope: NewSet()}
	if known := s.scopes.Load(); known != nil {
		maps.Copy(all, *known)
	}
	s.scopes.Store(&all)
	return all[scope]
}

// inScope returns the set of the blocks of a scope, nil if there is none.
func (s *Set) inScope(scope string) *Set {
	if known := s.scopes.Load(); known != nil {
		return (*known)[scope]
	}
	return nil
}

// Scopes returns the sets of the blocks with a scope or an action, by Entry.place. The map must not be changed.
func (s *Set) Scopes() map[string]*Set {
	if known := s.scopes.Load(); known != nil {
		return *known
	}
	return nil
}

func (s *Set) apply(e *Entry, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, _ := s.index.Get(e.Pattern)
	known := at.of(e.Kind)
	if !e.ActiveAt(now) {
		s.noteEnd(e, now)
		if known != nil && known.ID == e.ID && known.Revision <= e.Revision {
			s.put(at, e, nil)
		}
		return
	}
	if end, gone := s.ended[e.ID]; gone && end.revision >= e.Revision {
		return
	}
	if known != nil && known.Revision > e.Revision && (known.ID == e.ID || known.ActiveAt(now)) {
		return
	}
	s.put(at, e, e)
	if !e.Expires.IsZero() {
		s.noteExpiry(e)
	}
}

// put stores next, which may be nil, for e's pattern and kind. at is the present slot of the
// pattern.
func (s *Set) put(at slot, e, next *Entry) {
	if e.Kind == Exemption {
		s.countExempted(e.Pattern, at.exemption, next)
	}
	switch {
	case e.Kind == Exemption && next == nil:
		delete(s.exemptions, e.Pattern)
	case e.Kind == Exemption:
		s.exemptions[e.Pattern] = next
	default:
		s.count(at.block, -1)
		s.count(next, 1)
	}
	if at = at.with(e.Kind, next); at == (slot{}) {
		s.index.Delete(e.Pattern)
	} else { // with the pattern of an entry that stays
		s.index.SetShared(&cmp.Or(next, at.block, at.exemption).Pattern, at)
	}
}

// count adds n to the numbers of blocks for b, unless b is nil.
func (s *Set) count(b *Entry, n int) {
	if b != nil {
		s.blocks += n
		s.bySource[b.Source] += n
	}
}

// countExempted changes the number of exemptions for one pattern, of which before becomes next.
func (s *Set) countExempted(p keys.Pattern, before, next *Entry) {
	if (before == nil) == (next == nil) {
		return
	}
	all := map[string]int{}
	if known := s.exempted.Load(); known != nil {
		maps.Copy(all, *known)
	}
	kind, _, _ := strings.Cut(p.String(), ":")
	if all[kind]++; next == nil {
		all[kind] -= 2
	}
	if all[kind] == 0 {
		delete(all, kind)
	}
	s.exempted.Store(&all)
}

// Exempts reports whether an exemption is for keys of a kind, such as bot.
func (s *Set) Exempts(kind string) bool {
	known := s.exempted.Load()
	return known != nil && (*known)[kind] > 0
}

func (s *Set) noteEnd(e *Entry, now time.Time) {
	if e.Revision >= s.ended[e.ID].revision {
		s.ended[e.ID] = ending{e.Revision, now}
	}
}

// noteExpiry adds e to expiring. If most elements of expiring have been replaced or ended, it is
// rebuilt, so that its size stays proportional to the number of active entries.
func (s *Set) noteExpiry(e *Entry) {
	heap.Push(&s.expiring, e)
	const slack = 1024
	if len(s.expiring) <= 2*(s.blocks+len(s.exemptions))+slack {
		return
	}
	s.expiring = s.expiring[:0]
	for _, at := range s.index.All() {
		for _, active := range []*Entry{at.block, at.exemption} {
			if active != nil && !active.Expires.IsZero() {
				s.expiring = append(s.expiring, active)
			}
		}
	}
	heap.Init(&s.expiring)
}

// Sweep removes the expired entries to free their memory. Its cost grows only with their number.
// Correctness does not depend on it: an expired block refuses no request.
func (s *Set) Sweep(now time.Time) {
	for _, scoped := range s.Scopes() {
		scoped.Sweep(now)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.expiring) > 0 && !s.expiring[0].Expires.After(now) {
		e := heap.Pop(&s.expiring).(*Entry)
		if at, _ := s.index.Get(e.Pattern); at.of(e.Kind) == e {
			s.put(at, e, nil)
			s.noteEnd(e, now)
		}
	}
	for id, end := range s.ended {
		if now.Sub(end.at) > maxDelay {
			delete(s.ended, id)
		}
	}
}

// Size returns the number of entries of a kind in the set, including expired ones that have not
// been swept.
func (s *Set) Size(kind Kind) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kind == Exemption {
		return len(s.exemptions)
	}
	size := s.blocks
	for _, scoped := range s.Scopes() {
		size += scoped.Size(kind)
	}
	return size
}

// expiryHeap is a heap of entries with the earliest expiry first.
type expiryHeap []*Entry

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(i, j int) bool { return h[i].Expires.Before(h[j].Expires) }
func (h expiryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *expiryHeap) Push(x any) { *h = append(*h, x.(*Entry)) }

// Pop implements heap.Interface.
func (h *expiryHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return e
}
