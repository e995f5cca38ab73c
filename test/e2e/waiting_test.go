package e2e_test

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

// waitingCheck is a check with max_wait: when it was sent and answered, and its reservation.
type waitingCheck struct {
	sent, answered time.Time
	reservation    time.Time // zero where it was allowed at once
}

// waitersOn sends checks with max_wait from clients to two nodes and returns the allowed ones.
func waitersOn(t *testing.T, nodes [2]*node, key string, clients, each int) (allowed []waitingCheck) {
	t.Helper()
	var mu sync.Mutex
	var group sync.WaitGroup
	for c := range clients {
		group.Go(func() {
			for i := range each {
				one := waitingCheck{sent: time.Now()}
				a, err := try(post, nodes[(c+i)%2].check+wire.PathCheck, `{"key":"`+key+`","detail":"none","max_wait":"1h"}`)
				if err != nil {
					t.Error(err)
					return
				}
				one.answered = time.Now()
				d := read[wire.Decision](t, a)
				if d.Degraded || a.status != http.StatusOK || d.Waiting == nil || (d.DelayMS > 0) != (d.Reservation != nil) {
					t.Errorf("got %d: %s", a.status, a.body)
					return
				}
				if d.Reservation != nil {
					one.reservation = d.Reservation.At.Time
				}
				mu.Lock()
				allowed = append(allowed, one)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return allowed
}

// fullestWindow returns the largest number of sorted instants in a half-open window.
func fullestWindow(sorted []time.Time, window time.Duration) int {
	fullest, first := 0, 0
	for i, at := range sorted {
		for at.Sub(sorted[first]) >= window {
			first++
		}
		fullest = max(fullest, i-first+1)
	}
	return fullest
}

func TestReservationsKeepTheLimitAndTheOrderOfRequests(t *testing.T) {
	onBothBackends(t, func(t *testing.T, nodes [2]*node) {
		policy(t, nodes, "wait", `{"match":["wait:*"],"rules":["5/s","40/m"]}`)
		allowed := waitersOn(t, nodes, "wait:a", 12, 15)
		logged := nodes[1].logged("wait:a")
		if len(allowed) != 180 || len(logged) != 180 {
			t.Fatalf("%d of 180 checks were allowed and %d are logged", len(allowed), len(logged))
		}
		slices.SortFunc(logged, time.Time.Compare)
		for window, limit := range map[time.Duration]int{time.Second: 5, time.Minute: 40} {
			if got := fullestWindow(logged, window); got != limit {
				t.Errorf("the fullest window of %s has %d reservations, want %d", window, got, limit)
			}
		}
		// A check that was sent after another was answered has no earlier reservation.
		for _, a := range allowed {
			if !a.reservation.IsZero() && !slices.ContainsFunc(logged, a.reservation.Equal) {
				t.Errorf("the reservation at %s is not in the log", a.reservation)
			}
			for _, b := range allowed {
				// One that was allowed at once counts before its answer: after a pause of the whole
				// machine there may be no wait.
				if at := cmp.Or(b.reservation, b.answered); a.answered.Before(b.sent) && at.Before(a.reservation) {
					t.Fatalf("a check at %s, after the reservation %s was made, got the earlier reservation %s", b.sent, a.reservation, at)
				}
			}
		}
		for _, n := range nodes {
			if d := n.about("wait:a"); d.Allowed {
				t.Error("a check without max_wait was allowed before the reservations")
			}
		}
	})
}

// Requests have reservations 1 and 2 windows after one at 0. If the second
// is cancelled, none may be allowed before the window of the first has passed.
func TestCancelledReservationAdmitsNoMoreThanTheLimit(t *testing.T) {
	onBothBackends(t, func(t *testing.T, nodes [2]*node) {
		policy(t, nodes, "back", `{"match":["back:*"],"rules":["1/20m"]}`)
		const waits = `{"key":"back:a","max_wait":"1h"}`
		nodes[0].about("back:a")
		first, second := nodes[1].ask(waits), nodes[0].ask(waits)
		if !first.Allowed || !second.Allowed || second.Reservation.At.Sub(first.Reservation.At.Time) != 20*time.Minute {
			t.Fatalf("got the reservations %+v and %+v, want 20 minutes apart", first.Reservation, second.Reservation)
		}
		for i, want := range []bool{true, false} {
			a := nodes[1-i].send(del, nodes[1-i].check+wire.PathReservations+"/"+second.Reservation.Handle, "")
			if got := read[wire.Cancelled](t, a); a.status != http.StatusOK || got.Freed != want {
				t.Errorf("cancel, round %d: got %s", i, a.body)
			}
		}
		d := nodes[1].about("back:a")
		if d.Allowed || !d.RetryAt.Equal(first.Reservation.At.Add(20*time.Minute)) {
			t.Errorf("after the cancel: got %s until %s, want limited until a window after %s", d.Decision, d.RetryAt, first.Reservation.At)
		}
		if third := nodes[0].ask(waits); !third.Allowed || third.Reservation.At != second.Reservation.At {
			t.Errorf("a new check does not get the cancelled reservation: %+v", third.Waiting)
		}
		if logged := nodes[0].logged("back:a"); len(logged) != 3 {
			t.Errorf("the log has %d entries, want 3", len(logged))
		}
	})
}

func TestReservationsAreAWindowApart(t *testing.T) {
	onBothBackends(t, func(t *testing.T, nodes [2]*node) {
		policy(t, nodes, "soon", `{"match":["soon:*"],"rules":["1/300ms"]}`)
		for i := range 4 { // each is allowed when its wait is over, and the next one not before
			d := nodes[i%2].ask(`{"key":"soon:a","max_wait":"1m"}`)
			if !d.Allowed {
				t.Fatalf("request %d: got %+v", i, d)
			}
			time.Sleep(time.Duration(d.DelayMS) * time.Millisecond)
		}
		logged := nodes[0].logged("soon:a")
		for i := 1; i < len(logged); i++ {
			if apart := logged[i-1].Sub(logged[i]); apart < 300*time.Millisecond {
				t.Errorf("two reservations are %s apart, want at least 300 ms", apart)
			}
		}
	})
}

func TestRetryAfterACutConnectionIsChargedOnce(t *testing.T) {
	onBothBackends(t, func(t *testing.T, nodes [2]*node) {
		policy(t, nodes, "cut", `{"match":["cut:*"],"rules":["10/h"]}`)
		for i := range 8 {
			body := fmt.Sprintf(`{"key":"cut:%d","cost":3,"idempotency_key":"request %d"}`, i, i)
			sendAndCut(t, nodes[0], body)
			if i%2 == 0 { // otherwise the two requests may overlap
				servers.Await(t, "the request without an answer is charged", func() bool {
					return nodes[0].explain(fmt.Sprintf("cut:%d", i)).Policy.Rules[0].Used == 3
				})
			}
			d := nodes[1].ask(body)
			if !d.Allowed || i%2 == 0 && !d.Replayed {
				t.Errorf("request %d again: got %+v", i, d)
			}
			if again := nodes[0].ask(body); !again.Replayed {
				t.Errorf("request %d for the third time: got %+v", i, again)
			}
			if x := nodes[1].explain(fmt.Sprintf("cut:%d", i)); x.Policy.Rules[0].Used != 3 {
				t.Errorf("request %d was charged %d, want 3", i, x.Policy.Rules[0].Used)
			}
		}
	})
}

// sendAndCut sends a check and closes the connection before its answer.
func sendAndCut(t *testing.T, n *node, body string) {
	t.Helper()
	connection, err := net.Dial("tcp", strings.TrimPrefix(n.check, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := fmt.Fprintf(connection, "%sContent-Length: %d\r\n\r\n%s", checkHead, len(body), body); err != nil {
		t.Fatal(err)
	}
}
