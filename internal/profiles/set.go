package profiles

import (
	"hash/maphash"
	"iter"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/keys"
)

// shards is how many parts a Set has. A change copies one of them.
const shards = 1024

// Set is a node's copy of what decides of the profiles: plans and limits. It is safe for use
// by many goroutines; a look-up takes no lock and allocates nothing.
type Set struct {
	seed   maphash.Seed
	shards [shards]atomic.Pointer[map[string]*Member]
	limits atomic.Int64 // how many keys have a limit of their own, expired or not
	size   atomic.Int64

	mu    sync.Mutex // held while it changes
	plans map[string]*sharedMember
}

// sharedMember is the member with a plan and no limit, which the keys of the plan share.
type sharedMember struct {
	Member
	keys int // that have it; it is forgotten with the last
}

// Member is what decides of one profile. A nil Member has no plan and no limit.
type Member struct {
	Plan  string
	Limit *Limit
}

// LimitAt returns the key's own limit that holds at an instant, nil for none.
func (m *Member) LimitAt(now time.Time) *Limit {
	if m == nil || !m.Limit.ActiveAt(now) {
		return nil
	}
	return m.Limit
}

// NewSet returns an empty set.
func NewSet() *Set { return &Set{seed: maphash.MakeSeed(), plans: map[string]*sharedMember{}} }

func (s *Set) shardOf(key string) *atomic.Pointer[map[string]*Member] {
	return &s.shards[maphash.String(s.seed, key)%shards]
}

// Find returns what decides of the profile of k, nil for nothing.
func (s *Set) Find(k keys.Key) *Member {
	if m := s.shardOf(k.String()).Load(); m != nil {
		return (*m)[k.String()]
	}
	return nil
}

// HasLimits reports whether any key has a limit of its own.
func (s *Set) HasLimits() bool { return s.limits.Load() > 0 }

// Len returns how many keys have a plan or a limit of their own.
func (s *Set) Len() int { return int(s.size.Load()) }

// Apply takes over the newest states of profiles, in the order of their revisions, and
// returns how many there were. all may be nil. One without a plan and a limit is dropped.
func (s *Set) Apply(all iter.Seq2[*Profile, error]) (count int, err error) {
	if all == nil {
		return 0, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	copied := map[*atomic.Pointer[map[string]*Member]]map[string]*Member{}
	defer func() { // what was read before an error is as true as before
		for shard, next := range copied {
			shard.Store(&next)
		}
	}()
	for p, err := range all {
		if err != nil {
			return count, err
		}
		count++
		shard := s.shardOf(p.Key)
		next, isCopied := copied[shard]
		if !isCopied {
			if known := shard.Load(); known != nil {
				next = maps.Clone(*known)
			} else {
				next = map[string]*Member{}
			}
			copied[shard] = next
		}
		s.put(next, p)
	}
	return count, nil
}

func (s *Set) put(next map[string]*Member, p *Profile) {
	old, had := next[p.Key]
	if had && old.Limit != nil {
		s.limits.Add(-1)
	}
	m := s.memberOf(p)
	if had && old.Limit == nil {
		s.release(old.Plan)
	}
	switch {
	case m == nil && had:
		delete(next, p.Key)
		s.size.Add(-1)
	case m != nil:
		next[p.Key] = m
		if !had {
			s.size.Add(1)
		}
		if m.Limit != nil {
			s.limits.Add(1)
		}
	}
}

// memberOf returns what decides of p, nil for nothing. Keys of one plan share it, each until
// release.
func (s *Set) memberOf(p *Profile) *Member {
	switch {
	case p.Limit != nil:
		return &Member{Plan: p.Plan, Limit: p.Limit}
	case p.Plan == "":
		return nil
	}
	m, known := s.plans[p.Plan]
	if !known {
		m = &sharedMember{Member: Member{Plan: p.Plan}}
		s.plans[p.Plan] = m
	}
	m.keys++
	return &m.Member
}

// release takes a shared member from one key.
func (s *Set) release(plan string) {
	m := s.plans[plan]
	if m.keys--; m.keys == 0 {
		delete(s.plans, plan)
	}
}

// All returns every key with a plan or a limit of its own, in no particular order.
func (s *Set) All() iter.Seq2[string, *Member] {
	return func(yield func(string, *Member) bool) {
		for i := range s.shards {
			shard := s.shards[i].Load()
			if shard == nil {
				continue
			}
			for key, m := range *shard {
				if !yield(key, m) {
					return
				}
			}
		}
	}
}

// Active returns the number of limits that hold at an instant.
func (s *Set) Active(now time.Time) (count int) {
	if !s.HasLimits() {
		return 0
	}
	for _, m := range s.All() {
		if m.LimitAt(now) != nil {
			count++
		}
	}
	return count
}
