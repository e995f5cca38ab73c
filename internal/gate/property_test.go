package gate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/rules"
)

// TestAnySequenceOfChecksKeepsItsPromises asks random checks, alone and several as one, about
// random policies. Each is peeked at before: the answer is the same, its retry is exact, an
// allowed one that is sent again is replayed, and a cancelled reservation is free again.
func TestAnySequenceOfChecksKeepsItsPromises(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := randomChecks{Rand: rand.New(rand.NewPCG(seed, 1)), t: t}
			w.node = newNode(t, w.policies()...)
			for range 60 {
				w.advance(time.Duration(w.IntN(150)) * time.Millisecond)
				if w.IntN(5) == 0 {
					w.report(t, w.key(), "login_failed")
					continue
				}
				w.try(w.checks())
			}
		})
	}
}

// randomChecks makes up policies and checks.
type randomChecks struct {
	*rand.Rand
	*node
	t   *testing.T
	ids int
}

func (w *randomChecks) pick(texts ...string) string { return texts[w.IntN(len(texts))] }

func (w *randomChecks) key() string {
	return w.pick("ip:203.0.113.1", "ip:203.0.113.2", "ip:2001:db8::1", "ip:2001:db8::2", "token:a")
}

func (w *randomChecks) stack() string {
	var all []string
	for range 1 + w.IntN(2) {
		all = append(all, fmt.Sprintf("%d/%dms", 1+w.IntN(5), 1+w.IntN(300)))
	}
	return strings.Join(all, " ")
}

func (w *randomChecks) policies() []*rules.Policy {
	counted := func(p *rules.Policy) {
		a := algorithms.All()[w.IntN(len(algorithms.All()))]
		p.Algorithm = a.Name
		if a.Takes(algorithms.OptionVariant) && w.IntN(2) == 0 {
			p.Options.Variant = algorithms.VariantQueue
		}
		if w.IntN(2) == 0 {
			also(w.t, "net:/24 "+w.stack(), "account "+w.stack())(p)
		}
	}
	all := []*rules.Policy{policy(w.t, 1, "default", "*", w.stack(), counted), policy(w.t, 2, "addresses", "ip:*", w.stack(), counted)}
	if w.IntN(2) == 0 {
		all = append(all, policy(w.t, 3, "login", "*", w.stack(), counted, when(w.t, "/login", "")))
	}
	for i := range w.IntN(2) * 11 { // with three keys more than one call of the log takes
		all = append(all, policy(w.t, int64(4+i), fmt.Sprint("guessing-", i), "*", w.stack(), counted, counts("login_failed")))
	}
	return all
}

// checks returns a check, or several to be decided as one.
func (w *randomChecks) checks() []Check {
	wait := time.Duration(w.IntN(2)*w.IntN(400)) * time.Millisecond
	w.ids++
	var all []Check
	for range 1 + w.IntN(2)*w.IntN(4) {
		c := Check{Key: key(w.t, w.key()), Cost: 1 + w.IntN(2), MaxWait: wait, ID: fmt.Sprint(w.ids), Detail: w.IntN(2) == 0}
		if w.IntN(3) > 0 {
			c.Request = conditions.NewRequest(w.pick("/login", "/a"), "GET", "", "").WithValues(map[string]string{"account": w.pick("x", "y")})
		}
		if w.IntN(4) == 0 {
			c.Policy = w.pick("default", "addresses")
		}
		all = append(all, c)
	}
	return all
}

func (w *randomChecks) ask(checks []Check, peek bool) (Combined, error) {
	asked := make([]Check, len(checks))
	for i, c := range checks {
		asked[i] = c
		asked[i].Peek = peek
	}
	return w.DecideAll(w.t.Context(), asked)
}

// peekAt peeks as of another time.
func (w *randomChecks) peekAt(at time.Time, checks []Check) Outcome {
	now := w.clock()
	defer w.now.Store(now.UnixMilli())
	w.now.Store(at.UnixMilli())
	c, err := w.ask(checks, true)
	if err != nil {
		w.t.Fatal(err)
	}
	return c.Outcome
}

func (w *randomChecks) try(checks []Check) {
	w.t.Helper()
	peeked, invalid := w.ask(checks, true)
	got, err := w.ask(checks, false)
	switch {
	case invalid != nil && err != nil: // the cost is too large, or a log is named twice
	case invalid != nil || err != nil || got.Outcome != peeked.Outcome || got.Delay != peeked.Delay || !got.RetryAt.Equal(peeked.RetryAt):
		w.t.Fatalf("%+v: peeked %s in %s until %s, %v; got %s in %s until %s, %v", checks,
			peeked.Outcome, peeked.Delay, peeked.RetryAt, invalid, got.Outcome, got.Delay, got.RetryAt, err)
	case got.Outcome == Allowed:
		w.again(checks, got)
	case !got.Never:
		if before, at := w.peekAt(got.RetryAt.Add(-time.Millisecond), checks), w.peekAt(got.RetryAt, checks); before == Allowed || at != Allowed {
			w.t.Fatalf("%+v: %s a millisecond before %s and %s then", checks, before, got.RetryAt, at)
		}
	}
}

// again sends allowed checks a second time, perhaps with other costs, and may cancel their
// reservation.
func (w *randomChecks) again(checks []Check, got Combined) {
	w.t.Helper()
	first := checks
	if checks = slices.Clone(checks); w.IntN(2) == 0 {
		for i := range checks {
			checks[i].Cost = 1
		}
	}
	if again, err := w.ask(checks, false); err != nil || again.Outcome != Allowed || !again.ReservedAt.Equal(got.ReservedAt) || again.Handle != got.Handle {
		w.t.Fatalf("%+v sent again: %s for %s, %v; want %s", checks, again.Outcome, again.ReservedAt, err, got.ReservedAt)
	}
	if got.Handle == "" || w.IntN(3) > 0 {
		return
	}
	w.wantCancelled(w.t, got.Handle, true)
	if after, err := w.ask(first, true); err != nil || after.Outcome != Allowed || after.Delay != got.Delay {
		w.t.Fatalf("%+v after Cancel: %s in %s, %v; want in %s", checks, after.Outcome, after.Delay, err, got.Delay)
	}
}
