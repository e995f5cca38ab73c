package e2e_test

import (
	"testing"

	"github.com/stint-dev/stint/test/servers"
)

// onBothBackends runs a test on an embedded node, which is used twice where two
// are wanted, and on two nodes that share Redis and Postgres.
func onBothBackends(t *testing.T, test func(t *testing.T, nodes [2]*node)) {
	t.Run("embedded", func(t *testing.T) {
		n := startNode(t)
		test(t, [2]*node{n, n})
	})
	t.Run("distributed", func(t *testing.T) {
		all := shared(t).start(t, 2)
		for _, n := range all {
			n.awaitReady()
		}
		test(t, [2]*node{all[0], all[1]})
	})
}

// awaitReady waits until the node has loaded what it needs: on a busy machine
// it may run before its database answers.
func (n *node) awaitReady() {
	n.Helper()
	servers.Await(n, "the node is ready", func() bool { _, ready := n.ready(); return ready })
}

// policy makes a policy and waits until both nodes know it.
func policy(t *testing.T, nodes [2]*node, name, text string) {
	t.Helper()
	version := nodes[0].put(name, text).Version
	servers.Await(t, "both nodes know the policy", func() bool {
		x := nodes[1].explain(name + ":nobody")
		return x.Policy != nil && x.Policy.Name == name && x.Policy.Version == version
	})
}
