package identity

import "time"

// TokenOrder is the order of a list of tokens.
type TokenOrder string

// The orders of tokens. Tokens that are equal in one are by their creation.
const (
	TokensByCreated  TokenOrder = "created" // oldest first
	TokensByName     TokenOrder = "name"
	TokensByLastUsed TokenOrder = "last_used" // last used first, never used last
	TokensByExpiry   TokenOrder = "expiry"    // what ends or ended soonest first, permanent ones last
)

// TokenOrders are the orders of tokens, the default first.
var TokenOrders = []TokenOrder{TokensByCreated, TokensByName, TokensByLastUsed, TokensByExpiry}

// TokenFilter selects tokens for a list.
type TokenFilter struct {
	// State is "active", "ended" or "all", the default when empty.
	State string
	// Search selects tokens of which the name or the hint contains this text, ignoring case, and
	// the one of which it is the secret.
	Search string
	Order  TokenOrder // "" means TokensByCreated
	Cursor string     // from the previous page, empty for the first
	Limit  int        // 1 to 1000, 0 means all
}

// UserOrder is the order of a list of users.
type UserOrder string

// The orders of users. Users who are equal in one are by name.
const (
	UsersByName      UserOrder = "name"
	UsersByRole      UserOrder = "role"       // admin, operator, viewer
	UsersByLastLogin UserOrder = "last_login" // last login first, never last
	UsersByCreated   UserOrder = "created"    // newest first
)

// UserOrders are the orders of users, the default first.
var UserOrders = []UserOrder{UsersByName, UsersByRole, UsersByLastLogin, UsersByCreated}

// UserFilter selects users for a list.
type UserFilter struct {
	// Search selects users of which the name contains this text, ignoring case.
	Search string
	Order  UserOrder // "" means UsersByName
	Cursor string    // from the previous page, empty for the first
	Limit  int       // 1 to 1000, 0 means all
}

// EndsAt returns when t ends or ended, the zero time for never.
func (t *Token) EndsAt() time.Time {
	if !t.Revoked.IsZero() && (t.Expires.IsZero() || t.Revoked.Before(t.Expires)) {
		return t.Revoked
	}
	return t.Expires
}
