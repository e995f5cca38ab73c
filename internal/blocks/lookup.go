package blocks

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/paging"
)

// Selecting returns every active entry of a kind that selects k, the most specific first.
func (s *Set) Selecting(kind Kind, k keys.Key, now time.Time) []*Entry {
	var found []*Entry
	for _, at := range s.index.Matching(k) {
		if e := at.of(kind); e != nil && e.ActiveAt(now) {
			found = append(found, e)
		}
	}
	return found
}

// SelectingScoped returns every active block with a scope or an action that selects k, sorted by
// both. The rows of lists in shadow mode and of those for attacks are none.
func (s *Set) SelectingScoped(k keys.Key, now time.Time) []*Entry {
	var found []*Entry
	scopes := s.Scopes()
	for _, scope := range slices.Sorted(maps.Keys(scopes)) {
		if scope == ShadowScope || scope == AttackScope {
			continue
		}
		found = append(found, scopes[scope].Selecting(Block, k, now)...)
	}
	return found
}

// AllScoped iterates over every active block with a scope.
func (s *Set) AllScoped(now time.Time) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for _, scoped := range s.Scopes() {
			for e := range scoped.All(Block, now) {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// Of returns the active entry of a kind with exactly this pattern, nil if there is none.
func (s *Set) Of(kind Kind, p keys.Pattern, now time.Time) *Entry {
	at, _ := s.index.Get(p)
	if e := at.of(kind); e != nil && e.ActiveAt(now) {
		return e
	}
	return nil
}

// All iterates over every active entry of a kind. The set may be changed inside the loop; see
// keys.Index.All.
func (s *Set) All(kind Kind, now time.Time) iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		if kind == Exemption {
			s.eachExemption(now, yield)
			return
		}
		for _, at := range s.index.All() {
			if b := at.block; b != nil && b.ActiveAt(now) && !yield(b) {
				return
			}
		}
	}
}

// Find returns a page of the active entries that a filter selects, as a store does. The filter's
// State and Key are ignored.
func (s *Set) Find(f Filter) (page paging.Page[*Entry], err error) {
	limit, err := paging.Limit(f.Limit)
	if err != nil {
		return page, err
	}
	var after Position
	if f.Cursor != "" {
		if after, err = ParsePosition(f.Cursor, f.Order); err != nil {
			return page, err
		}
	}
	before := func(a, b Position) int { return strings.Compare(b.ID, a.ID) } // ids sort by creation
	if f.Order == ByExpiry {
		before = func(a, b Position) int { return cmp.Or(cmp.Compare(a.Expires, b.Expires), strings.Compare(a.ID, b.ID)) }
	}
	for _, kind := range Kinds {
		if f.Kind != "" && f.Kind != kind {
			continue
		}
		for _, all := range []iter.Seq[*Entry]{s.All(kind, f.At), s.scoped(kind, f.At)} {
			for e := range all {
				if !f.selects(e) {
					continue
				}
				page.Total++
				at := PositionOf(e)
				if f.Cursor != "" && before(at, after) <= 0 || len(page.Items) > limit && before(at, PositionOf(page.Items[limit])) >= 0 {
					continue
				}
				place, _ := slices.BinarySearchFunc(page.Items, at, func(e *Entry, at Position) int { return before(PositionOf(e), at) })
				page.Items = slices.Insert(page.Items[:min(len(page.Items), limit)], place, e)
			}
		}
	}
	if len(page.Items) > limit { // one more, to know whether another page follows
		page.Items = page.Items[:limit]
		page.Next = PositionOf(page.Items[limit-1]).Cursor(f.Order)
	}
	if f.Uncounted {
		page.Total = 0
	}
	return page, nil
}

// scoped iterates over the active entries of a kind with a scope.
func (s *Set) scoped(kind Kind, now time.Time) iter.Seq[*Entry] {
	if kind == Exemption {
		return func(func(*Entry) bool) {}
	}
	return s.AllScoped(now)
}

