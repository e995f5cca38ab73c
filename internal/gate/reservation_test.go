package gate

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
)

func waits(d time.Duration) func(*Check) { return func(c *Check) { c.MaxWait = d } }
func named(id string) func(*Check)       { return func(c *Check) { c.ID = id } }
func peeks(c *Check)                     { c.Peek = true }

func countRefused(p *rules.Policy) {
	p.Algorithm, p.Options.CountRefused = "sorted_set_log", true
}

func TestMaxWaitReturnsTheNextReservationAndAHandleToCancelIt(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "1/10s"))
	if d := n.check(t, "token:a", waits(time.Minute)); d.Delay != 0 || !d.ReservedAt.IsZero() || d.Handle != "" {
		t.Fatalf("allowed at once: wait %s, reservation %s, handle %q", d.Delay, d.ReservedAt, d.Handle)
	}
	peeked := n.check(t, "token:a", waits(time.Minute), peeks)
	if peeked.Outcome != Allowed || peeked.Delay != 10*time.Second || !peeked.ReservedAt.IsZero() || peeked.Handle != "" {
		t.Fatalf("a peek: %s, wait %s, reservation %s, handle %q", peeked.Outcome, peeked.Delay, peeked.ReservedAt, peeked.Handle)
	}
	second := n.check(t, "token:a", waits(time.Minute))
	if second.Outcome != Allowed || second.Delay != 10*time.Second || !second.ReservedAt.Equal(n.clock().Add(10*time.Second)) || second.Handle == "" {
		t.Fatalf("the second: %s, wait %s, reservation %s, handle %q", second.Outcome, second.Delay, second.ReservedAt, second.Handle)
	}
	if d := n.check(t, "token:a", waits(15*time.Second)); d.Outcome != Limited || d.RetryAfter() != 5*time.Second {
		t.Errorf("beyond MaxWait: got %s, retry after %s; want limited, 5s", d.Outcome, d.RetryAfter())
	}
	if d := n.check(t, "token:a"); d.Outcome != Limited {
		t.Errorf("a check without MaxWait is %s before a reservation, want limited", d.Outcome)
	}
	third := n.check(t, "token:a", waits(time.Minute))
	n.wantCancelled(t, third.Handle, true)
	n.wantCancelled(t, third.Handle, false)
	n.advance(10 * time.Second)
	n.wantCancelled(t, second.Handle, false) // its time has passed
}

func (n *node) wantCancelled(t *testing.T, handle string, want bool) {
	t.Helper()
	if made, err := n.Cancel(t.Context(), handle); err != nil || made != want {
		t.Errorf("Cancel: got %v, %v; want %v", made, err, want)
	}
}

func cancellable(c *Check) { c.Cancellable = true }

func costs(cost int) func(*Check) { return func(c *Check) { c.Cost = cost } }

func TestAChargeIsCancelledByItsHandleWhileItCounts(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "5/10s"), policy(t, 2, "trial", "*", "5/10s", mode(rules.Shadow)))
	first := n.check(t, "token:a", cancellable, costs(3))
	if first.Delay != 0 || !first.ReservedAt.Equal(n.clock()) || first.Handle == "" {
		t.Fatalf("a cancellable check: wait %s, reserved at %s, handle %q", first.Delay, first.ReservedAt, first.Handle)
	}
	if d := n.check(t, "token:a", cancellable, costs(3)); d.Outcome != Limited || d.Handle != "" || d.Shadow.Outcome != Limited {
		t.Errorf("a refused check: %s, handle %q", d.Outcome, d.Handle)
	}
	if d := n.check(t, "token:a", cancellable, peeks); d.Handle != "" || !d.ReservedAt.IsZero() {
		t.Errorf("a peek has the handle %q", d.Handle)
	}
	second := n.check(t, "token:a", cancellable, costs(2), named("second"))
	n.advance(9 * time.Second)
	if again := n.check(t, "token:a", cancellable, named("second")); !again.Replayed || again.Handle != second.Handle {
		t.Errorf("the same again: replayed %v, handle %q, want %q", again.Replayed, again.Handle, second.Handle)
	}
	n.wantCancelled(t, first.Handle, true)
	n.wantCancelled(t, first.Handle, false)
	if d := n.check(t, "token:a", costs(3)); d.Outcome != Allowed || d.Shadow.Outcome != Allowed {
		t.Errorf("after Cancel: %s, shadow %s, want both to have room again", d.Outcome, d.Shadow.Outcome)
	}
	n.advance(time.Second)
	n.wantCancelled(t, second.Handle, false) // it no longer counts
}

