package memory

import (
	"cmp"
	"slices"
	"unique"

	"github.com/stint-dev/stint/internal/offences"
)

// Filter selects rows. The zero value selects all limited and blocked checks.
type Filter struct {
	Shadow bool  // select only what shadow policies would have refused
	Policy int64 // 0 for all
	Source string
	// Rule and NotRule are a rule or the id of a block; "" for all.
	Rule, NotRule string
	Key           func(key string) bool // nil selects all
}

func (f *Filter) selects(g Group) bool {
	return (g.Kind >= offences.Shadow) == f.Shadow && (f.Policy == 0 || g.Policy == f.Policy) && (f.Source == "" || g.Source == f.Source) &&
		(f.Rule == "" || g.RefusedBy == f.Rule) && (f.NotRule == "" || g.RefusedBy != f.NotRule)
}

// groups caches an answer for each group. There are far fewer groups than rows.
type groups[T any] struct {
	known  map[unique.Handle[Group]]T
	answer func(Group) T
}

func groupsOf[T any](answer func(Group) T) groups[T] {
	return groups[T]{map[unique.Handle[Group]]T{}, answer}
}

func (g groups[T]) of(h unique.Handle[Group]) T {
	known, is := g.known[h]
	if !is {
		known = g.answer(h.Value())
		g.known[h] = known
	}
	return known
}

var noKey = unique.Make("")

// Sum is the sum of the offences of one key.
type Sum struct {
	Key                 string
	Offences, Overcount int64
	First, Last         int64
}

func (s *Sum) add(r *Row) {
	s.Offences += r.Offences
	s.Overcount += r.Overcount
	s.First = min(s.First, r.First)
	s.Last = max(s.Last, r.Last)
}

// ByKey adds up the selected offences by key, in no particular order. Keys without any are
// omitted.
func ByKey(parts []Part[Row], f Filter) []Sum {
	var sums []Sum
	at := map[unique.Handle[string]]int{} // index of a key's sum, -1 if the key is not selected
	selected := groupsOf(f.selects)
	for _, p := range parts {
		for i := range p.Rows {
			r := &p.Rows[i]
			if r.Key == noKey || !selected.of(r.Group) {
				continue
			}
			place, is := at[r.Key]
			if !is {
				place = -1
				if key := r.Key.Value(); f.Key == nil || f.Key(key) {
					place = len(sums)
					sums = append(sums, Sum{Key: key, First: r.First, Last: r.Last})
				}
				at[r.Key] = place
			}
			if place >= 0 {
				sums[place].add(r)
			}
		}
	}
	return sums
}

// ActiveFilter selects traffic. The zero value selects all.
type ActiveFilter struct {
	Policy       int64 // 0 for all
	NeverRefused bool
	Key          func(key string) bool // nil selects all
}

// Active adds up the selected traffic by key, in no particular order. The refused checks are all in
// Limited.
func Active(parts []Part[KeyTraffic], f ActiveFilter) []offences.ActiveKey {
	var sums []offences.ActiveKey
	at := map[unique.Handle[string]]int{} // index of a key's sum, -1 if the key is not selected
	for _, p := range parts {
		for i := range p.Rows {
			r := &p.Rows[i]
			if f.Policy != 0 && r.Policy != f.Policy {
				continue
			}
			place, is := at[r.Key]
			if !is {
				place = -1
				if key := r.Key.Value(); f.Key == nil || f.Key(key) {
					place = len(sums)
					sums = append(sums, offences.ActiveKey{Key: key})
				}
				at[r.Key] = place
			}
			if place >= 0 {
				sums[place].Allowed += r.Allowed
				sums[place].Limited += r.Refused
			}
		}
	}
	if f.NeverRefused {
		return slices.DeleteFunc(sums, func(k offences.ActiveKey) bool { return k.Limited > 0 })
	}
	return sums
}

// WithoutKey adds up the offences of a policy, 0 for all, that lost their key.
func WithoutKey(parts []Part[Row], policy int64, shadow bool) (sum Sum) {
	selected := groupsOf((&Filter{Policy: policy, Shadow: shadow}).selects)
	for _, p := range parts {
		for i := range p.Rows {
			if r := &p.Rows[i]; r.Key == noKey && selected.of(r.Group) {
				sum.add(r)
			}
		}
	}
	return sum
}

