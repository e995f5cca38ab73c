package adminui

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
)

// entryFold is the row above several entries of one cause: those that one policy made at a level in one
// attack, or those of a network that one author made for one reason.
type entryFold struct {
	Rows    []*entryRow  // at least minFolded, as the list has them
	Network netip.Prefix // that all are in; not valid if there is none
	Open    bool         // whether the rows are shown below
	// EndApart reports that the rows do not all end within a minute.
	EndApart bool
}

// minFolded is how many rows fold, and maxFoldTime how far apart they were made, and end.
const (
	minFolded   = 3
	maxFoldTime = 10 * time.Minute
)

// foldEntries puts a row above those of each cause, and leaves these out unless one of them is edited or the
// fold of the id is open. Only rows behind each other fold.
func foldEntries(rows []*entryRow, open string) (all []*entryRow) {
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && haveOneCause(rows[0], rows[n]) {
			n++
		}
		group := rows[:n]
		rows = rows[n:]
		if n < minFolded {
			all = append(all, group...)
			continue
		}
		fold := &entryFold{Rows: group, Network: commonNetwork(group)}
		fold.Open = slices.ContainsFunc(group, func(r *entryRow) bool { return r.Edit != nil || r.ID == open })
		entry := *group[0].Entry
		first := *group[0]
		first.Entry = &entry
		first.Fold, first.Edit, first.Refused = fold, nil, 0
		for _, r := range group {
			first.Refused += r.Refused
			if r.Expires.After(first.Expires) {
				first.Expires = r.Expires
			}
		}
		fold.EndApart = slices.ContainsFunc(group, func(r *entryRow) bool { return first.Expires.Sub(r.Expires) > time.Minute })
		all = append(all, &first)
		if fold.Open {
			all = append(all, group...)
		}
	}
	return all
}

// haveOneCause reports whether two entries fold.
func haveOneCause(a, b *entryRow) bool {
	near := func(t, u time.Time) bool {
		return t.IsZero() == u.IsZero() && t.Sub(u).Abs() <= maxFoldTime
	}
	if a.Source != b.Source || a.Author != b.Author || a.EntryTerms != b.EntryTerms || a.EndedBy() != b.EndedBy() || a.Exempt != b.Exempt ||
		a.Active != b.Active || !near(a.Expires, b.Expires) || !near(a.Ended(), b.Ended()) || len(a.Others)+len(b.Others) > 0 {
		return false
	}
	if a.Source == blocks.Automatic {
		return a.PolicyID == b.PolicyID && a.Level == b.Level && near(a.Created.Time(), b.Created.Time())
	}
	in := networkAround(a)
	return a.Reason == b.Reason && in.IsValid() && in == networkAround(b)
}

// networkAround returns the IPv4 /24 or IPv6 /48 around the addresses of an entry; it is not valid for
// entries that are not within one.
func networkAround(r *entryRow) netip.Prefix {
	network, _ := r.Pattern.Network()
	bits := 48
	if network.Addr().Is4() {
		bits = 24
	}
	if network.Bits() <= bits { // -1 if there is none
		return netip.Prefix{}
	}
	return netip.PrefixFrom(network.Addr(), bits).Masked()
}

// commonNetwork returns the network that is around all rows; it is not valid if they are in several.
func commonNetwork(rows []*entryRow) netip.Prefix {
	in := networkAround(rows[0])
	for _, r := range rows {
		if networkAround(r) != in {
			return netip.Prefix{}
		}
	}
	return in
}

// IDs returns the ids of the entries, separated by spaces.
func (f *entryFold) IDs() string {
	ids := make([]string, len(f.Rows))
	for i, r := range f.Rows {
		ids[i] = r.ID
	}
	return strings.Join(ids, " ")
}

// FoldPath returns the address that shows or hides the rows of a fold.
func (p *entriesPage) FoldPath(r *entryRow) string {
	id := r.ID
	if r.Fold.Open {
		id = ""
	}
	return p.Query.Path(p.Path, "open", id, "edit", "")
}