// selects reports whether a filter selects an active entry of its kind.
func (f *Filter) selects(e *Entry) bool {
	switch {
	case e.Source == Listed && f.HidesLists():
		return false
	case f.Holder != "" && e.Author != f.Holder:
		return false // a set knows no other names
	case f.Source != "" && e.Source != f.Source, f.Author != "" && e.Author != f.Author:
		return false
	case !f.Within.IsZero() && !f.Within.Covers(e.Pattern):
		return false
	}
	search := strings.ToLower(f.Search)
	return search == "" || strings.Contains(strings.ToLower(e.Pattern.String()), search) || strings.Contains(strings.ToLower(e.Reason), search)
}

func (s *Set) eachExemption(now time.Time, yield func(*Entry) bool) {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.exemptions))
	s.mu.Unlock()
	for _, e := range all {
		if e.ActiveAt(now) && !yield(e) {
			return
		}
	}
}

// Overlapping returns up to limit active entries of a kind that select a key which p also
// selects. It examines every entry, so it is for operators and not for checks.
func (s *Set) Overlapping(kind Kind, p keys.Pattern, now time.Time, limit int) []*Entry {
	var found []*Entry
	for e := range s.All(kind, now) {
		if len(found) == limit {
			break
		}
		if keys.Overlap(p, e.Pattern) {
			found = append(found, e)
		}
	}
	return found
}

// Origins counts the patterns of active and recently expired entries, including those with a
// scope, that select addresses by their origin.
func (s *Set) Origins() keys.OriginCount {
	n := s.index.Origins()
	for _, scoped := range s.Scopes() {
		n = n.Plus(scoped.index.Origins())
	}
	return n
}

// CountBySource returns the number of active blocks, including those with a scope, by source. Its
// cost grows only with the number of blocks that have expired since the last Sweep.
func (s *Set) CountBySource(now time.Time) map[Source]int {
	s.mu.Lock()
	counts := maps.Clone(s.bySource)
	for b := range s.expiredBlocks(now) {
		counts[b.Source]--
	}
	s.mu.Unlock()
	for _, scoped := range s.Scopes() {
		for source, n := range scoped.CountBySource(now) {
			counts[source] += n
		}
	}
	maps.DeleteFunc(counts, func(_ Source, n int) bool { return n == 0 })
	return counts
}

// CountOfPolicy returns the number of active blocks, including those with a scope, that the escalation
// of a policy made. It looks at every block.
func (s *Set) CountOfPolicy(policy int64, now time.Time) (n int) {
	for _, all := range []iter.Seq[*Entry]{s.All(Block, now), s.AllScoped(now)} {
		for b := range all {
			if b.PolicyID == policy {
				n++
			}
		}
	}
	return n
}

// Count returns the number of entries that f selects, without looking at each; known is false if
// that takes more than the sources of the active blocks.
func (s *Set) Count(f *Filter) (n int, known bool) {
	isActive := f.State == "" || f.State == "active"
	if f.Kind != Block || !isActive || f.Holder != "" || f.Author != "" || f.Search != "" || !f.Key.IsZero() || !f.Within.IsZero() {
		return 0, false
	}
	for source, of := range s.CountBySource(f.At) {
		if (f.Source == "" || f.Source == source) && !(source == Listed && f.HidesLists()) {
			n += of
		}
	}
	return n, true
}

// expiredBlocks returns the blocks that are still in the set although they have expired. The
// caller must hold s.mu.
func (s *Set) expiredBlocks(now time.Time) map[*Entry]bool {
	found := map[*Entry]bool{}
	// In a heap, an expired entry is never below one that has not expired.
	for next := []int{0}; len(next) > 0; {
		i := next[len(next)-1]
		next = next[:len(next)-1]
		if i >= len(s.expiring) || !s.expiring[i].ExpiredAt(now) {
			continue
		}
		e := s.expiring[i]
		if at, _ := s.index.Get(e.Pattern); at.block == e {
			found[e] = true
		}
		next = append(next, 2*i+1, 2*i+2)
	}
	return found
}
