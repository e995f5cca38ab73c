package blocks

import (
	"container/heap"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/keys"
)

// Set is a node's copy of the active entries, matched in memory. It is safe for
// use by many goroutines. Blocks that have a scope are found by MatchIn and
// SelectingScoped only: what enforces blocks without knowing scopes, as firewalls and
// bouncers do, never sees them.
type Set struct {
	index *keys.Index[slot]

	mu     sync.Mutex // held while index changes, never by a look-up
	blocks int        // in index
	// bySource are the numbers of those blocks by their source.
	bySource map[Source]int
	// exemptions are those in index, to range over them without looking at all
	// blocks.
	exemptions map[keys.Pattern]*Entry
	// expiring holds what will expire, and what has been replaced since.
	expiring expiryHeap
	// ended remembers entries that were ended or swept lately, so that an older
	// state of one that arrives late does not bring it back.
	ended map[string]ending
	// scopes are the blocks of each scope, nil for none, as sets of their own. The map is
	// replaced and never changed.
	scopes atomic.Pointer[map[string]*Set]
}

// slot holds the active entries of one pattern, nil where there is none.
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

// maxDelay is how long an older state may take to reach this node.
const maxDelay = time.Minute

// NewSet returns an empty set.
func NewSet() *Set {
	return &Set{index: keys.NewIndex[slot](), bySource: map[Source]int{}, exemptions: map[keys.Pattern]*Entry{}, ended: map[string]ending{}}
}

// Apply takes over the newest state of an entry: it is kept while it is active
// at now, and dropped otherwise. e must not be changed afterwards. States that
// arrive out of order, at most a minute late, are ordered by their revision.
func (s *Set) Apply(e *Entry, now time.Time) {
	if e.Scope != "" {
		s.ofScope(e.Scope).apply(e, now)
		return
	}
	s.apply(e, now)
}

// ofScope returns the set of the blocks of a scope, and makes it first if need be.
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

// inScope returns the set of the blocks of a scope, nil for none.
func (s *Set) inScope(scope string) *Set {
	if known := s.scopes.Load(); known != nil {
		return (*known)[scope]
	}
	return nil
}

// Scopes returns the sets of the blocks that have a scope, by their scopes. It must not be
// changed.
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

// put keeps next, which may be nil, in the place of e's pattern and kind, which
// hold at now.
func (s *Set) put(at slot, e, next *Entry) {
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
	} else {
		s.index.Set(e.Pattern, at)
	}
}

// count adds n for a block, which may be nil.
func (s *Set) count(b *Entry, n int) {
	if b != nil {
		s.blocks += n
		s.bySource[b.Source] += n
	}
}

func (s *Set) noteEnd(e *Entry, now time.Time) {
	if e.Revision >= s.ended[e.ID].revision {
		s.ended[e.ID] = ending{e.Revision, now}
	}
}

// noteExpiry notes when e expires. When most of the notes are about replaced or
// ended entries, they are rebuilt, so that they stay in proportion to the active
// ones.
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

// Sweep drops the entries that have expired at now, to give their memory back, at
// a cost that grows only with their number. Nothing depends on it: an expired
// block refuses no request.
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

// Size returns the number of entries of a kind that are kept, expired ones that
// have not been swept included.
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

// expiryHeap is a heap of entries, the soonest expiry first.
type expiryHeap []*Entry

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(i, j int) bool { return h[i].Expires.Before(h[j].Expires) }
func (h expiryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push is for package heap.
func (h *expiryHeap) Push(x any) { *h = append(*h, x.(*Entry)) }

// Pop is for package heap.
func (h *expiryHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return e
}