// New returns the sums of the keys without an offence in earlier parts. Offences against shadow
// policies do not count there.
func New(sums []Sum, earlier []Part[Row]) []Sum {
	at := make(map[unique.Handle[string]]int, len(sums)) // keys without an earlier offence
	for i := range sums {
		at[unique.Make(sums[i].Key)] = i
	}
	isKnown := make([]bool, len(sums))
	selected := groupsOf((&Filter{}).selects)
	for _, p := range earlier {
		for i := range p.Rows {
			r := &p.Rows[i]
			if place, is := at[r.Key]; is && selected.of(r.Group) {
				isKnown[place] = true
				delete(at, r.Key)
			}
		}
	}
	fresh := make([]Sum, 0, len(at))
	for i, known := range isKnown {
		if !known {
			fresh = append(fresh, sums[i])
		}
	}
	return fresh
}

// ByRule adds up what each rule and block refused, the largest sum first.
func ByRule(parts []Part[Row]) []offences.RuleTotal {
	type refuser struct {
		policy int64
		kind   offences.Kind
		name   string
	}
	var totals []offences.RuleTotal
	at := map[refuser]int{}
	total := groupsOf(func(g Group) int {
		id := refuser{g.Policy, g.Kind, g.RefusedBy}
		place, is := at[id]
		if !is {
			place = len(totals)
			at[id] = place
			totals = append(totals, offences.RuleTotal{Policy: g.Policy, Kind: g.Kind, RefusedBy: g.RefusedBy})
		}
		return place
	})
	// Looking up a key takes most of the time, so that it happens once for each row, except for the totals
	// after the first 64: there may be one for each block.
	number := map[unique.Handle[string]]uint64{}
	var first []uint64            // by a key's number, a bit for each of the first totals
	seen := map[uint64]struct{}{} // pairs of a key's number and the index of a later total
	for _, p := range parts {
		for i := range p.Rows {
			r := &p.Rows[i]
			place := total.of(r.Group)
			totals[place].Count += r.Offences
			if r.Key == noKey {
				continue
			}
			n, is := number[r.Key]
			if !is {
				n = uint64(len(number))
				number[r.Key] = n
				first = append(first, 0)
			}
			if place < 64 {
				if first[n]&(1<<place) == 0 {
					first[n] |= 1 << place
					totals[place].Keys++
				}
				continue
			}
			id := n<<32 | uint64(place)
			if _, is := seen[id]; !is {
				seen[id] = struct{}{}
				totals[place].Keys++
			}
		}
	}
	slices.SortFunc(totals, func(a, b offences.RuleTotal) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.RefusedBy, b.RefusedBy))
	})
	return totals
}

// ByPoint adds up the selected offences of some keys by what refused them and by point: each
// point has width milliseconds, the first begins at low.
func ByPoint(parts []Part[Row], f Filter, keys []string, low, width int64) []offences.Detail {
	wanted := make(map[unique.Handle[string]]bool, len(keys))
	for _, key := range keys {
		if f.Key == nil || f.Key(key) {
			wanted[unique.Make(key)] = true
		}
	}
	type id struct {
		key, refusedBy string
		policy         int64
		kind           offences.Kind
		point          int
	}
	var all []offences.Detail
	at := map[id]int{}
	selected := groupsOf(f.selects)
	for _, p := range parts {
		point := int((p.Start - low) / width)
		for i := range p.Rows {
			r := &p.Rows[i]
			if !wanted[r.Key] || !selected.of(r.Group) {
				continue
			}
			g := r.Group.Value()
			d := id{r.Key.Value(), g.RefusedBy, g.Policy, g.Kind, point}
			place, is := at[d]
			if !is {
				place = len(all)
				at[d] = place
				all = append(all, offences.Detail{Key: d.key, Policy: d.policy, Kind: d.kind, RefusedBy: d.refusedBy, Point: point})
			}
			all[place].Count += r.Offences
		}
	}
	slices.SortFunc(all, func(a, b offences.Detail) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Point, b.Point), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.RefusedBy, b.RefusedBy))
	})
	return all
}
