package client_test

import (
	"testing"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/test/testnode"
)

// The same promise where the log is in Redis.
func TestLostAnswersAreChargedOnceInRedis(t *testing.T) {
	n := testnode.StartDistributed(t)
	direct := connectTo(t, n.Check, client.WithMemory(0))
	used := func(key string) int {
		return 3 - ask(t, direct, client.Check{Key: key, Peek: true}).Rules[0].Remaining
	}
	one, other, far := fresh("user"), fresh("user"), fresh("far")

	d := ask(t, connectTo(t, lossyTo(t, n.Check, first(2, cutAfter)).URL), client.Check{Key: one})
	if !d.Allowed || !d.Replayed || d.Degraded || used(one) != 1 {
		t.Errorf("a check: %+v, used %d", d, used(one))
	}

	both := client.CombinedCheck{Keys: []client.CombinedKey{{Key: one}, {Key: other, Cost: 2}}}
	j, err := connectTo(t, lossyTo(t, n.Check, first(2, cutAfter)).URL).CheckAll(t.Context(), both)
	if err != nil || !j.Allowed || !j.Replayed || used(one) != 2 || used(other) != 2 {
		t.Errorf("several keys: %+v, %v, used %d and %d", j, err, used(one), used(other))
	}

	ask(t, direct, client.Check{Key: far})
	d = ask(t, connectTo(t, lossyTo(t, n.Check, first(2, cutAfter)).URL), client.Check{Key: far, MaxWait: client.MaxWait})
	if !d.Allowed || !d.Replayed || d.Reservation == nil {
		t.Fatalf("a reservation: %+v", d)
	}
	if room, err := direct.Cancel(t.Context(), d.Reservation.Handle); err != nil || !room {
		t.Errorf("cancelled: %v, %v", room, err)
	}
	wantRoom(t, direct, far)
}
