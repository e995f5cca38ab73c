package operations

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/nodes"
)

// Nodes is the use case of showing the nodes of the installation.
type Nodes struct {
	Store NodeStore
	Now   func() time.Time
}

// NodeStore reads what the nodes reported.
type NodeStore interface {
	// Nodes returns the nodes with a heartbeat since a time, by name and id.
	Nodes(ctx context.Context, since time.Time) ([]nodes.Node, error)
}

// Node is a node as it was at its last heartbeat.
type Node = nodes.Node

// List returns the nodes that have recently reported, by name and id.
func (n *Nodes) List(ctx context.Context) ([]Node, error) {
	return n.Store.Nodes(ctx, n.Now().Add(-nodes.Gone))
}
