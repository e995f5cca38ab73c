package identity

import "time"

// EndsAt returns when t ends or ended, the zero time for never.
func (t *Token) EndsAt() time.Time {
	if !t.Revoked.IsZero() && (t.Expires.IsZero() || t.Revoked.Before(t.Expires)) {
		return t.Revoked
	}
	return t.Expires
}
