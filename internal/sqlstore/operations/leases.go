package operations

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

const (
	insertLease = `
INSERT INTO leases (name, holder, expires_at) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
WHERE leases.holder = excluded.holder OR leases.expires_at <= $4 OR leases.expires_at > $5
RETURNING holder`
	deleteLease = `DELETE FROM leases WHERE name = $1 AND holder = $2`
)

// leases implements AcquireLease of the stores that embed it.
type leases struct{ db *db.DB }

// AcquireLease gives the lease of name to holder until an instant, or renews it. It reports false
// while another holder has the lease at now. It also takes a lease that ends later than any
// holder could request at now: a node whose clock was ahead took it, and if that node was
// killed, nobody else could take the lease until then.
func (l leases) AcquireLease(ctx context.Context, name, holder string, now, until time.Time) (held bool, err error) {
	by, err := ahead(ctx, l.db)
	if err != nil {
		return false, err
	}
	now, until = now.Add(by), until.Add(by)
	err = l.db.Write(ctx, func(t *db.Tx) error {
		var who string
		latest := until.Add(jobs.MaxClockSkew)
		held, err = t.One(insertLease, []any{name, holder, db.ToMS(until), db.ToMS(now), db.ToMS(latest)}, &who)
		return err
	})
	return held, err
}

// ReleaseLease implements jobs.Store.
func (s *Jobs) ReleaseLease(ctx context.Context, name, holder string) error {
	return s.db.Run(ctx, deleteLease, name, holder)
}
