package client

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func limitedFor(d time.Duration) *Decision {
	return &Decision{Answer: Answer{ID: "id", Outcome: Limited, RetryAfter: d}, Rule: "5/1m", Rules: []RuleState{{Rule: "5/1m"}}}
}

// remember stores in m that q was answered with d just now.
func remember(m *memory, q *Check, d *Decision) {
	seen, _ := m.lookUp(q)
	m.remember(q, d, time.Now(), seen)
}

func known(m *memory, q Check) *Decision {
	_, d := m.lookUp(&q)
	return d
}

func TestMemoryServesARefusalForAtMostTwoSeconds(t *testing.T) {
	for name, test := range map[string]struct {
		retryAfter, served time.Duration
	}{
		"short":      {500 * time.Millisecond, 498 * time.Millisecond},
		"long":       {time.Hour, 2 * time.Second},
		"never":      {Never, 2 * time.Second},
		"too short":  {time.Millisecond, 0},
		"no wait":    {0, 0},
		"just at 2s": {2 * time.Second, 1998 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, q := newMemory(10), Check{Key: "a"}
				began := time.Now()
				remember(m, &q, limitedFor(test.retryAfter))
				for ; known(m, q) != nil; time.Sleep(time.Millisecond) {
					d := known(m, q)
					if want := test.retryAfter - time.Since(began); test.retryAfter > 0 && d.RetryAfter != want || test.retryAfter < 0 && d.RetryAfter != Never {
						t.Fatalf("after %v: got the wait %v", time.Since(began), d.RetryAfter)
					}
					if !d.FromCache || d.Rules != nil || d.Rule != "5/1m" || d.ID != "id" {
						t.Fatalf("got %+v", d)
					}
				}
				if served := time.Since(began); served != test.served {
					t.Errorf("served for %v, want %v", served, test.served)
				}
			})
		})
	}
}

func TestMemoryReturnsCopiesOfDecisions(t *testing.T) {
	m, q, d := newMemory(10), Check{Key: "a"}, limitedFor(time.Hour)
	d.Block = &Block{ID: "b"}
	remember(m, &q, d)
	d.Allowed, d.Block.ID = true, "changed"
	for range 2 {
		again := known(m, q)
		if again == nil || again.Allowed || again.Block.ID != "b" {
			t.Fatalf("got %+v", again)
		}
		again.Allowed, again.Block.ID = true, "changed"
	}
}

// The answer took a second: RetryAfter counts from its arrival, and
// the time it is served from when the check was sent.
func TestMemoryServesALateAnswerForLessTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, q, sent := newMemory(10), Check{Key: "a"}, time.Now()
		seen, _ := m.lookUp(&q)
		time.Sleep(time.Second)
		m.remember(&q, limitedFor(1500*time.Millisecond), sent, seen)
		if d := known(m, q); d == nil || d.RetryAfter != 1500*time.Millisecond {
			t.Errorf("got %+v", d)
		}
		time.Sleep(498 * time.Millisecond)
		if d := known(m, q); d != nil {
			t.Errorf("after 1498 ms it is still served: %+v", d)
		}
	})
}

func TestMemoryAnswersOnlyTheSameCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(10)
		remember(m, &Check{Key: "a", Policy: "p"}, limitedFor(time.Second))
		if known(m, Check{Key: "a", Policy: "p", Cost: 1}) == nil {
			t.Error("the same check is not answered from memory")
		}
		for name, q := range map[string]Check{
			"another cost": {Key: "a", Policy: "p", Cost: 2}, "another policy": {Key: "a"}, "another key": {Key: "b", Policy: "p"},
			"a peek": {Key: "a", Policy: "p", Peek: true}, "a wait": {Key: "a", Policy: "p", MaxWait: time.Second},
			"an idempotency key": {Key: "a", Policy: "p", IdempotencyKey: "x"}, "a fresh check": {Key: "a", Policy: "p", Fresh: true},
		} {
			if d := known(m, q); d != nil {
				t.Errorf("%s was answered from memory: %+v", name, d)
			}
		}
	})
}

func TestMemoryStoresOnlyRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(10)
		degraded, unavailable, allowed := limitedFor(time.Second), limitedFor(time.Second), limitedFor(0)
		degraded.Degraded, unavailable.Outcome, allowed.Allowed = true, Unavailable, true
		for name, d := range map[string]*Decision{"degraded": degraded, "unavailable": unavailable, "allowed": allowed} {
			if remember(m, &Check{Key: name}, d); known(m, Check{Key: name}) != nil {
				t.Errorf("%s: the decision was stored", name)
			}
		}
		q := Check{Key: "peeked", Peek: true}
		if remember(m, &q, limitedFor(time.Second)); known(m, Check{Key: "peeked"}) != nil {
			t.Error("the answer to a peek was stored")
		}
	})
}

func TestMemoryIsBoundedAndKeepsTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(100)
		for i := range 10_000 {
			remember(m, &Check{Key: strconv.Itoa(i)}, limitedFor(time.Second))
			if held := len(m.young) + len(m.old); held > 100 {
				t.Fatalf("the memory has %d entries, want at most 100", held)
			}
		}
		for i := range 50 {
			if known(m, Check{Key: strconv.Itoa(9_999 - i)}) == nil {
				t.Fatalf("the refusal %d before the last is not in the memory", i)
			}
		}
	})
}

// A request may have a megabyte of texts, and a memory of 16,384 of them would be 16 GB.
func TestMemoryDoesNotStoreRequestTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, d := newMemory(1000), limitedFor(time.Second)
		d.Conditional = true
		request := func(i int) Check {
			long := strings.Repeat("x", 1<<20)
			return Check{Key: "a", Request: Request{Path: "/" + strconv.Itoa(i), Agent: strconv.Itoa(i) + long, Host: long}}
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range 50 {
			q := request(i)
			remember(m, &q, d)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 1<<20 {
			t.Errorf("50 refusals take %d bytes", held)
		}
		if known(m, request(7)) == nil || known(m, request(50)) != nil {
			t.Error("different requests share an entry")
		}
	})
}

func TestMemoryIgnoresAnswersToChecksFromBeforeForgetAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, q := newMemory(10), Check{Key: "a"}
		seen, _ := m.lookUp(&q)
		m.forgetAll()
		if m.remember(&q, limitedFor(time.Second), time.Now(), seen); known(m, q) != nil {
			t.Error("the refusal was stored")
		}
		if remember(m, &q, limitedFor(time.Second)); known(m, q) == nil {
			t.Error("a refusal after forgetAll was not stored")
		}
	})
}

func TestMemoryOfSizeZeroStoresNothing(t *testing.T) {
	m, q := newMemory(0), Check{Key: "a"}
	remember(m, &q, limitedFor(time.Second))
	m.forgetAll()
	if known(m, q) != nil {
		t.Error("the refusal was stored")
	}
}
