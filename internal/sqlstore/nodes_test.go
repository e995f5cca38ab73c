package sqlstore_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/nodes"
)

func TestNodes_are_shown_while_they_are_heard_of(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		now := f.clock.Now().UTC().Truncate(time.Millisecond)
		a := nodes.Node{ID: "a-1", Name: "a", Version: "v1", Started: now, Seen: now, PerSecond: 760.5, P99: 1100 * time.Microsecond, Revision: 3}
		b := nodes.Node{ID: "b-1", Name: "b", Version: "v1", Started: now, Seen: now.Add(-time.Hour), Degraded: true}
		for _, n := range []nodes.Node{b, a} {
			if err := f.PutNode(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		a.Seen, a.PerSecond, a.Degraded = now.Add(time.Second), 800, true
		if err := f.PutNode(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		all, err := f.Nodes(t.Context(), now)
		if err != nil || len(all) != 1 || all[0] != a {
			t.Errorf("got %+v, %v; want %+v", all, err, a)
		}
		if n, err := f.DeleteNodes(t.Context(), now); n != 1 || err != nil {
			t.Errorf("forgot %d, %v", n, err)
		}
		if err := f.DeleteNode(t.Context(), "a-1"); err != nil {
			t.Fatal(err)
		}
		if all, err := f.Nodes(t.Context(), time.Time{}); err != nil || len(all) != 0 {
			t.Errorf("left %+v, %v", all, err)
		}
	})
}
