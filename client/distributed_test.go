package client_test

import (
	"testing"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/test/testnode"
)

// Calls are charged once also if the log is in Redis.
func TestLostAnswersAreChargedOnceInRedis(t *testing.T) {
	n := testnode.StartDistributed(t)
	direct := connectTo(t, n.Check, client.WithMemory(0))
	used := func(key string) int {
		return 3 - ask(t, direct, client.Check{Key: key, Peek: true}).Rules[0].Remaining
	}
	one, other, far := fresh("user"), fresh("user"), fresh("far")

	d := ask(t, connectTo(t, lossyTo(t, n.Check, first(2, cutAfter)).URL), client.Check{Key: one})
	if !d.Allowed || !d.Replayed || d.Degraded || used(one) != 1 {
		t.Errorf("Check: got %+v, used %d", d, used(one))
	}

	both := client.CombinedCheck{Keys: []client.CombinedKey{{Key: one}, {Key: other, Cost: 2}}}
	j, err := connectTo(t, lossyTo(t, n.Check, first(2, cutAfter)).URL).CheckAll(t.Context(), both)
	if err != nil || !j.Allowed || !j.Replayed || used(one) != 2 || used(other) != 2 {
		t.Errorf("CheckAll: got %+v, %v, used %d and %d", j, err, used(one), used(other))
	}

	ask(t, direct, client.Check{Key: far})
	d = ask(t, connectTo(t, lossyTo(t, n.Check, first(2, cutAfter)).URL), client.Check{Key: far, MaxWait: client.MaxWait})
	if !d.Allowed || !d.Replayed || d.Reservation == nil {
		t.Fatalf("Check with MaxWait: got %+v", d)
	}
	if room, err := direct.Cancel(t.Context(), d.Reservation.Handle); err != nil || !room {
		t.Errorf("Cancel: got %v, %v, want true", room, err)
	}
	wantReservable(t, direct, far)
}
