package client_test

import (
	"testing"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/client/internal/testnode"
)

// The same promise where the log is in Redis.
func TestAnswersThatAreLostAreChargedOnceInRedisToo(t *testing.T) {
	n := testnode.StartDistributed(t)
	direct := connectTo(t, n.Check, client.WithMemory(0))
	used := func(key string) int {
		return 3 - ask(t, direct, client.Check{Key: key, Peek: true}).Rules[0].Remaining
	}
	one, other, far := fresh("user"), fresh("user"), fresh("far")

	d := ask(t, connectTo(t, lossyTo(t, n.Check, first(2, cutAfter)).URL), client.Check{Key: one})
	if !d.Allowed || !d.Repeated || d.Degraded || used(one) != 1 {
		t.Errorf("a check: %+v, used %d", d, used(one))
	}

	both := client.JointCheck{Keys: []client.JointKey{{Key: one}, {Key: other, Cost: 2}}}
	j, err := connectTo(t, lossyTo(t, n.Check, first(2, cutAfter)).URL).CheckAll(t.Context(), both)
	if err != nil || !j.Allowed || !j.Repeated || used(one) != 2 || used(other) != 2 {
		t.Errorf("several keys: %+v, %v, used %d and %d", j, err, used(one), used(other))
	}

	ask(t, direct, client.Check{Key: far})
	d = ask(t, connectTo(t, lossyTo(t, n.Check, first(2, cutAfter)).URL), client.Check{Key: far, MaxWait: client.MaxWait})
	if !d.Allowed || !d.Repeated || d.Turn == nil {
		t.Fatalf("a turn: %+v", d)
	}
	if room, err := direct.GiveBack(t.Context(), d.Turn.Handle); err != nil || !room {
		t.Errorf("given back: %v, %v", room, err)
	}
	wantRoom(t, direct, far)
}