func TestAnAmountIsCancelledByItsHandle(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "", ofAmounts(t, "1M tokens/1d")))
	charged := n.check(t, "team:a", cancellable, costs(700_000))
	n.advance(9 * time.Minute)
	if d := n.check(t, "team:a", costs(400_000)); d.Outcome != Limited {
		t.Fatalf("before Cancel: %s", d.Outcome)
	}
	n.wantCancelled(t, charged.Handle, true)
	n.wantCancelled(t, charged.Handle, false)
	if d := n.check(t, "team:a", costs(1_000_000)); d.Outcome != Allowed {
		t.Errorf("after Cancel: %s, want the whole limit", d.Outcome)
	}
	held := n.check(t, "team:b", cancellable, func(c *Check) { c.Hold = time.Minute })
	if held.Handle != "" || held.Hold.Handle == "" {
		t.Errorf("what is held has the handle %q, want only that of the hold", held.Handle)
	}
}

func TestSeveralKeysAreCancelledByOneHandle(t *testing.T) {
	n := newNode(t, policy(t, 1, "tokens", "token:*", "1/10s"), policy(t, 2, "teams", "team:*", "", ofAmounts(t, "1k tokens/1d")))
	ask := func() Combined {
		t.Helper()
		c, err := n.DecideAll(t.Context(), []Check{{Key: key(t, "token:a"), Cost: 1, Cancellable: true}, {Key: key(t, "team:a"), Cost: 1000, Cancellable: true}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	charged := ask()
	if refused := ask(); refused.Allowed() || refused.Handle != "" {
		t.Errorf("a second check: %s, handle %q", refused.Outcome, refused.Handle)
	}
	n.wantCancelled(t, charged.Handle, true)
	if again := ask(); !again.Allowed() {
		t.Errorf("after Cancel: %s", again.Outcome)
	}
}

func TestNothingIsCancellableUnderPoliciesThatDoNotKeepIt(t *testing.T) {
	for what, change := range map[string]func(*rules.Policy){
		"a counter": func(p *rules.Policy) { p.Algorithm = "token_bucket" }, "refused requests": countRefused,
	} {
		n := newNode(t, policy(t, 1, "default", "*", "5/10s", change))
		_, err := n.Check(t.Context(), Check{Key: key(t, "token:a"), Cost: 1, Cancellable: true})
		var mistake *fault.Error
		if !errors.As(err, &mistake) || mistake.Field != "cancellable" {
			t.Errorf("%s: %v, want an error about cancellable", what, err)
		}
	}
}

// Cancelling a reservation must not allow a request before the earlier reservation.
func TestCancelledReservationNeverAllowsMoreInAWindow(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "1/10s"))
	n.check(t, "token:a") // at 0
	first, second := n.check(t, "token:a", waits(time.Minute)), n.check(t, "token:a", waits(time.Minute))
	if first.Delay != 10*time.Second || second.Delay != 20*time.Second {
		t.Fatalf("reserved in %s and %s", first.Delay, second.Delay)
	}
	n.wantCancelled(t, second.Handle, true)
	n.advance(2 * time.Second)
	if d := n.check(t, "token:a"); d.Outcome != Limited || d.RetryAfter() != 18*time.Second {
		t.Errorf("at 2s: got %s, retry after %s; want limited, 18s", d.Outcome, d.RetryAfter())
	}
}

func TestRepeatedRequestIsChargedOnceAndKeepsItsReservation(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "1/10s"), policy(t, 2, "trial", "*", "2/10s", mode(rules.Shadow)))
	n.check(t, "token:a", named("first"))
	if d := n.check(t, "token:a", named("first")); d.Outcome != Allowed || !d.Replayed || d.Shadow.Outcome != Allowed {
		t.Fatalf("the same id: got %s, replayed %v, shadow %s", d.Outcome, d.Replayed, d.Shadow.Outcome)
	}
	reserved := n.check(t, "token:a", named("second"), waits(time.Minute))
	n.advance(4 * time.Second)
	again := n.check(t, "token:a", named("second"), waits(time.Minute))
	if !again.Replayed || !again.ReservedAt.Equal(reserved.ReservedAt) || again.Delay != 6*time.Second || again.Handle != reserved.Handle {
		t.Errorf("the same id with a reservation: got replayed %v, reservation %s, delay %s", again.Replayed, again.ReservedAt, again.Delay)
	}
	if d := n.check(t, "token:a", named("third")); d.Outcome != Limited || d.Replayed {
		t.Errorf("another id: got %s, replayed %v", d.Outcome, d.Replayed)
	}
}

