package site

import (
	"cmp"
	"context"
	"time"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

type navGroup struct {
	Name  string
	Items []navItem
}

type navItem struct {
	Path, Name string
	Opens      string // the path of its first page, "" for Path
	Address    string // of its first page with the time range
	Count      int    // number of listed items, 0 if they are not counted
	Waiting    int    // number of items that need a decision
	Current    bool
	Access     identity.Access
}

// sections are the groups of the side bar.
var sections = []navGroup{
	{Name: "Monitor", Items: []navItem{
		{Path: "/", Name: "Overview", Access: identity.Read},
		{Path: "/traffic", Name: "Traffic", Access: identity.Read},
		{Path: "/live", Name: "Live", Access: identity.Read},
		{Path: "/offenders", Name: "Offenders", Access: identity.Read},
		{Path: "/bots", Name: "Bots", Access: identity.Read},
		{Path: "/reports", Name: "Reports", Access: identity.Read},
	}},
	{Name: "Enforce", Items: []navItem{
		{Path: "/blocks", Name: "Blocks", Access: identity.Read},
		{Path: "/exemptions", Name: "Exemptions", Access: identity.Read},
		{Path: "/policies", Name: "Policies", Access: identity.Read},
		{Path: "/keys", Opens: ActiveKeysPath, Name: "Keys", Access: identity.Read},
	}},
	{Name: "Administration", Items: []navItem{
		{Path: "/jobs", Name: "Jobs", Access: identity.Read},
		{Path: "/sites", Name: "Sites", Access: identity.Read},
		{Path: "/bouncers", Name: "Bouncers", Access: identity.Read},
		{Path: "/notifications", Name: "Notifications", Access: identity.Read},
		{Path: "/audit", Name: "Audit", Access: identity.Read},
		{Path: "/connect", Name: "Connect", Access: identity.Read},
		{Path: "/tokens", Name: "Tokens", Access: identity.Admin},
		{Path: "/users", Name: "Users", Access: identity.Admin},
		{Path: "/settings", Name: "Settings", Access: identity.Read},
	}},
}

// nav returns the side bar for p. Its links keep the time range.
func (s *Site) nav(p *httpserver.Principal, current string, kept format.TimeRange) []navGroup {
	counts, waiting := s.navCounts()
	var groups []navGroup
	for _, group := range sections {
		shown := navGroup{Name: group.Name}
		for _, item := range group.Items {
			if p.May(item.Access) && (item.Path != "/jobs" || s.HasJobs) {
				item.Current = item.Path == current
				item.Address = WithRange(cmp.Or(item.Opens, item.Path), kept)
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
