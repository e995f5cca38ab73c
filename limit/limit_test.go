package limit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/limit"
	"github.com/stint-dev/stint/test/servers"
)

// stores runs a test on memory and on a real Redis.
func stores(t *testing.T, test func(t *testing.T, newStore func() *limit.Store)) {
	t.Run("memory", func(t *testing.T) {
		store := limit.Memory()
		test(t, func() *limit.Store { return store })
	})
	t.Run("redis", func(t *testing.T) {
		url := servers.Redis(t).URL
		test(t, func() *limit.Store { // each with a client of its own, as processes have
			options, err := redis.ParseURL(url)
			if err != nil {
				t.Fatal(err)
			}
			options.ContextTimeoutEnabled = true
			client := redis.NewClient(options)
			store := limit.Redis(client, limit.RedisOptions{Prefix: "limit-test", Timeout: time.Minute})
			t.Cleanup(func() { store.Close(); _ = client.Close() })
			return store
		})
	})
}

// faked is a store by the clock of a synctest bubble.
func faked() *limit.Store { return limit.Memory(limit.MemoryOptions{Now: time.Now}) }

func limiter(t *testing.T, store *limit.Store, name string, rules ...string) *limit.Limiter {
	t.Helper()
	l, err := limit.New(store, name, rules...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestManyCallersNeverExceedTheLimit(t *testing.T) {
	stores(t, func(t *testing.T, newStore func() *limit.Store) {
		var allowed atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			l := limiter(t, newStore(), "shared", "50/1h", "80/1d")
			all.Go(func() {
				for range 25 {
					r, err := l.Allow(t.Context(), "user:alice")
					if err != nil {
						t.Error(err)
					}
					if r.Allowed {
						allowed.Add(1)
					} else if r.Rule != "50/1h" || r.RetryAfter <= 0 || r.RetryAfter > time.Hour {
						t.Errorf("refused by %+v", r)
					}
				}
			})
		}
		all.Wait()
		if n := allowed.Load(); n != 50 {
			t.Errorf("%d were allowed, want 50", n)
		}
		l := limiter(t, newStore(), "shared", "50/1h", "80/1d")
		states, err := l.Peek(t.Context(), "user:alice")
		if err != nil || len(states) != 2 || states[0].Remaining != 0 || states[1].Remaining != 30 || states[1].Limit != 80 {
			t.Errorf("%+v, %v", states, err)
		}
		if r, err := limiter(t, newStore(), "other", "1/1h").Allow(t.Context(), "user:alice"); err != nil || !r.Allowed {
			t.Errorf("another name: %+v, %v", r, err)
		}
		if err := l.Reset(t.Context(), "user:alice"); err != nil {
			t.Fatal(err)
		}
		if r, err := l.AllowN(t.Context(), "user:alice", 50); err != nil || !r.Allowed {
			t.Errorf("after the reset: %+v, %v", r, err)
		}
	})
}

func TestReservationsAreCancelled(t *testing.T) {
	stores(t, func(t *testing.T, newStore func() *limit.Store) {
		l := limiter(t, newStore(), "reserved", "1/1h")
		ctx := t.Context()
		if r, _, err := l.Reserve(ctx, "user:a", 0); err != nil || r == nil || r.Delay() != 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		ahead, _, err := l.Reserve(ctx, "user:a", time.Hour)
		if err != nil || ahead == nil || ahead.Delay() < time.Minute {
			t.Fatalf("%+v, %v", ahead, err)
		}
		if r, refused, err := l.Reserve(ctx, "user:a", time.Hour); err != nil || r != nil || refused.Allowed || refused.RetryAfter <= 0 {
			t.Fatalf("a third: %+v, %+v, %v", r, refused, err)
		}
		if freed, err := ahead.Cancel(ctx); err != nil || !freed {
			t.Fatalf("%v, %v", freed, err)
		}
		if r, _, err := l.Reserve(ctx, "user:a", time.Hour); err != nil || r == nil {
			t.Fatalf("after it was cancelled: %v", err)
		}
		soon, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		var refused *limit.Refused
		if err := l.Wait(soon, "user:a"); !errors.As(err, &refused) || refused.Rule != "1/1h" || refused.RetryAfter <= time.Minute {
			t.Errorf("a wait beyond the deadline: %v", err)
		}
	})
}

func TestWaitPacesAndCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, faked(), "paced", "2/1s")
		began := time.Now()
		for range 6 {
			if err := l.Wait(t.Context(), "host:api.example.com"); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("six of two a second took %s", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Wait(ctx, "host:api.example.com") }()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if r, err := l.AllowN(t.Context(), "host:api.example.com", 2); err != nil || !r.Allowed {
			t.Errorf("what was cancelled is missing: %+v, %v", r, err)
		}

		amounts := limiter(t, faked(), "amounts", "100 tokens/1m")
		for range 3 {
			if err := amounts.WaitN(t.Context(), "team:x", 60); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took < 2*time.Minute {
			t.Errorf("three times 60 of 100 a minute took %s", took)
		}
	})
}