// docs/WAITING.md promises a reservation that comes again the same instant and handle, even with
// another cost.
func TestRepeatedRequestWithAnotherCostHasTheHandleOfItsReservation(t *testing.T) {
	for what, further := range map[string]func(*rules.Policy){"one key": also(t), "a further key": also(t, "account 9/10s")} {
		t.Run(what, func(t *testing.T) {
			n := newNode(t, policy(t, 1, "default", "*", "9/10s", further))
			n.check(t, "token:a", withAccount("eve"), costs(9))
			reserved := n.check(t, "token:a", withAccount("eve"), costs(4), named("first"), waits(time.Minute))
			for _, cost := range []int{1, 9} {
				again := n.check(t, "token:a", withAccount("eve"), costs(cost), named("first"), waits(time.Minute))
				if !again.Replayed || again.Handle != reserved.Handle || again.Handle == "" {
					t.Errorf("again with cost %d: replayed %v, handle %q; want the handle %q", cost, again.Replayed, again.Handle, reserved.Handle)
				}
			}
			n.wantCancelled(t, reserved.Handle, true)
			if d := n.check(t, "token:a", withAccount("eve"), waits(time.Minute), peeks); d.Delay != 10*time.Second {
				t.Errorf("after Cancel the delay is %s, want 10s", d.Delay)
			}
		})
	}
}

// A policy with an outcome that a check names has no reservation itself.
func TestReservationBesideAPolicyThatChargesNothingHasAHandle(t *testing.T) {
	n := newNode(t, policy(t, 1, "login", "*", "1/10s", when(t, "/login", "")), policy(t, 2, "guessing", "*", "1/10s", counts("login_failed")))
	login := func(c *Check) { withRequest("POST", "/login")(c); c.Policy = "guessing" }
	n.check(t, "token:a", login)
	d := n.check(t, "token:a", login, waits(time.Minute))
	if d.Outcome != Allowed || d.Delay != 10*time.Second || !d.ReservedAt.Equal(n.clock().Add(10*time.Second)) || d.Policy.Name != "login" {
		t.Errorf("got %s under %s in %s, reserved for %s; want a reservation under login in 10s", d.Outcome, d.Policy.Name, d.Delay, d.ReservedAt)
	}
	n.wantCancelled(t, d.Handle, true)
	if d := n.check(t, "token:a", login, waits(time.Minute), peeks); d.Delay != 10*time.Second {
		t.Errorf("after Cancel the delay is %s, want 10s", d.Delay)
	}
}

// A request that comes again with other conditions is charged to the policies that do not know it.
func TestPartlyRepeatedRequestWaitsForItsNewReservation(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "5/10s"), policy(t, 2, "login", "*", "1/10s", when(t, "/login", "")))
	n.check(t, "token:a", withRequest("POST", "/login"))
	n.check(t, "token:a", named("first"), waits(time.Minute), withRequest("GET", "/a"))
	d := n.check(t, "token:a", named("first"), waits(time.Minute), withRequest("POST", "/login"))
	if d.Outcome != Allowed || !d.Replayed || d.Delay != 10*time.Second || d.ReservedAt.IsZero() {
		t.Errorf("got %s, replayed %v, in %s, reserved for %s; want a reservation in 10s", d.Outcome, d.Replayed, d.Delay, d.ReservedAt)
	}
	n.wantCancelled(t, d.Handle, true)
}

