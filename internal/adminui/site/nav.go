package site

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

// Group is a group of pages in the side bar.
type Group string

// The groups, in the order of the side bar.
const (
	Monitor        Group = "Monitor"
	Enforce        Group = "Enforce"
	Administration Group = "Administration"
)

// InMenu returns the route of a page that the side bar shows, as the place-th page of its group.
func (s *Site) InMenu(group Group, place int, name string, page httpserver.Route) httpserver.Route {
	s.menu = append(s.menu, navItem{Path: page.Path, Name: name, Access: page.Access, group: group, place: place})
	return page
}

type navGroup struct {
	Name  Group
	Items []navItem
}

type navItem struct {
	Path, Name string
	Address    string // of its first page with the time range
	Count      int    // number of listed items, 0 if they are not counted
	Waiting    int    // number of items that need a decision
	Current    bool
	Access     identity.Access

	group Group
	place int
}

// opens are the paths of the first pages of items that open another page than their own.
var opens = map[string]string{"/keys": ActiveKeysPath}

// nav returns the side bar for p. Its links keep the time range.
func (s *Site) nav(p *httpserver.Principal, current string, kept format.TimeRange) []navGroup {
	counts, waiting := s.navCounts()
	items := slices.SortedStableFunc(slices.Values(s.menu), func(a, b navItem) int { return a.place - b.place })
	var groups []navGroup
	for _, group := range []Group{Monitor, Enforce, Administration} {
		shown := navGroup{Name: group}
		for _, item := range items {
			if item.group == group && p.May(item.Access) {
				item.Current = item.Path == current
				item.Address = WithRange(cmp.Or(opens[item.Path], item.Path), kept)
				item.Count, item.Waiting = counts[item.Path], waiting[item.Path]
				shown.Items = append(shown.Items, item)
			}
		}
		if len(shown.Items) > 0 {
			groups = append(groups, shown)
		}
	}
	return groups
}

// navCounts returns the counts next to the names: those from the catalog, and the number of
// open proposals if the database responds.
func (s *Site) navCounts() (counts, waiting map[string]int) {
	set := s.Catalog.Blocks()
	counts = map[string]int{"/blocks": set.Size(blocks.Block), "/exemptions": set.Size(blocks.Exemption), "/policies": len(s.Catalog.Selector().Policies())}
	waiting = map[string]int{}
	if s.OpenProposals == nil || s.Outage() != nil {
		return counts, waiting
	}
	ctx, cancel := context.WithTimeout(context.Background(), navTimeout)
	defer cancel()
	if open, err := s.OpenProposals(ctx); err == nil {
		waiting["/"] = open
	}
	return counts, waiting
}

// navTimeout bounds how long a page waits for the side bar's counts.
const navTimeout = 500 * time.Millisecond
