package api

import (
	"github.com/stint-dev/stint/internal/nodes"
	"github.com/stint-dev/stint/internal/wire"
)

// fromNode shows one node.
func fromNode(n nodes.Node) wire.Node {
	return wire.Node{
		ID: n.ID, Name: n.Name, Version: n.Version, StartedAt: wire.At(n.Started), SeenAt: wire.At(n.Seen),
		RequestsPerSecond: n.PerSecond, SlowMS: float64(n.Slow.Microseconds()) / 1000, Degraded: n.Degraded, Revision: n.Revision,
	}
}
