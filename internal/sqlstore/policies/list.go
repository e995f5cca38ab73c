package policies

import (
	"context"
	"slices"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

// modeRanks are the modes in the order of a list.
var modeRanks = []rules.Mode{rules.Enforce, rules.Shadow, rules.Off}

// positions place a policy in a list of each order.
var positions = map[rules.PolicyOrder]func(*rules.Policy) db.Position{
	rules.ByName: func(p *rules.Policy) db.Position { return db.Position{ID: p.Name} },
	rules.ByMode: func(p *rules.Policy) db.Position {
		return db.Position{Rank: int64(slices.Index(modeRanks, p.Mode)), ID: p.Name}
	},
	rules.ByVersion: func(p *rules.Policy) db.Position { return db.Position{Rank: -p.Version, ID: p.Name} },
	rules.ByUpdated: func(p *rules.Policy) db.Position { return db.Position{Rank: -db.ToMS(p.Updated), ID: p.Name} },
}

// FindPolicies implements rules.Store. It reads all policies: patterns and modes are part of their
// documents.
func (s *Store) FindPolicies(ctx context.Context, f rules.PolicyFilter) (page paging.Page[*rules.Policy], err error) {
	if f.Order == "" {
		f.Order = rules.ByName
	}
	position := positions[f.Order]
	if position == nil {
		return page, fault.Field("order", "must be name, mode, version or updated")
	}
	if err := db.CheckText("search", f.Search); err != nil {
		return page, err
	}
	all, err := s.Policies(ctx)
	if err != nil {
		return page, err
	}
	if f.Search != "" {
		all = slices.DeleteFunc(all, func(p *rules.Policy) bool { return !f.Matches(p) })
	}
	return db.PageOf(all, string(f.Order), f.Cursor, f.Limit, position)
}
