package operations_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/nodes"
	"github.com/stint-dev/stint/test/storetest"
)

func TestNodesListsRecentlySeenNodes(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		now := f.Clock.Now().UTC().Truncate(time.Millisecond)
		a := nodes.Node{ID: "a-1", Name: "a", Version: "v1", Started: now, Seen: now, PerSecond: 760.5, P99: 1100 * time.Microsecond, Revision: 3,
			Memory: nodes.Memory{Bytes: 5, MaxBytes: 6, Forgotten: 7, LastForgotten: now.Add(-time.Second), Unkept: 8}}
		b := nodes.Node{ID: "b-1", Name: "b", Version: "v1", Started: now, Seen: now.Add(-time.Hour), Degraded: true}
		for _, n := range []nodes.Node{b, a} {
			if err := f.Nodes.PutNode(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		a.Seen, a.PerSecond, a.Degraded = now.Add(time.Second), 800, true
		if err := f.Nodes.PutNode(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		all, err := f.FindNodes(t.Context(), now)
		if err != nil || len(all) != 1 || !sameNode(all[0], a) {
			t.Errorf("got %+v, %v; want %+v", all, err, a)
		}
		if n, err := f.Nodes.DeleteNodes(t.Context(), now); n != 1 || err != nil {
			t.Errorf("DeleteNodes() = %d, %v, want 1", n, err)
		}
		if err := f.Nodes.DeleteNode(t.Context(), "a-1"); err != nil {
			t.Fatal(err)
		}
		if all, err := f.FindNodes(t.Context(), time.Time{}); err != nil || len(all) != 0 {
			t.Errorf("got %+v, %v, want no node", all, err)
		}
	})
}

// sameNode reports whether two nodes are the same. Times may differ by how long the database takes
// to answer.
func sameNode(got, want nodes.Node) bool {
	for _, its := range []struct{ got, want *time.Time }{
		{&got.Started, &want.Started}, {&got.Seen, &want.Seen}, {&got.Memory.LastForgotten, &want.Memory.LastForgotten},
	} {
		if its.got.Sub(*its.want).Abs() > 30*time.Second {
			return false
		}
		*its.got = *its.want
	}
	return got == want
}

// Nodes whose clocks differ must see each other, and neither may delete the other.
func TestNodesWithOtherClocksAreSeenAsRunning(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		now := f.Clock.Now()
		for name, ahead := range map[string]time.Duration{"behind": -2 * time.Hour, "ahead": 2 * time.Hour} {
			f.Clock.Advance(ahead)
			its := nodes.Node{ID: name, Name: name, Started: f.Clock.Now().Add(-time.Hour), Seen: f.Clock.Now()}
			if err := f.Nodes.PutNode(t.Context(), its); err != nil {
				t.Fatal(err)
			}
			f.Clock.Advance(-ahead)
		}
		if n, err := f.Nodes.DeleteNodes(t.Context(), now.Add(-time.Hour)); n != 0 || err != nil {
			t.Errorf("DeleteNodes() = %d, %v, want 0", n, err)
		}
		all, err := f.FindNodes(t.Context(), now.Add(-time.Minute))
		if err != nil || len(all) != 2 {
			t.Fatalf("got %+v, %v, want both nodes", all, err)
		}
		for _, n := range all {
			if want := (nodes.Node{ID: n.Name, Name: n.Name, Started: now.Add(-time.Hour), Seen: now}); !sameNode(n, want) {
				t.Errorf("got %+v, want %+v", n, want)
			}
		}
	})
}
