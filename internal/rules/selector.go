package rules

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/keys"
)

// Selector finds the policies of a check. But for what Notice counts, it is immutable. It is safe for concurrent use. A change
// of policies makes a new one. The zero value selects nothing.
type Selector struct {
	byName    map[string]*Policy
	byID      map[int64]*Policy
	drafts    map[string]*Policy // by the name of their policy
	enforcing role
	shadow    role
	// plans reports whether any policy selects by plan.
	plans bool
	// conditional are the policies with conditions that are not off, by id, and met
	// is the index of their conditions.
	conditional []*Policy
	met         *conditions.Index
	// distinct are the policies with distinct rules that have neither conditions nor an outcome
	// and are not off, by id, and those for attacks without conditions.
	distinct []*Policy
	// pathPolicy is the name of a policy that applies by the path of requests, "" for none.
	pathPolicy string
	// enforces reports whether any policy enforces rules, and counting is the name of one that is in
	// shadow mode, "" for none.
	enforces bool
	counting string
	evidence evidenceIndex
	// reported are the policies with an outcome that are not off, by id.
	reported []*Policy
	// derived has the parts of each policy that limit its further keys, by the policy's id and in
	// the order of Policy.Also. It contains no policies that are off.
	derived map[int64][]*Policy
	// awaited are the values that requests must say for policies to count by them.
	awaited     []*awaited
	nextAwaited atomic.Uint64 // where Notice goes on
	asked       asked
	// kinds are the kinds of keys that patterns name, of policies that are not off.
	kinds map[string]bool
	// countsOwn reports whether any of distinct counts a value that a check need not say, or counts
	// checks whatever they say.
	countsOwn bool
	// onlyAttack are the policies that are only for attacks and not off, by id. isAttack says whether
	// s is for the time of an attack, and attack is the selector for that time, nil for s itself.
	onlyAttack []*Policy
	isAttack   bool
	attack     *Selector
}

// NewSelector returns the selector over policies, which must not be changed afterwards. Policies
// that are off are treated like enforcing ones: a check that one of them selects is allowed, and
// no broader pattern applies. If two enforcing policies have the same pattern, which the store
// refuses, the lower id wins. Policies with conditions, an outcome or distinct rules are not
// selected by Select; see AppendConditional and AppendReported. Those that are only for attacks apply
// to nothing; see During.
func NewSelector(policies []*Policy) *Selector {
	s := newSelector(policies, false)
	if len(s.onlyAttack) > 0 {
		s.attack = newSelector(policies, true)
		s.attack.awaited = s.awaited
	}
	return s
}

func newSelector(policies []*Policy, isAttack bool) *Selector {
	s := &Selector{
		isAttack:  isAttack,
		byName:    make(map[string]*Policy, len(policies)),
		byID:      make(map[int64]*Policy, len(policies)),
		enforcing: newRole(),
		shadow:    newRole(),
		kinds:     map[string]bool{},
	}
	for _, p := range policies {
		s.byName[p.Name] = p
		s.byID[p.ID] = p
		if policy, is := DraftOf(p); is && !p.IsConditional() {
			if s.drafts == nil {
				s.drafts = map[string]*Policy{}
			}
			s.drafts[policy] = p
		}
		s.plans = s.plans || SelectsByPlan(p)
		if p.Mode != Off && len(p.Rules) > 0 {
			s.addDerived(p)
		}
		s.awaited = append(s.awaited, p.awaits()...)
		if p.Mode != Off {
			s.asked.addPolicy(p)
			for _, m := range p.Match {
				kind, _, _ := strings.Cut(m.String(), ":")
				s.kinds[kind] = true
			}
		}
		switch {
		case len(p.Rules) == 0 || p.Mode == Off:
		case p.Mode == Shadow:
			s.counting = cmp.Or(s.counting, p.Name)
		default:
			s.enforces = true
		}
		if p.needsPath() {
			s.pathPolicy = cmp.Or(s.pathPolicy, p.Name)
		}
		if p.InAttack && p.Mode != Off {
			s.onlyAttack = append(s.onlyAttack, p)
		}
		switch {
		case !p.IsConditional():
		case p.Mode == Off, p.InAttack && !isAttack:
			continue
		case p.IsReported():
			s.reported = append(s.reported, p)
			s.evidence.add(p)
			continue
		case p.When.IsZero():
			s.distinct = append(s.distinct, p)
			s.countsOwn = s.countsOwn || p.Rules.isOwn() || p.Rules.Distinct() == ""
			continue
		default:
			s.conditional = append(s.conditional, p)
			continue
		}
		in := &s.enforcing
		if p.Mode == Shadow {
			in = &s.shadow
		}
		for _, m := range p.Match {
			in.add(m, p)
		}
	}
	byID := func(a, b *Policy) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Name, b.Name)) }
	slices.SortFunc(s.asked.all, func(a, b conditions.Attribute) int { return conditions.CompareNames(a.String(), b.String()) })
	slices.SortFunc(s.reported, byID)
	s.evidence.compile()
	slices.SortFunc(s.distinct, byID)
	slices.SortFunc(s.onlyAttack, byID)
	if len(s.conditional) > 0 {
		slices.SortFunc(s.conditional, byID)
		whens := make([]conditions.When, len(s.conditional))
		for i, p := range s.conditional {
			whens[i] = p.When
		}
		s.met = conditions.NewIndex(whens)
	}
	return s
}