func TestHoldsNeverExceedTheLimit(t *testing.T) {
	stores(t, func(t *testing.T, newStore func() *limit.Store) {
		ctx := t.Context()
		l := limiter(t, newStore(), "tokens", "1000 tokens/1d", "2 concurrent")
		one, err := l.Hold(ctx, "team:a", 600, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		var refused *limit.Refused
		if _, err := l.Hold(ctx, "team:a", 600, time.Hour); !errors.As(err, &refused) || refused.Rule != "1000 tokens/1d" {
			t.Fatalf("charged and held exceed the limit: %v", err)
		}
		two, err := l.Hold(ctx, "team:a", 100, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Hold(ctx, "team:a", 1, time.Hour); !errors.As(err, &refused) || refused.Rule != "2 concurrent" {
			t.Fatalf("three at once: %v", err)
		}
		if over, err := one.Settle(ctx, 250); err != nil || over != 0 {
			t.Fatalf("%d, %v", over, err)
		}
		if _, err := one.Settle(ctx, 250); err != nil {
			t.Errorf("repeated: %v", err)
		}
		if _, err := one.Settle(ctx, 251); err == nil {
			t.Error("it was settled with another amount")
		}
		if err := two.Extend(ctx, 5*time.Hour); err != nil || time.Until(two.Expires()) < 4*time.Hour {
			t.Errorf("%v, %v", two.Expires(), err)
		}
		if err := two.Release(ctx); err != nil {
			t.Fatal(err)
		}
		three, err := l.Hold(ctx, "team:a", 750, time.Hour)
		if err != nil {
			t.Fatalf("what was returned is missing: %v", err)
		}
		if over, err := three.Settle(ctx, 800); err != nil || over != 50 {
			t.Errorf("%d beyond the limit, %v", over, err)
		}
	})
}

func TestHoldsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, faked(), "jobs", "1 concurrent")
		h, err := l.Hold(t.Context(), "job:a", 1, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if err := h.Extend(t.Context(), time.Minute); !errors.Is(err, limit.ErrExpired) {
			t.Errorf("extended: %v", err)
		}
		if _, err := l.Hold(t.Context(), "job:a", 1, time.Minute); err != nil {
			t.Error(err)
		}
	})
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	store := limit.Memory()
	for want, rules := range map[string][]string{
		"there is no rule": {}, "20 per minute": {"20 per minute"}, "points and different values need a server": {"20 points/1h"}, "5/1h distinct path: points and different values need a server": {"5/1h distinct path"},
	} {
		if _, err := limit.New(store, "wrong", rules...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", rules, err)
		}
	}
	if _, err := limit.New(store, "Not A Name", "1/s"); err == nil {
		t.Error("a wrong name is taken")
	}
	if _, err := limit.New(limit.Redis(redis.NewClient(&redis.Options{ContextTimeoutEnabled: true}), limit.RedisOptions{Prefix: "{x}"}), "api", "1/s"); err == nil {
		t.Error("a wrong prefix is taken")
	}
	l := limiter(t, store, "right", "20/1m")
	for _, n := range []int{0, -1, 21} {
		if _, err := l.AllowN(t.Context(), "user:a", n); err == nil {
			t.Errorf("the cost %d is taken", n)
		}
	}
	if _, err := l.Allow(t.Context(), "a\x00b"); err == nil {
		t.Error("a wrong key is taken")
	}
	if _, err := l.Hold(t.Context(), "user:a", 1, time.Minute); err == nil {
		t.Error("requests are held")
	}
	if _, err := limiter(t, store, "places", "1 concurrent").Allow(t.Context(), "user:a"); err == nil {
		t.Error("a place is taken for no time")
	}
	// One client has a whole /64.
	one := limiter(t, store, "clients", "1/1h")
	for i, key := range []string{"ip:2001:db8::1", "ip:2001:db8::2"} {
		if r, err := one.Allow(t.Context(), key); err != nil || r.Allowed != (i == 0) {
			t.Errorf("%s: %+v, %v", key, r, err)
		}
	}
}

