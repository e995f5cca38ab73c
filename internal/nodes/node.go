// Package nodes holds the state that the nodes of one installation report, so that each
// node can show all.
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
	PerSecond float64       // requests for checks since the heartbeat before
	P99       time.Duration // the 99th percentile of their durations; 0 without any
	// Degraded reports whether it decides without the shared log.
	Degraded bool
	Revision int64 // of the newest change that it applies
	Memory   Memory
}

// Memory is what the logs of keys in a node's memory take, and what it forgot to stay
// within the bound since it started. It is zero of a node that does not report it, as those of
// the release before do not.
type Memory struct {
	Bytes, MaxBytes int64
	// Forgotten is how many keys were forgotten before their windows ended, and
	// LastForgotten when that happened last, zero for never.
	Forgotten     int64
	LastForgotten time.Time
	// Unkept is how many allowed requests were not counted, since no key could be forgotten.
	Unkept int64
}

// forgettingShown is how long after the last forgotten key a node is said to forget keys.
const forgettingShown = time.Minute

// Forgetting reports whether n was forgetting keys at its last heartbeat.
func (n Node) Forgetting() bool {
	return !n.Memory.LastForgotten.IsZero() && n.Seen.Sub(n.Memory.LastForgotten) < forgettingShown
}

// Store keeps the nodes' state.
type Store interface {
	PutNode(ctx context.Context, n Node) error
	// Nodes returns the nodes with a heartbeat since a time, by name and id.
	Nodes(ctx context.Context, since time.Time) ([]Node, error)
	// DeleteNode deletes a node that stops.
	DeleteNode(ctx context.Context, id string) error
	// DeleteNodes deletes the nodes without a heartbeat since a time.
	DeleteNodes(ctx context.Context, before time.Time) (int, error)
}
