package e2e_test

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func nodeFaults() []fault {
	back := func(w *world) {
		w.replace(1, w.launch(1, 0, strings.Replace(w.redis.URL, w.redis.Addr, w.redisWays[1].Addr, 1)))
	}
	const promise = "the other node goes on, no answer of it is degraded, every limit stays exact; a check that was not answered is charged once at most"
	return []fault{
		{name: "a node is killed", done: "kill -9 to one of two nodes, then another is started", promise: promise, silent: []int{1}, quick: true,
			inflict: func(w *world) { w.nodes[1].end(syscall.SIGKILL) }, heal: back},
		{name: "a node is terminated", done: "SIGTERM to one of two nodes, then another is started", promise: promise + "; it ends with 0", silent: []int{1},
			inflict: func(w *world) {
				if code := w.nodes[1].end(syscall.SIGTERM); code != 0 {
					w.Errorf("after SIGTERM the node ended with exit code %d, want 0", code)
				}
			}, heal: back},
		{name: "a node is paused", done: "SIGSTOP to one of two nodes, then SIGCONT", promise: promise, silent: []int{1}, mayDegrade: true,
			inflict: func(w *world) { w.signal(1, syscall.SIGSTOP) }, heal: func(w *world) { w.signal(1, syscall.SIGCONT) }},
	}
}

func (w *world) signal(i int, s syscall.Signal) {
	w.Helper()
	if err := w.nodes[i].cmd.Process.Signal(s); err != nil {
		w.Fatal(err)
	}
}

// replace replaces a node that has ended by one that was launched.
func (w *world) replace(i int, n *node) {
	w.Helper()
	n.awaitRunning()
	n.awaitReady()
	w.nodes[i] = n
	w.load.at[i].Store(&n.check)
}

// alone starts one node that needs no server.
func alone(t *testing.T) *world {
	n := startNode(t)
	return &world{T: t, nodes: []*node{n}}
}

// dataOf is the folder of an embedded node's data.
func dataOf(n *node) string { return filepath.Join(n.dir, "data") }

// onDataOf launches an embedded node on the data of another that has ended.
func onDataOf(n *node) *node {
	n.Helper()
	return launch(n, []string{"STINT_ADMIN_TOKEN=" + adminToken}, append(slices.Clone(onFreePorts), "--data-dir", dataOf(n))...)
}
