package identities

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/wire"
)

// nameText places a name in a list: without regard to case, and names that differ in nothing else
// by their letters. No name has a NUL.
func nameText(name string) string { return strings.ToLower(name) + "\x00" + name }

// tokenPositions place a token in a list of each order. Ids are in the order of creation.
var tokenPositions = map[string]func(*identity.Token) db.Position{
	"created": func(t *identity.Token) db.Position { return db.Position{ID: t.ID} },
	"name": func(t *identity.Token) db.Position {
		return db.Position{Text: nameText(t.Name), ID: t.ID}
	},
	"last_used": func(t *identity.Token) db.Position { return db.Position{Rank: -db.ToMS(t.LastUsed), ID: t.ID} },
	"expiry":    func(t *identity.Token) db.Position { return db.Position{Rank: db.ExpiryToMS(t.EndsAt()), ID: t.ID} },
}

// FindTokens implements identities.TokenStore.
func (s *Store) FindTokens(ctx context.Context, f wire.TokenList) (page paging.Page[*identity.Token], err error) {
	if f.Order == "" {
		f.Order = "created"
	}
	position := tokenPositions[f.Order]
	if position == nil {
		return page, fault.Field("order", "must be created, name, last_used or expiry")
	}
	if !slices.Contains([]string{"", "active", "ended", "all"}, f.State) {
		return page, fault.Field("state", "must be active, ended or all")
	}
	contains, err := db.Contains(f.Search)
	if err != nil {
		return page, err
	}
	all, err := s.Tokens(ctx)
	if err != nil {
		return page, err
	}
	now, secret := s.db.LocalNow(), identity.HashSecret(f.Search)
	all = slices.DeleteFunc(all, func(t *identity.Token) bool {
		if f.State == "active" && !t.ActiveAt(now) || f.State == "ended" && t.ActiveAt(now) {
			return true
		}
		return f.Search != "" && !contains(t.Name) && !contains(t.Hint) && !bytes.Equal(t.Hash, secret[:])
	})
	return db.PageOf(all, f.Order, f.Cursor, f.Limit, position)
}

// roleRanks are the roles in the order of a list.
var roleRanks = []identity.Role{identity.Administrator, identity.Operator, identity.Viewer}

// userPositions place a user in a list of each order.
var userPositions = map[string]func(*identity.User) db.Position{
	"name": func(u *identity.User) db.Position { return db.Position{Text: nameText(u.Name), ID: u.ID} },
	"role": func(u *identity.User) db.Position {
		return db.Position{Rank: int64(slices.Index(roleRanks, u.Role)), Text: nameText(u.Name), ID: u.ID}
	},
	"last_login": func(u *identity.User) db.Position {
		return db.Position{Rank: -db.ToMS(u.LastLogin), Text: nameText(u.Name), ID: u.ID}
	},
	"created": func(u *identity.User) db.Position {
		return db.Position{Rank: -db.ToMS(u.Created), Text: nameText(u.Name), ID: u.ID}
	},
}

// FindUsers implements identities.UserStore and identities.OpenIDStore.
func (s *Store) FindUsers(ctx context.Context, f wire.UserList) (page paging.Page[*identity.User], err error) {
	if f.Order == "" {
		f.Order = "name"
	}
	position := userPositions[f.Order]
	if position == nil {
		return page, fault.Field("order", "must be name, role, last_login or created")
	}
	contains, err := db.Contains(f.Search)
	if err != nil {
		return page, err
	}
	all, err := db.List(ctx, s.db, scanUser, readUsers)
	if err != nil {
		return page, err
	}
	if f.Search != "" {
		all = slices.DeleteFunc(all, func(u *identity.User) bool { return !contains(u.Name) })
	}
	return db.PageOf(all, f.Order, f.Cursor, f.Limit, position)
}