// HasKind reports whether a pattern of any policy that is not off begins with a kind of keys, such as bot.
func (s *Selector) HasKind(kind string) bool { return s.kinds[kind] }

// HasPlans reports whether any policy selects keys by their plan. If not, nobody needs to look up
// the plan of a key.
func (s *Selector) HasPlans() bool { return s.plans }

// addDerived adds the parts of p for its further keys.
func (s *Selector) addDerived(p *Policy) {
	if len(p.Also) == 0 {
		return
	}
	if s.derived == nil {
		s.derived = map[int64][]*Policy{}
	}
	for i := range p.Also {
		s.derived[p.ID] = append(s.derived[p.ID], partOf(p, i))
	}
}

// CountsOwnValues reports whether a policy that applies in addition counts a value that a check has
// without saying anything of its request.
func (s *Selector) CountsOwnValues() bool { return s.countsOwn }

// HasDerived reports whether any policy counts further keys.
func (s *Selector) HasDerived() bool { return len(s.derived) > 0 }

// DerivedOf returns the parts of p that limit the further keys of requests that p counts. Each
// part has Derived set, and p's id, name and mode.
func (s *Selector) DerivedOf(p *Policy) []*Policy {
	if p == nil || len(p.Also) == 0 {
		return nil
	}
	return s.derived[p.ID]
}

