package rules

import "github.com/stint-dev/stint/internal/keys"

// Selector finds the policies of a check. It is immutable and safe for use by
// many goroutines; a change of policies makes a new one. The zero value
// selects nothing.
type Selector struct {
	byName    map[string]*Policy
	byID      map[int64]*Policy
	enforcing *keys.Index[*Policy]
	shadow    *keys.Index[*Policy]
}

// NewSelector returns the selector over policies, which must not be changed
// afterwards. Policies that are off stand among the enforcing ones: a check
// that one of them selects is allowed and not passed on to a wider pattern.
// Where two enforcing policies claim one pattern, which the store refuses,
// the lower id wins.
func NewSelector(policies []*Policy) *Selector {
	s := &Selector{
		byName:    make(map[string]*Policy, len(policies)),
		byID:      make(map[int64]*Policy, len(policies)),
		enforcing: keys.NewIndex[*Policy](),
		shadow:    keys.NewIndex[*Policy](),
	}
	for _, p := range policies {
		s.byName[p.Name] = p
		s.byID[p.ID] = p
		index := s.enforcing
		if p.Mode == Shadow {
			index = s.shadow
		}
		for _, m := range p.Match {
			if known, taken := index.Get(m); !taken || p.ID < known.ID {
				index.Set(m, p)
			}
		}
	}
	return s
}

// Select returns the policy whose decision is the answer to a check of k, and
// the one that only watches; either may be nil.
func (s *Selector) Select(k keys.Key) (enforcing, shadow *Policy) {
	if s.enforcing == nil {
		return nil, nil
	}
	_, enforcing, _ = s.enforcing.Best(k)
	_, shadow, _ = s.shadow.Best(k)
	return enforcing, shadow
}

// Matched returns the patterns by which Select chose, zero where it chose none.
func (s *Selector) Matched(k keys.Key) (enforcing, shadow keys.Pattern) {
	if s.enforcing == nil {
		return enforcing, shadow
	}
	enforcing, _, _ = s.enforcing.Best(k)
	shadow, _, _ = s.shadow.Best(k)
	return enforcing, shadow
}

// ByName returns the policy of that name.
func (s *Selector) ByName(name string) (*Policy, bool) {
	p, found := s.byName[name]
	return p, found
}

// ByID returns the policy of that id.
func (s *Selector) ByID(id int64) (*Policy, bool) {
	p, found := s.byID[id]
	return p, found
}

// Policies returns all policies in no particular order.
func (s *Selector) Policies() []*Policy {
	all := make([]*Policy, 0, len(s.byName))
	for _, p := range s.byName {
		all = append(all, p)
	}
	return all
}