func TestReservationIsCancelledInTheLogOfTheShadowPolicyToo(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "1/10s"), policy(t, 2, "trial", "*", "1/10s", mode(rules.Shadow)))
	n.check(t, "token:a")
	reserved := n.check(t, "token:a", waits(time.Minute))
	if reserved.Shadow.Outcome != Allowed || reserved.Shadow.Delay != 10*time.Second {
		t.Fatalf("the shadow: %s in %s", reserved.Shadow.Outcome, reserved.Shadow.Delay)
	}
	n.wantCancelled(t, reserved.Handle, true)
	if d := n.check(t, "token:a", waits(time.Minute), peeks); d.Delay != 10*time.Second || d.Shadow.Delay != 10*time.Second {
		t.Errorf("after Cancel the delay is %s, that of the shadow %s; want 10s and 10s", d.Delay, d.Shadow.Delay)
	}
}

func TestCountRefusedExcludesReservations(t *testing.T) {
	n := newNode(t, policy(t, 1, "counting", "a:*", "1/10s", countRefused), policy(t, 2, "default", "*", "1/10s"),
		policy(t, 3, "trial", "*", "1/10s", mode(rules.Shadow), countRefused))
	_, err := n.Check(t.Context(), Check{Key: key(t, "a:a"), Cost: 1, MaxWait: time.Second})
	if field := fieldOf(err); field != "max_wait" {
		t.Errorf("got %v, want an error about max_wait", err)
	}
	n.check(t, "token:a")
	if d := n.check(t, "token:a", waits(time.Minute)); d.Outcome != Allowed || d.Shadow.Outcome != Limited {
		t.Errorf("with a shadow policy that counts refused requests: got %s, the shadow %s", d.Outcome, d.Shadow.Outcome)
	}
}

func fieldOf(err error) string {
	var mistake *fault.Error
	if errors.As(err, &mistake) {
		return mistake.Field
	}
	return ""
}

func TestOutageReservationHasNoHandleAndCannotBeCancelled(t *testing.T) {
	n, log := newRemoteNode(t, policy(t, 1, "default", "*", "1/10s"))
	n.check(t, "token:a")
	reserved := n.check(t, "token:a", waits(time.Minute))
	log.down.Store(true)
	n.check(t, "token:b")
	d := n.check(t, "token:b", waits(time.Minute))
	if d.Outcome != Allowed || d.Delay != 10*time.Second || !d.ReservedAt.IsZero() || d.Handle != "" || d.Degraded == "" {
		t.Errorf("got %s, wait %s, reservation %s, handle %q, degraded %q", d.Outcome, d.Delay, d.ReservedAt, d.Handle, d.Degraded)
	}
	if _, err := n.Cancel(t.Context(), reserved.Handle); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Cancel in an outage: got %v, want Unavailable", err)
	}
}

func TestCancelRejectsInvalidHandles(t *testing.T) {
	n := newNode(t, policy(t, 1, "default", "*", "1/10s"))
	n.check(t, "token:a")
	good := n.check(t, "token:a", waits(time.Minute)).Handle
	foreign := newSigner([]byte("another")).handle("x", reservationsOf(&Decision{Policy: n.selector.Policies()[0], Check: Check{Key: key(t, "token:a"), ID: "x"}, Answer: Answer{ReservedAt: n.clock()}}))
	flipped := []byte(good)
	flipped[5] ^= 1
	for name, handle := range map[string]string{
		"none": "", "not base64": "!!!", "a short one": "AAAA", "one of another secret": foreign, "an altered one": string(flipped),
		"half of a valid one": good[:len(good)/2], "one with bytes after its end": good + "AAAA", "one with padding": good + "=", "a huge one": strings.Repeat("A", MaxHandle+1),
	} {
		if _, err := n.Cancel(t.Context(), handle); !fault.Is(err, fault.NotFound) {
			t.Errorf("Cancel of %s: got %v, want NotFound", name, err)
		}
	}
	// A handle with any changed character is invalid.
	for i := range good {
		for _, c := range "Ab_9" {
			altered := good[:i] + string(c) + good[i+1:]
			if _, known := presentSigner(n.Gate).read(altered); known != (altered == good) {
				t.Fatalf("%q is read as a handle", altered)
			}
		}
	}
	n.wantCancelled(t, good, true)
}

