package app

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/metrics"
	"github.com/stint-dev/stint/internal/nodes"
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
	_ = h.store.PutNode(ctx, n) // the catalog reports an outage of the database
	h.last = now
}
