package logtest

import (
	"fmt"
	"testing"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// counter is one algorithm with options.
type counter struct {
	algorithm *algorithms.Algorithm
	options   algorithms.Options
}

func (c counter) String() string {
	name := c.algorithm.Name
	if c.options.WindowStart != "" {
		name += " from " + c.options.WindowStart
	}
	if c.options.Variant != "" {
		name += " as " + c.options.Variant
	}
	if c.options.Burst > 0 {
		name += fmt.Sprintf(" with a burst of %d", c.options.Burst)
	}
	return name
}

// everyCounter returns each registered counter, with each of its options.
func everyCounter() []counter {
	var every []counter
	for _, a := range algorithms.WithPoints() {
		if a.IsLog() {
			continue
		}
		variants := []algorithms.Options{{}}
		if a.Takes(algorithms.OptionWindowStart) {
			variants = append(variants, algorithms.Options{WindowStart: algorithms.WindowFirst})
		}
		if a.Takes(algorithms.OptionVariant) {
			variants = append(variants, algorithms.Options{Variant: algorithms.VariantQueue})
		}
		if a.Takes(algorithms.OptionBurst) {
			for _, o := range variants {
				o.Burst = 3
				variants = append(variants, o)
			}
		}
		for _, o := range variants {
			every = append(every, counter{a, o})
		}
	}
	return every
}

// RunCounters runs the contracts of the counters, each under every registered
// one with every option.
func RunCounters(t *testing.T, newHarness func(*testing.T) Harness) {
	for _, c := range everyCounter() {
		t.Run(c.String(), func(t *testing.T) {
			contracts := counterContracts()
			if c.algorithm.TakesReservations() {
				contracts = append(contracts, counterReservationContracts()...)
			}
			if c.algorithm.Name != algorithms.PointLog && c.options.Burst == 0 && c.options.Variant == "" {
				contracts = append(contracts, contract{"a counter takes amounts up to 10^15, each whole or not at all", counterAmounts})
			}
			if c.algorithm.Name == algorithms.PointLog {
				contracts = append(contracts, pointContracts()...)
			}
			if c.algorithm.Name == algorithms.AmountLog {
				contracts = append(contracts, append(holdContracts(), amountCharges()...)...)
			}
			run(t, contracts, func(t *testing.T) Harness {
				h := newHarness(t)
				h.Algorithm, h.Options = c.algorithm.Name, c.options
				return h
			})
		})
	}
}

func counterContracts() []contract {
	return []contract{
		{"any sequence of requests, reservations, clock moves, resets and changes of policy is answered as the engine answers it",
			simulate(func() oracle { return newCounterModel() })},
		{"usage that does not fit is counted as far as it fits, and refused", counterUsage},
		{"what a stack refuses is counted by none of its rules", counterAllOrNothing},
		{"a request is allowed at RetryAt and not a millisecond earlier", counterRetry},
		{"a peek answers and counts nothing", counterPeek},
		{"a reset forgets the counter and no other", counterResets},
		{"a counter has no times", counterTimes},
		{"a counter and a log of one LogID are separate", counterBesideLog},
		{"a repeated request is counted once", counterAgain},
		{"several requests are counted together or not at all", counterCombined},
		{"a raised limit frees sooner, and what was counted still counts", counterLimits},
		{"RefusalValidUntil is no later than the end of what is kept", counterRefusedUntil},
		{"a clock that steps back an hour does not open the limit, and makes no key wait an hour", counterBack},
		{"many callers are allowed as many requests as one caller", counterManyCallers},
	}
}

func pointContracts() []contract {
	return []contract{{"points are charged once for a value, fill the limit and are forgiven by item", points}}
}

func counterReservationContracts() []contract {
	return []contract{
		{"a request that would wait gets a reservation, in order, for when an immediate request would be allowed", counterReservations},
		{"a repeated reservation is counted once", counterReservedAgain},
		{"cancelling the newest reservation restores the counter, and an earlier one cannot be cancelled", counterCancelled},
		{"several requests are counted at one common reservation", counterReservedTogether},
	}
}

// fill sends requests until one is refused and returns the refusal and how many were
// allowed.
func (f *fixture) fill(cost int) (refusal timestamplog.Result, allowed int) {
	f.t.Helper()
	for range 10_000 {
		r := f.ask(cost)
		if !r.Allowed {
			return r, allowed
		}
		allowed++
	}
	f.t.Fatal("Decide: 10,000 requests were allowed, want one refused")
	return refusal, allowed
}

// counterAmounts counts in trillions, which are whole milliseconds of a window of an hour.
func counterAmounts(t *testing.T, h Harness) {
	f := newFixture(t, h, "1000T tokens/1h")
	const trillion, most = 1_000_000_000_000, algorithms.MaxAmount
	f.at(0)
	f.wantAllowed(f.decide(f.request(most - 7*trillion)))
	if r := f.decide(f.request(8 * trillion)); r.Allowed || r.RetryAt <= r.Now || r.RetryAt == timestamplog.Never {
		t.Fatalf("8T where 7T are left: %s", f.describe(r))
	}
	if states := f.detail(trillion); states[0].Remaining != 7*trillion {
		t.Fatalf("%d are left, want 7T", states[0].Remaining)
	}
	f.wantAllowed(f.decide(f.request(7 * trillion)))
	refused := f.decide(f.request(most))
	if refused.Allowed || refused.RetryAt == timestamplog.Never {
		t.Fatalf("all again: %s", f.describe(refused))
	}
	f.at(refused.RetryAt - f.start)
	f.wantAllowed(f.decide(f.request(most)))
}

func counterAllOrNothing(t *testing.T, h Harness) {
	f := newFixture(t, h, "5/s", "0/m")
	open := f.with("5/s")
	for range 20 {
		f.limit(1, "0/1m", timestamplog.Never)
	}
	f.change(f.policy.Retention, "5/s", "1000/m")
	changed, _ := f.fill(1)
	fresh, _ := open.fill(1)
	if changed.RetryAt != fresh.RetryAt {
		t.Errorf("Decide after refusals by another rule: got %+v, want as without them: %+v", changed, fresh)
	}
}

func counterRetry(t *testing.T, h Harness) {
	for _, cost := range []int{1, 2, 3} {
		f := newFixture(t, h, "4/s", "9/10s")
		for range 5 {
			refused, _ := f.fill(cost)
			if refused.RetryAt <= refused.Now || refused.Boundary != 0 || refused.ReservedAt != 0 {
				t.Fatalf("Decide(cost %d): got %+v, want RetryAt ahead and neither Boundary nor ReservedAt", cost, refused)
			}
			f.Clock.Set(refused.RetryAt - 1)
			if r := f.ask(cost); r.Allowed || r.RetryAt != refused.RetryAt {
				t.Fatalf("Decide a millisecond before RetryAt: got %+v, want it refused as before: %+v", r, refused)
			}
			f.Clock.Set(refused.RetryAt)
			f.allowAt(f.ask(cost))
		}
	}
}

// allowAt fails the test unless r is allowed at once.
func (f *fixture) allowAt(r timestamplog.Result) {
	f.t.Helper()
	f.wantReservation(r, r.Now-f.start)
}

func counterPeek(t *testing.T, h Harness) {
	f := newFixture(t, h, "4/s")
	before := f.detail(1)
	for range 20 {
		f.allowAt(f.peek(3))
	}
	f.wantStates(f.detail(1), before...)
	f.allow(1)
	after := f.detail(1)
	if after[0] == before[0] {
		t.Errorf("the states after an allowed request are %v, want other than before it: %v", after, before)
	}
	f.wantStates(f.detail(1), after...)
}

func counterResets(t *testing.T, h Harness) {
	f := newFixture(t, h, "4/m")
	other := f.forKey("ip:203.0.113.8")
	before := f.detail(1)
	f.fill(1)
	refused, _ := other.fill(1)
	if !f.reset() {
		t.Error("the first Reset returns false, want true")
	}
	if f.reset() {
		t.Error("the second Reset returns true, want false")
	}
	f.wantStates(f.detail(1), before...)
	if r := other.peek(1); r.Allowed || r.RetryAt != refused.RetryAt {
		t.Errorf("Decide of another key: got %+v, want it refused as before the reset: %+v", r, refused)
	}
}

func counterTimes(t *testing.T, h Harness) {
	f := newFixture(t, h, "4/m")
	f.allow(1)
	f.wantTimes()
}

func counterBesideLog(t *testing.T, h Harness) {
	f := newFixture(t, h, "2/m")
	log := *f
	policy := *f.policy
	policy.Algorithm, policy.Options, policy.Generation = algorithms.TimestampLog, algorithms.Options{}, f.policy.Generation+1
	log.policy = &policy
	log.allow(2)
	log.limit(1, "2/1m", minute)
	f.allow(1)
	log.wantTimes(0, 0)
}

// counterReservations compares reservations with the answers to a client that waits until
// RetryAt. That client comes first, so that no check is made ahead of the time at which
// the reservations are: it could expire their counter.
func counterReservations(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/s")
	var allowed [12]timestamplog.Result
	for i := range allowed {
		r := f.ask(1)
		for !r.Allowed {
			f.Clock.Set(r.RetryAt)
			r = f.ask(1)
		}
		allowed[i] = r
	}
	waits := f.forKey("waits")
	waits.at(0)
	last := f.start
	for i, r := range allowed {
		now := f.Clock.NowMS()
		reservation := waits.reserve(fmt.Sprint("id ", i), 1, minute)
		if !reservation.Allowed || reservation.ReservedAt < last {
			t.Fatalf("request %d: got %+v, want a reservation not before the previous one at %d", i, reservation, last)
		}
		last = reservation.ReservedAt
		if r.Now != reservation.ReservedAt {
			t.Fatalf("request %d: the reservation is at +%d, want +%d, when a client that waits until RetryAt is allowed", i, reservation.ReservedAt-f.start, r.Now-f.start)
		}
		if reservation.ReservedAt > now && i%4 != 3 { // else the next comes at the reservation itself
			if r := waits.ask(1); r.Allowed || r.RetryAt < reservation.ReservedAt {
				t.Fatalf("Decide: got %+v, want an immediate request refused until the reservation at %d", r, reservation.ReservedAt)
			}
		}
		f.Clock.Set(r.Now)
	}
}

func counterAgain(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/s")
	f.wantCharged(f.decide(f.named("a")))
	left := f.detail(1)
	f.wantReplayed(f.decide(f.named("a")), 0)
	f.wantStates(f.detail(1), left...)
}

func counterReservedAgain(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/s")
	f.fill(1)
	first := f.reserve("b", 1, minute)
	f.wantReplayed(f.reserve("b", 1, minute), first.ReservedAt-f.start)
}

func counterCancelled(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/s")
	f.fill(1)
	before := f.detail(1)
	a := f.reserve("a", 1, minute).ReservedAt - f.start
	f.wantCancelled(false, "a", a, 2)
	f.wantCancelled(true, "a", a, 1)
	f.wantStates(f.detail(1), before...)
	f.wantReservation(f.reserve("a", 1, minute), a)
	left := f.detail(1)
	b := f.reserve("b", 1, minute).ReservedAt - f.start
	f.wantCancelled(false, "a", a, 1)
	f.wantCancelled(true, "b", b, 1)
	f.wantCancelled(false, "b", b, 1)
	f.wantStates(f.detail(1), left...)
	f.at(a).wantCancelled(false, "a", a, 1)
}

func counterCombined(t *testing.T, h Harness) {
	a, b := pair(newFixture(t, h, "3/s"), "3/10s")
	b.fill(1)
	fresh := a.detail(1)
	results := a.decideCombined(a.request(1), b.request(1))
	if !results[0].Allowed || results[1].Allowed {
		t.Fatalf("DecideAll: got %+v, want only the second refused", results)
	}
	a.wantStates(a.detail(1), fresh...)
	a.at(minute)
	if results = a.decideCombined(a.request(1), b.request(1)); !results[0].Allowed || !results[1].Allowed {
		t.Errorf("DecideAll: got %+v, want both allowed", results)
	}
}

func counterReservedTogether(t *testing.T, h Harness) {
	a, b := pair(newFixture(t, h, "3/s"), "3/10s")
	b.fill(1)
	results := a.decideCombined(a.waiting("x", 1, minute), b.waiting("x", 1, minute))
	if reservation := results[0].ReservedAt; !results[0].Allowed || reservation <= a.start || results[1].ReservedAt != reservation {
		t.Fatalf("DecideAll: got %+v, want one common reservation ahead", results)
	}
	if r := a.ask(1); r.Allowed {
		t.Errorf("Decide of the first key before the common reservation: got %+v, want it refused", r)
	}
}

func counterLimits(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/m")
	fresh := f.forKey("fresh")
	before, _ := f.fill(1)
	f.change(f.policy.Retention, "30/m")
	fresh.policy = f.policy
	if left, unused := f.detail(1)[0].Remaining, fresh.detail(1)[0].Remaining; left >= unused {
		t.Errorf("with a raised limit %d are left, want fewer than the %d of an unused key", left, unused)
	}
	if after, _ := f.fill(1); after.RetryAt > before.RetryAt {
		t.Errorf("with a raised limit RetryAt is +%d, want at most the +%d of before", after.RetryAt-f.start, before.RetryAt-f.start)
	}
}

// counterRefusedUntil lowers a limit. What was kept for as long as the higher one
// needed it may then expire before the wait under the lower one is over, which a node
// that caches refusals must know.
func counterRefusedUntil(t *testing.T, h Harness) {
	refused := 0
	for _, lower := range []string{"1/s", "3/s", "2/10s", "1/m"} {
		f := newFixture(t, h, "5/s")
		f.at(300).fill(1)
		f.change(f.policy.Retention, lower)
		r := f.ask(1)
		if r.Allowed {
			continue // as under a burst, which grows where the rate is lowered
		}
		refused++
		if r.RefusalValidUntil <= r.Now || r.RefusalValidUntil > r.RetryAt {
			t.Fatalf("Decide under %s: got %+v, want RefusalValidUntil ahead, at most RetryAt", lower, r)
		}
		f.Clock.Set(r.RefusalValidUntil - 1)
		if before := f.peek(1); before.Allowed {
			t.Errorf("Decide under %s: got it allowed a millisecond before RefusalValidUntil of %+v", lower, r)
		}
		f.Clock.Set(r.RefusalValidUntil)
		if after := f.peek(1); !after.Allowed {
			t.Errorf("Decide under %s: got %+v, want it allowed at RefusalValidUntil of %+v", lower, after, r)
		}
	}
	if refused == 0 && h.Options.Burst == 0 {
		t.Error("no lowered limit refused a request after the higher one was filled, want one that does")
	}
}

func counterBack(t *testing.T, h Harness) {
	f := newFixture(t, h, "3/10s")
	fresh := f.forKey("fresh")
	f.at(hour).fill(1)
	f.at(0)
	if r := f.ask(1); r.Allowed {
		t.Fatalf("Decide after the step back: got %+v, want it refused", r)
	}
	longest := int64(0)
	for range 5 {
		r := f.ask(1)
		if r.Allowed {
			break
		}
		longest += r.RetryAt - r.Now
		f.Clock.Set(r.RetryAt)
	}
	if longest > 30*second {
		t.Errorf("after the step back a key waited %d ms, want at most three windows", longest)
	}
	fresh.allow(1)
}

// manyCallers must be allowed as many requests as one caller is.
func counterManyCallers(t *testing.T, h Harness) {
	f := newFixture(t, h, "70/s", "100/m")
	_, want := f.forKey("alone").fill(1)
	allowed := make([]int, callers)
	concurrently(func(caller int) {
		for range 10 {
			if f.decideInGoroutine(f.request(1)).Allowed {
				allowed[caller]++
			}
		}
	})
	total := 0
	for _, n := range allowed {
		total += n
	}
	if total != min(want, 10*callers) {
		t.Errorf("%d requests were allowed, want %d", total, min(want, 10*callers))
	}
}
