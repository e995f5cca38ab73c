package sqlstore

import (
	"context"
	"time"
)

const (
	acquireLease = `
INSERT INTO leases (name, holder, expires_at) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
WHERE leases.holder = excluded.holder OR leases.expires_at <= $4
RETURNING holder`
	releaseLease = `DELETE FROM leases WHERE name = $1 AND holder = $2`
)

// AcquireLease gives the lease of name to holder until an instant, or renews
// it, and reports false while another holder has it at now.
func (s *Store) AcquireLease(ctx context.Context, name, holder string, now, until time.Time) (held bool, err error) {
	err = s.write(ctx, func(t *tx) error {
		var who string
		held, err = t.one(acquireLease, []any{name, holder, toMS(until), toMS(now)}, &who)
		return err
	})
	return held, err
}

// ReleaseLease gives a lease back before its time. One that holder has lost is
// left alone.
func (s *Store) ReleaseLease(ctx context.Context, name, holder string) error {
	return s.write(ctx, func(t *tx) error {
		_, err := t.exec(releaseLease, name, holder)
		return err
	})
}
