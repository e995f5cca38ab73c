package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/stint-dev/stint/client"
)

// left returns how many tokens of a budget are left, and how many more may hold.
func left(t *testing.T, c *client.Client, key string) (tokens, places int) {
	t.Helper()
	d := ask(t, c, client.Check{Key: key, Cost: 1, Peek: true})
	if len(d.Rules) != 2 {
		t.Fatalf("a peek: %+v", d)
	}
	return d.Rules[1].Remaining, d.Rules[0].Remaining
}

func wantLeft(t *testing.T, c *client.Client, key string, tokens, places int) {
	t.Helper()
	if gotTokens, gotPlaces := left(t, c, key); gotTokens != tokens || gotPlaces != places {
		t.Errorf("%d tokens and %d places are left, want %d and %d", gotTokens, gotPlaces, tokens, places)
	}
}

func TestUseSettlesWithWhatWasUsedAndReleasesOnAPanic(t *testing.T) {
	c, key := connect(t), fresh("budget")
	q := client.Check{Key: key, Cost: 700, Hold: time.Minute}
	broken := errors.New("the stream broke")
	err := c.Use(t.Context(), q, func(context.Context) (int64, error) {
		wantLeft(t, c, key, 300, 1)
		var refused *client.Refused
		if err := c.Use(t.Context(), q, func(context.Context) (int64, error) { t.Error("called"); return 0, nil }); !errors.As(err, &refused) {
			t.Errorf("beyond the budget: %v", err)
		}
		return 250, broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("Use returns %v", err)
	}
	wantLeft(t, c, key, 750, 2)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was lost")
			}
		}()
		_ = c.Use(t.Context(), q, func(context.Context) (int64, error) { panic("a mistake") })
	}()
	wantLeft(t, c, key, 750, 2)
}

func TestHoldsAreSettledOnceByTheirHandle(t *testing.T) {
	c, key := connect(t), fresh("budget")
	d := ask(t, c, client.Check{Key: key})
	if d.Held == nil || !d.Held.ExpiresAt.After(time.Now()) {
		t.Fatalf("got %+v, want the default hold of the policy", d)
	}
	if s, err := c.Extend(t.Context(), d.Held.Handle, time.Hour); err != nil || !s.ExpiresAt.After(d.Held.ExpiresAt) {
		t.Errorf("Extend: %+v, %v", s, err)
	}
	for range 2 {
		if s, err := c.Settle(t.Context(), d.Held.Handle, 1100); err != nil || s.Over != 100 || s.Held != 100 {
			t.Errorf("Settle: %+v, %v", s, err)
		}
	}
	var problem *client.Problem
	if _, err := c.Settle(t.Context(), d.Held.Handle, client.AsHeld); !errors.As(err, &problem) || problem.Code != "settled" {
		t.Errorf("another amount: %v", err)
	}
	if err := c.Release(t.Context(), "none"); !errors.As(err, &problem) || problem.Code != "not_found" {
		t.Errorf("an unknown handle: %v", err)
	}
	both := client.CombinedCheck{Keys: []client.CombinedKey{{Key: fresh("budget")}, {Key: fresh("budget"), Cost: 5}}, Hold: time.Minute}
	all, err := c.CheckAll(t.Context(), both)
	if err != nil || all.Held == nil {
		t.Fatalf("CheckAll: %+v, %v", all, err)
	}
	if err := c.Release(t.Context(), all.Held.Handle); err != nil {
		t.Error(err)
	}
	wantLeft(t, c, both.Keys[0].Key, 1000, 2)
	wantLeft(t, c, both.Keys[1].Key, 1000, 2)
}

func TestGuardHoldsUntilTheAnswerIsWritten(t *testing.T) {
	c, key := connect(t), fresh("budget")
	fails := any(nil)
	guard := client.Guard{Client: c, Key: func(*http.Request) string { return key }, Cost: func(*http.Request) int { return 400 }, Hold: time.Minute,
		Used: func(*http.Request) int64 { return 30 }}
	handler := guard.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		wantLeft(t, c, key, 600, 1)
		if fails != nil {
			panic(fails)
		}
	}))
	func() {
		defer func() {
			if recover() != fails {
				t.Error("the panic was lost")
			}
		}()
		fails = "a mistake"
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}()
	wantLeft(t, c, key, 1000, 2)
	fails = nil
	gone, leave := context.WithCancel(t.Context())
	request := httptest.NewRequest("GET", "/", nil).WithContext(gone)
	guard.Used = func(*http.Request) int64 { leave(); return 400 } // the client has gone
	handler = guard.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	handler.ServeHTTP(httptest.NewRecorder(), request)
	wantLeft(t, c, key, 600, 2)
}

// A proxy breaks an answer off by a panic, when the service behind it breaks or the client leaves: what was used
// until then is charged.
func TestGuardSettlesAnswersThatBreakOff(t *testing.T) {
	c := connect(t)
	for name, breaks := range map[string]bool{"the service breaks": true, "the client leaves": false} {
		t.Run(name, func(t *testing.T) {
			key, over := fresh("budget"), make(chan struct{})
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for r.Context().Err() == nil {
					_, _ = io.WriteString(w, "a part of the answer\n")
					_ = http.NewResponseController(w).Flush()
					if breaks {
						panic(http.ErrAbortHandler)
					}
				}
			}))
			t.Cleanup(service.Close)
			to, err := url.Parse(service.URL)
			if err != nil {
				t.Fatal(err)
			}
			guard := client.Guard{Client: c, Key: func(*http.Request) string { return key }, Cost: func(*http.Request) int { return 400 }, Hold: time.Minute,
				Used: func(*http.Request) int64 { return 30 }}
			guarded := guard.Handler(httputil.NewSingleHostReverseProxy(to))
			site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(over)
				guarded.ServeHTTP(w, r)
			}))
			t.Cleanup(site.Close)
			response, err := http.Get(site.URL)
			if err != nil {
				t.Fatal(err)
			}
			if breaks {
				_, _ = io.Copy(io.Discard, response.Body)
			}
			response.Body.Close()
			<-over
			wantLeft(t, c, key, 970, 2)
		})
	}
}
