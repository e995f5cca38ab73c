package operations

import (
	"context"
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/bots"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

const (
	putCrawlers     = `INSERT INTO verified_crawlers (address, operator, name, verified_at, written_at) `
	replaceCrawlers = `
ON CONFLICT (address) DO UPDATE SET operator = excluded.operator, name = excluded.name, verified_at = excluded.verified_at, written_at = excluded.written_at
WHERE excluded.verified_at > verified_crawlers.verified_at`
	forgetCrawlers = `DELETE FROM verified_crawlers WHERE verified_at < $1`
	boundCrawlers  = `
DELETE FROM verified_crawlers WHERE address IN (SELECT address FROM verified_crawlers ORDER BY verified_at DESC, address LIMIT 1000000 OFFSET $1)`
	selectCrawlers = `
SELECT address, operator, name, verified_at FROM verified_crawlers WHERE written_at >= $1 ORDER BY verified_at DESC, address LIMIT $2`
)

var crawlerColumns = []string{db.TextColumn, db.TextColumn, db.TextColumn, db.IntColumn, db.IntColumn}

var _ bots.Store = (*Crawlers)(nil)

// Crawlers implements bots.Store.
type Crawlers struct{ db *db.DB }

// NewCrawlers returns the store of the verified crawlers on a database.
func NewCrawlers(d *db.DB) *Crawlers { return &Crawlers{d} }

// PutCrawlers implements bots.Store.
func (s *Crawlers) PutCrawlers(ctx context.Context, all []bots.Crawler, forget time.Time) error {
	return s.db.Write(ctx, func(t *db.Tx) error {
		rows := make([][]any, len(all))
		for i, c := range all {
			rows[i] = []any{c.Address.String(), c.Operator, c.Name, db.ToMS(c.Verified), db.ToMS(t.Now)}
		}
		if err := t.Upsert(putCrawlers, replaceCrawlers, crawlerColumns, rows); err != nil {
			return err
		}
		if _, err := t.Exec(forgetCrawlers, db.ToMS(forget)); err != nil {
			return err
		}
		_, err := t.Exec(boundCrawlers, int64(bots.MaxShared))
		return err
	})
}

// Crawlers implements bots.Store. The address of a damaged row is the zero Addr.
func (s *Crawlers) Crawlers(ctx context.Context, since time.Time) ([]bots.Crawler, error) {
	return db.List(ctx, s.db, scanCrawler, selectCrawlers, db.ToMS(since), int64(bots.MaxShared))
}

func scanCrawler(r db.Row) (c bots.Crawler, err error) {
	var address string
	err = r.Scan(&address, &c.Operator, &c.Name, db.MS(&c.Verified))
	c.Address, _ = netip.ParseAddr(address) // the zero address is not public, so it is never trusted
	return c, err
}
