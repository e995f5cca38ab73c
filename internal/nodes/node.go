// Package nodes defines the state that the nodes of one installation report, so that each node
// can show all of them.
package nodes

import (
	"context"
	"time"
)

// Beat is the time between two heartbeats of a node. A node without one for Gone is no
// longer shown.
const (
	Beat = 5 * time.Second
	Gone = 30 * time.Second
)

// Node is the state of a node at its last heartbeat.
type Node struct {
	ID        string // of the process, new at every start
	Name      string
	Version   string
	Started   time.Time
	Seen      time.Time
	PerSecond float64       // check requests since the previous heartbeat
	P99       time.Duration // 99th percentile of their durations; 0 without requests
	// Degraded reports whether the node decides without the shared log.
	Degraded bool
	Revision int64 // of the newest change that the node applies
	Memory   Memory
}

// Memory is the memory of the logs of keys on a node, and what the node forgot since its start
// to stay within the bound. It is zero for a node that does not report it, such as one of the
// previous release.
type Memory struct {
	Bytes, MaxBytes int64
	// Forgotten is the number of keys that were forgotten before their windows ended.
	// LastForgotten is when that last happened, zero for never.
	Forgotten     int64
	LastForgotten time.Time
	// Unkept is the number of allowed requests that were not counted because no key could be
	// forgotten.
	Unkept int64
}

// forgettingShown is how long after the last forgotten key a node counts as forgetting keys.
const forgettingShown = time.Minute

// Forgetting reports whether n was forgetting keys at its last heartbeat.
func (n Node) Forgetting() bool {
	return !n.Memory.LastForgotten.IsZero() && n.Seen.Sub(n.Memory.LastForgotten) < forgettingShown
}

// Store stores the nodes' states. Its times are by the clock of the node that calls it, and are
// converted for nodes whose clocks differ.
type Store interface {
	PutNode(ctx context.Context, n Node) error
	// FindNodes returns the nodes with a heartbeat since a time, by name and id.
	FindNodes(ctx context.Context, since time.Time) ([]Node, error)
	// DeleteNode deletes a node that stops.
	DeleteNode(ctx context.Context, id string) error
	// DeleteNodes deletes the nodes without a heartbeat since a time.
	DeleteNodes(ctx context.Context, before time.Time) (int, error)
}
