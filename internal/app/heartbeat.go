package app

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/metrics"
	"github.com/stint-dev/stint/internal/nodes"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
)

// heartbeat writes this node's state to the database every few seconds. The other nodes show
// it.
type heartbeat struct {
	store    nodes.Store
	node     nodes.Node // its constant fields
	checks   *metrics.CheckReader
	prepared func() bool // the database has its tables
	degraded func() bool
	revision func() int64
	memory   func() memlog.MemoryStats
	writes   *writeHealth
	last     time.Time
}

func (h *heartbeat) run(ctx context.Context) {
	h.node.Started, h.last = time.Now(), time.Now()
	every(nodes.Beat, h.beat)(ctx)
}

func (h *heartbeat) beat(ctx context.Context) {
	if !h.prepared() {
		return
	}
	answers, p99 := h.checks.Next()
	n, now := h.node, time.Now()
	n.Seen, n.PerSecond, n.P99 = now, float64(answers)/now.Sub(h.last).Seconds(), p99
	n.Degraded, n.Revision = h.degraded(), h.revision()
	m := h.memory()
	n.Memory = nodes.Memory{Bytes: m.Used, MaxBytes: m.Max, Forgotten: m.Forgotten, LastForgotten: m.LastForgotten, Unkept: m.Unkept}
	err := h.store.PutNode(ctx, n)
	if ctx.Err() == nil {
		h.writes.note(err, now)
	}
	h.last = now
}

// writeHealth records whether the database refuses writes, by the heartbeats. It is safe for
// concurrent use.
type writeHealth struct {
	log     *slog.Logger
	failure atomic.Pointer[writeFailure] // nil unless the database refuses writes
}

// writeFailure is the first heartbeat that was refused.
type writeFailure struct {
	since time.Time
	err   error
}

// note records the result of a heartbeat. A database that cannot be reached is an outage, which
// the catalog reports, and one that is busy or slow may accept the next write.
func (w *writeHealth) note(err error, now time.Time) {
	former := w.failure.Load()
	switch {
	case err == nil && former != nil:
		w.failure.Store(nil)
		w.log.Info("the database accepts writes again", "after", now.Sub(former.since).Round(time.Second))
	case former == nil && (errors.Is(err, db.ErrRefusesWrites) || errors.Is(err, db.ErrUnfit)):
		w.failure.Store(&writeFailure{since: now, err: err})
		w.log.Error("the database accepts no writes; checks go on, counts wait in memory, and nothing can be changed", "error", oneLine(err), "cause", oneLine(causeOf(err)))
	}
}

// failing returns since when the database has accepted no writes and why, nil if it accepts
// them.
func (w *writeHealth) failing() (since time.Time, err error) {
	if f := w.failure.Load(); f != nil {
		return f.since, f.err
	}
	return time.Time{}, nil
}