// Making returns the parts of policies whose further key may be k, by id.
func (s *Selector) Making(k keys.Key) []*Policy {
	var all []*Policy
	for _, parts := range s.derived {
		for _, part := range parts {
			if part.Derived.Makes(k) {
				all = append(all, part)
			}
		}
	}
	slices.SortFunc(all, func(a, b *Policy) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Origins counts the patterns that select addresses by their origin, in policies that are not
// off.
func (s *Selector) Origins() (n keys.OriginCount) {
	for _, p := range s.byName {
		for _, m := range p.Match {
			o, is := m.Origin()
			switch {
			case !is || p.Mode == Off:
			case o.ASN != 0:
				n.ASNs++
			default:
				n.Countries++
			}
		}
		if p.Mode != Off {
			for _, name := range p.Asks() {
				switch name {
				case conditions.ASN.String():
					n.ASNs++
				case conditions.Country.String():
					n.Countries++
				}
			}
		}
	}
	return n
}

// ReadsRequests reports whether any policy that is not off looks at a value that requests say: in its
// conditions, its distinct rules or its further keys.
func (s *Selector) ReadsRequests() bool { return len(s.awaited) > 0 || len(s.asked.all) > 0 }

// HasConditional reports whether any policy that is not off applies by its conditions or distinct
// values.
func (s *Selector) HasConditional() bool { return s.met != nil || len(s.distinct) > 0 }

// OnlyCounting returns the name of a policy in shadow mode if no policy enforces a rule, and ""
// otherwise.
func (s *Selector) OnlyCounting() string {
	if s.enforces {
		return ""
	}
	return s.counting
}

// PathPolicy returns the name of a policy that never applies to a check that does not say which path
// is requested, "" for none.
func (s *Selector) PathPolicy() string { return s.pathPolicy }

// needsPath reports whether p applies to checks, not to reports, by the path that is requested.
func (p *Policy) needsPath() bool {
	return p.Mode != Off && !p.IsReported() && (len(p.When.Texts(conditions.Path)) > 0 || p.Rules.Distinct() == conditions.Path.String())
}

// AppendConditional appends the policies with conditions or distinct rules, enforcing and shadow,
// that apply to a request of a subject: a pattern of the policy selects the subject, and r meets
// the policy's conditions and has the value that its rules count. They apply in addition to the
// policies of Select. r may be nil for an unknown request, which meets no conditions.
func (s *Selector) AppendConditional(policies []*Policy, who Subject, r *conditions.Request) []*Policy {
	if r == nil && !s.countsOwn {
		return policies
	}
	applies := func(p *Policy) bool {
		return p.Matches(who) && p.Rules.CanCount(who.Key, r, nil)
	}
	if r != nil {
		s.met.Find(r, func(i int) {
			if p := s.conditional[i]; applies(p) {
				policies = append(policies, p)
			}
		})
	}
	for _, p := range s.distinct {
		if applies(p) {
			policies = append(policies, p)
		}
	}
	return policies
}

// AppendFor appends the policies with conditions, distinct rules, an outcome or evidence for which applies
// is true. Those with conditions, or distinct rules only, are asked about if r meets these.
func (s *Selector) AppendFor(policies []*Policy, r *conditions.Request, applies func(*Policy) bool) []*Policy {
	add := func(p *Policy) {
		if applies(p) {
			policies = append(policies, p)
		}
	}
	s.met.Find(r, func(i int) { add(s.conditional[i]) })
	for _, p := range s.distinct {
		add(p)
	}
	for _, p := range s.reported {
		add(p)
	}
	return policies
}

// AppendReported appends the policies with an outcome, enforcing and shadow, that have a pattern
// that selects who. They apply to every check of who, in addition to the others.
func (s *Selector) AppendReported(policies []*Policy, who Subject) []*Policy {
	if len(s.reported) == 0 || who.IsShared() {
		return policies
	}
	for _, p := range s.reported {
		if p.Matches(who) {
			policies = append(policies, p)
		}
	}
	return policies
}

// Reported returns the policies with an outcome or evidence that are not off. Callers must not change it.
func (s *Selector) Reported() []*Policy { return s.reported }

// HasReported reports whether there are policies with an outcome that are not off.
func (s *Selector) HasReported() bool { return len(s.reported) > 0 }

// CountsOutcome reports whether any policy that is not off counts an outcome, for any
// key.
func (s *Selector) CountsOutcome(outcome string) bool {
	return slices.ContainsFunc(s.reported, func(p *Policy) bool { return p.CountsOutcome(outcome) })
}

// Conditional returns the policies with conditions, an outcome or distinct rules that are not off
// and have a pattern that selects who. It ignores the request, and whether there is an attack.
func (s *Selector) Conditional(who Subject) []*Policy {
	var all []*Policy
	for _, p := range s.conditional {
		if p.Matches(who) {
			all = append(all, p)
		}
	}
	for _, p := range s.distinct {
		if p.Matches(who) {
			all = append(all, p)
		}
	}
	if !s.isAttack {
		for _, p := range s.onlyAttack {
			if p.Matches(who) {
				all = append(all, p)
			}
		}
	}
	return s.AppendReported(all, who)
}

// Select returns the enforcing policy of who, whose decision is the answer to a check, and the
// shadow policy; either may be nil. A pattern of only this key comes first, then one of its plan,
// then plan:*, then the most specific of the others.
func (s *Selector) Select(who Subject) (enforcing, shadow *Policy) {
	_, enforcing = s.enforcing.best(who)
	_, shadow = s.shadow.best(who)
	return enforcing, shadow
}

// Matched returns the patterns by which Select selects, zero if there is none.
func (s *Selector) Matched(who Subject) (enforcing, shadow keys.Pattern) {
	enforcing, _ = s.enforcing.best(who)
	shadow, _ = s.shadow.best(who)
	return enforcing, shadow
}

// DraftOf returns the draft that decides about the checks that name a policy, nil for none. A
// draft with conditions applies by them.
func (s *Selector) DraftOf(policy string) *Policy { return s.drafts[policy] }

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
