// Package nodes holds what the nodes of one installation tell of themselves,
// so that each can show all.
package nodes

import (
	"context"
	"time"
)

// Beat is how often a node tells how it does, and Gone after how long without
// a word it is no longer shown.
const (
	Beat = 5 * time.Second
	Gone = 30 * time.Second
)

// Node is one node's last word.
type Node struct {
	ID        string // of this run of it
	Name      string
	Version   string
	Started   time.Time
	Seen      time.Time
	PerSecond float64       // requests for checks, over the last beat
	Slow      time.Duration // 99 in 100 were answered faster; 0 without any
	// Degraded says that it decides without the shared log.
	Degraded bool
	Revision int64 // the newest change that governs it
}

// Store keeps the nodes' words.
type Store interface {
	PutNode(ctx context.Context, n Node) error
	// Nodes returns the nodes heard of since an instant, by name and id.
	Nodes(ctx context.Context, since time.Time) ([]Node, error)
	// DeleteNode forgets a node that says goodbye.
	DeleteNode(ctx context.Context, id string) error
	// DeleteNodes forgets those not heard of since an instant.
	DeleteNodes(ctx context.Context, before time.Time) (int, error)
}