func TestLongestHandleHasTheDocumentedLength(t *testing.T) {
	const maxInt = 1<<63 - 1
	m := newSigner([]byte("secret"))
	var reservations []reserved
	for i := range 16 {
		long := fmt.Sprintf("%0512d", i)
		for further := range 2 {
			r := reserved{sharesKey: further > 0}
			r.Policy, r.Generation, r.At, r.Key, r.ID = maxInt, maxInt, maxInt, long, strings.Repeat("i", 64)
			r.Cost, r.Counts = algorithms.MaxAmount, timestamplog.MaxCounts
			reservations = append(reservations, r)
		}
	}
	for range timestamplog.MaxCombined - 16 {
		reservations = append(reservations, reservations[len(reservations)-1])
	}
	for range timestamplog.MaxCombined - 16 {
		r := reservations[0]
		r.Key = strings.Repeat("k", maxDerivedBytes/(timestamplog.MaxCombined-16))
		reservations = append(reservations, r)
	}
	handle := m.handle(reservations[0].ID, reservations)
	if len(handle) > MaxHandle || len(handle) < MaxHandle-400 {
		t.Errorf("the longest handle has %d characters, want at most MaxHandle and nearly that: %d", len(handle), MaxHandle)
	}
	back, known := m.read(handle)
	if !known || fmt.Sprint(back) != fmt.Sprint(reservations) {
		t.Error("read returns other reservations than the handle was made of")
	}
	if MaxHandle != 15_811 {
		t.Errorf("MaxHandle is %d, and the documents name 15,811", MaxHandle)
	}
}

func FuzzHandle(f *testing.F) {
	m := newSigner([]byte("secret"))
	r := reserved{}
	r.Policy, r.Generation, r.At, r.Cost, r.Key, r.ID = 1, 0, 1_790_000_000_000, 1, "token:a", "id"
	f.Add([]byte(m.handle("id", []reserved{r})))
	f.Add([]byte("AQ"))
	f.Fuzz(func(t *testing.T, text []byte) {
		// A handle with a valid MAC is read without a panic, whatever it contains.
		if raw, err := handleText.DecodeString(string(text)); err == nil {
			for _, version := range []byte{handleVersion, chargeVersion} {
				m.read(handleText.EncodeToString(m.sealed(append([]byte{version}, raw...))))
			}
		}
		m.read(string(text))
	})
}

// What a client chooses makes no cancellable check an error: neither an additional policy that cannot cancel,
// nor more further keys than a handle holds, for which there is none.
func TestClientsDoNotKeepChecksFromBeingCancellable(t *testing.T) {
	own := policy(t, 1, "default", "*", "5/10s")
	refusals := policy(t, 2, "posts", "*", "5/10s", when(t, "", "POST"), func(p *rules.Policy) {
		p.Algorithm, p.Options.CountRefused = algorithms.SortedSetLog, true
	})
	n := newNode(t, own, refusals)
	said := func(c *Check) { c.Request = conditions.NewRequest("/", "POST", "", "") }
	d := n.check(t, "token:a", cancellable, said)
	if d.Outcome != Allowed || d.Handle == "" || len(d.Additional) != 1 {
		t.Fatalf("got %s, handle %q, %d additional policies", d.Outcome, d.Handle, len(d.Additional))
	}
	n.wantCancelled(t, d.Handle, true)
}
