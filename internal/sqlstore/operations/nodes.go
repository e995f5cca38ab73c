package operations

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/nodes"
	"github.com/stint-dev/stint/internal/sqlstore/db"
)

const (
	putNode = `
INSERT INTO nodes (id, name, version, started_at, seen_at, per_second, p99_us, degraded, revision,
    log_bytes, max_log_bytes, forgotten, forgotten_at, unkept)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, per_second = excluded.per_second,
    p99_us = excluded.p99_us, degraded = excluded.degraded, revision = excluded.revision, log_bytes = excluded.log_bytes,
    max_log_bytes = excluded.max_log_bytes, forgotten = excluded.forgotten, forgotten_at = excluded.forgotten_at,
    unkept = excluded.unkept`
	selectNodes = `
SELECT id, name, version, started_at, seen_at, per_second, p99_us, degraded, revision,
    log_bytes, max_log_bytes, forgotten, forgotten_at, unkept
FROM nodes WHERE seen_at >= $1 ORDER BY name, id`
	deleteNode  = `DELETE FROM nodes WHERE id = $1`
	deleteNodes = `DELETE FROM nodes WHERE seen_at < $1`
)

var _ nodes.Store = (*Nodes)(nil)

// Nodes implements nodes.Store.
type Nodes struct{ db *db.DB }

// NewNodes returns the store of the nodes on a database.
func NewNodes(d *db.DB) *Nodes { return &Nodes{d} }

// ahead returns by how much the clock of a database is ahead of this node's. The times of nodes and
// of leases are stored by the clock of the database: nodes whose clocks differ must agree on them.
func ahead(ctx context.Context, d *db.DB) (time.Duration, error) {
	now, err := d.Now(ctx)
	return now.Sub(d.LocalNow()), err
}

// shift shifts a time, unless it is zero.
func shift(t time.Time, by time.Duration) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(by)
}

func shiftTimes(n nodes.Node, by time.Duration) nodes.Node {
	n.Started, n.Seen, n.Memory.LastForgotten = shift(n.Started, by), shift(n.Seen, by), shift(n.Memory.LastForgotten, by)
	return n
}

// PutNode stores what a node reports about itself.
func (s *Nodes) PutNode(ctx context.Context, n nodes.Node) error {
	by, err := ahead(ctx, s.db)
	if err != nil {
		return err
	}
	n = shiftTimes(n, by)
	return s.db.Write(ctx, func(t *db.Tx) error {
		degraded := 0
		if n.Degraded {
			degraded = 1
		}
		_, err := t.Exec(putNode, n.ID, n.Name, n.Version, db.ToMS(n.Started), db.ToMS(n.Seen), n.PerSecond, n.P99.Microseconds(), degraded, n.Revision,
			n.Memory.Bytes, n.Memory.MaxBytes, n.Memory.Forgotten, db.ToMS(n.Memory.LastForgotten), n.Memory.Unkept)
		return err
	})
}

// FindNodes returns the nodes seen since an instant, by name and id.
func (s *Nodes) FindNodes(ctx context.Context, since time.Time) (all []nodes.Node, err error) {
	by, err := ahead(ctx, s.db)
	if err != nil {
		return nil, err
	}
	err = s.db.View(ctx, func(t *db.Tx) error {
		all, err = db.Each(t, scanNode, selectNodes, db.ToMS(shift(since, by)))
		return err
	})
	for i := range all {
		all[i] = shiftTimes(all[i], -by)
	}
	return all, err
}

func scanNode(r db.Row) (nodes.Node, error) {
	var (
		n                   nodes.Node
		started, seen, slow int64
		degraded            int
		forgotten           int64
	)
	err := r.Scan(&n.ID, &n.Name, &n.Version, &started, &seen, &n.PerSecond, &slow, &degraded, &n.Revision,
		&n.Memory.Bytes, &n.Memory.MaxBytes, &n.Memory.Forgotten, &forgotten, &n.Memory.Unkept)
	n.Memory.LastForgotten = db.FromMS(forgotten)
	n.Started, n.Seen, n.P99, n.Degraded = db.FromMS(started), db.FromMS(seen), time.Duration(slow)*time.Microsecond, degraded != 0
	return n, err
}

// DeleteNode deletes a node that shuts down.
func (s *Nodes) DeleteNode(ctx context.Context, id string) error {
	return s.db.Run(ctx, deleteNode, id)
}

// DeleteNodes deletes the nodes not seen since an instant.
func (s *Nodes) DeleteNodes(ctx context.Context, before time.Time) (int, error) {
	by, err := ahead(ctx, s.db)
	if err != nil {
		return 0, err
	}
	return deleteBefore(ctx, s.db, deleteNodes, shift(before, by))
}
