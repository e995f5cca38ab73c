package operations

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/nodes"
	"github.com/stint-dev/stint/internal/wire"
)

// Nodes is the use case of showing the nodes of the installation.
type Nodes struct {
	Store NodeStore
	Now   func() time.Time
}

// NodeStore reads what the nodes reported.
type NodeStore interface {
	// FindNodes returns the nodes with a heartbeat since a time, by name and id.
	FindNodes(ctx context.Context, since time.Time) ([]nodes.Node, error)
}

// List returns the nodes that have recently reported, by name and id.
func (n *Nodes) List(ctx context.Context, _ admin.Caller, _ wire.None) (wire.Page[wire.Node], error) {
	all, err := n.Store.FindNodes(ctx, n.Now().Add(-nodes.Gone))
	return wire.WholePage(all, wireNode), err
}

// wireNode returns a node as operators see it.
func wireNode(n nodes.Node) wire.Node {
	node := wire.Node{
		ID: n.ID, Name: n.Name, Version: n.Version, StartedAt: wire.At(n.Started), SeenAt: wire.At(n.Seen),
		RequestsPerSecond: n.PerSecond, P99MS: float64(n.P99.Microseconds()) / 1000, Degraded: n.Degraded, Revision: n.Revision,
	}
	if m := n.Memory; m.MaxBytes > 0 {
		node.Memory = &wire.NodeMemory{
			Bytes: m.Bytes, MaxBytes: m.MaxBytes, Forgetting: n.Forgetting(), ForgottenKeys: m.Forgotten,
			LastForgottenAt: wire.At(m.LastForgotten), UncountedRequests: m.Unkept,
		}
	}
	return node
}