func TestARedisThatIsGone(t *testing.T) {
	server := servers.DedicatedRedis(t)
	options, err := redis.ParseURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := limit.New(limit.Redis(redis.NewClient(options)), "gone", "5/1h"); err == nil || !strings.Contains(err.Error(), "ContextTimeoutEnabled") {
		t.Errorf("a client that outlasts its contexts: %v", err)
	}
	options.ContextTimeoutEnabled = true
	client := redis.NewClient(options)
	defer client.Close()
	store := limit.Redis(client)
	defer store.Close()
	l := limiter(t, store, "gone", "5/1h")
	if r, err := l.Allow(t.Context(), "user:a"); err != nil || !r.Allowed {
		t.Fatalf("%+v, %v", r, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Allow(ended, "user:a"); !errors.Is(err, context.Canceled) || errors.Is(err, limit.ErrUnavailable) {
		t.Errorf("a context that has ended: %v", err)
	}
	server.Stop() // it accepts connections, and does not answer
	if _, err := l.Allow(t.Context(), "user:a"); !errors.Is(err, limit.ErrUnavailable) {
		t.Errorf("stopped: %v", err)
	}
	server.Continue()
	server.Kill()
	if _, err := l.Allow(t.Context(), "user:a"); !errors.Is(err, limit.ErrUnavailable) {
		t.Fatalf("%v", err)
	}
	for open, want := range map[bool]int{true: 200, false: 503} {
		failures := 0
		handler := (&limit.Guard{Limiter: l, FailOpen: open, OnError: func(*http.Request, error) { failures++ }}).Handler(ok)
		if got := answer(handler); got.Code != want || failures != 1 {
			t.Errorf("open %v: %d, %d failures", open, got.Code, failures)
		}
	}
}

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "Hello") })

func answer(h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	return w
}

func TestGuard(t *testing.T) {
	began := time.Now()
	l := limiter(t, limit.Memory(limit.MemoryOptions{Now: func() time.Time { return began }}), "site", "2/1h")
	h := (&limit.Guard{Limiter: l}).Handler(ok)
	for _, want := range []int{200, 200, 429} {
		got := answer(h)
		if got.Code != want || (want == 429) != (got.Header().Get("Retry-After") == "3600") {
			t.Errorf("%d, Retry-After %q, want %d", got.Code, got.Header().Get("Retry-After"), want)
		}
	}
	if got := answer((&limit.Guard{Limiter: l, Key: func(*http.Request) string { return "" }}).Handler(ok)); got.Code != 200 {
		t.Errorf("a request without a key: %d", got.Code)
	}
	if got := answer((&limit.Guard{Limiter: limiter(t, limit.Memory(), "closed", "0/s")}).Handler(ok)); got.Code != 429 || got.Header().Get("Retry-After") != "" {
		t.Errorf("never allowed: %d, %q", got.Code, got.Header().Get("Retry-After"))
	}
}

// Who fails open lets nobody pass but during an outage.
func TestGuardThatFailsOpenStillLimits(t *testing.T) {
	l := limiter(t, limit.Memory(), "open", "1/1h")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ask := func(g *limit.Guard, ctx context.Context) int {
		w := httptest.NewRecorder()
		g.Handler(ok).ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
		return w.Code
	}
	g := &limit.Guard{Limiter: l, FailOpen: true}
	if first, second := ask(g, ended), ask(g, ended); first != 200 || second != 429 {
		t.Errorf("a client that goes away: %d, %d", first, second)
	}
	g.Key = func(*http.Request) string { return "user:a\x00" }
	if got := ask(g, t.Context()); got != 503 {
		t.Errorf("a key that is not valid: %d", got)
	}
	if got := ask(&limit.Guard{Limiter: limiter(t, limit.Memory(), "places", "2 concurrent"), FailOpen: true}, t.Context()); got != 503 {
		t.Errorf("rules that need holds: %d", got)
	}
	for wait, want := range map[time.Duration]string{0: "0", time.Millisecond: "1", time.Second: "1", limit.Never - 1: "9223372037", limit.Never: ""} {
		if got := limit.RetryAfterSeconds(wait); got != want {
			t.Errorf("%s: %q, want %q", wait, got, want)
		}
	}
}

// The programs of docs/LIBRARY.md are parts of the examples, which run as tests.
func TestProgramsOfThePage(t *testing.T) {
	page, err := os.ReadFile("../docs/LIBRARY.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	programs := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllSubmatch(page, -1)
	if len(programs) < 6 {
		t.Fatalf("%d programs were found", len(programs))
	}
	for _, program := range programs {
		if !strings.Contains(string(examples), string(program[1])) {
			t.Errorf("no example has\n%s", program[1])
		}
	}
}
