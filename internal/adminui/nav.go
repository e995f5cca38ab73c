package adminui

import (
	"github.com/stint-dev/stint/internal/api"
	"github.com/stint-dev/stint/internal/identity"
)

type navGroup struct {
	Name  string
	Items []navItem
}

type navItem struct {
	Path, Name string
	Address    string // Path with the span
	Current    bool
	Access     identity.Access
}

// sections is the side bar.
var sections = []navGroup{
	{Name: "Watch", Items: []navItem{
		{Path: "/", Name: "Overview", Access: identity.Read},
		{Path: "/live", Name: "Live", Access: identity.Read},
		{Path: "/offenders", Name: "Offenders", Access: identity.Read},
		{Path: "/reports", Name: "Reports", Access: identity.Read},
	}},
	{Name: "Act", Items: []navItem{
		{Path: "/blocks", Name: "Blocks", Access: identity.Read},
		{Path: "/exemptions", Name: "Exemptions", Access: identity.Read},
		{Path: "/policies", Name: "Policies", Access: identity.Read},
	}},
	{Name: "Look after", Items: []navItem{
		{Path: "/jobs", Name: "Jobs", Access: identity.Read},
		{Path: "/audit", Name: "Audit", Access: identity.Read},
		{Path: "/tokens", Name: "Tokens", Access: identity.Admin},
		{Path: "/users", Name: "Users", Access: identity.Admin},
		{Path: "/settings", Name: "Settings", Access: identity.Read},
	}},
}

// nav returns the side bar as p sees it; its links keep the span.
func (u *UI) nav(p *api.Principal, current string, kept span) []navGroup {
	var groups []navGroup
	for _, group := range sections {
		shown := navGroup{Name: group.Name}
		for _, item := range group.Items {
			if p.May(item.Access) && (item.Path != "/jobs" || u.Jobs != nil) {
				item.Current = item.Path == current
				item.Address = spanned(item.Path, kept)
				shown.Items = append(shown.Items, item)
			}
		}
		if len(shown.Items) > 0 {
			groups = append(groups, shown)
		}
	}
	return groups
}
