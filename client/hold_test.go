package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/test/testnode"
)

// throttled is a third party's API, which answers its first request by answer and all
// others with 200.
func throttled(t testing.TB, answer func(http.ResponseWriter)) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var calls atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			answer(w)
		}
	}))
	t.Cleanup(s.Close)
	return s, &calls
}

func get(t testing.TB, tr *client.Transport, url string) (int, error) {
	t.Helper()
	response, err := (&http.Client{Transport: tr}).Get(url)
	if err != nil {
		return 0, err
	}
	response.Body.Close()
	return response.StatusCode, nil
}

func adminOf(t testing.TB) *client.Client {
	n := testnode.Shared()
	return connectTo(t, n.Admin, client.WithToken(tokenOf(t, n, "operate")))
}

func TestTransportHoldsTheKeyForAllClientsAfterRetryAfter(t *testing.T) {
	api, calls := throttled(t, func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	key, admin := fresh("soon"), adminOf(t)
	of := func(*http.Request) string { return key }
	first := &client.Transport{Client: connect(t), Key: of, MaxWait: time.Minute, Admin: admin, OnError: func(err error) { t.Error(err) }}
	if status, err := get(t, first, api.URL); err != nil || status != http.StatusTooManyRequests {
		t.Fatalf("the first request: got %d, %v, want 429", status, err)
	}
	admin.Close() // waits until the block is made
	for who, tr := range map[string]*client.Transport{
		"the program":     first,
		"another program": {Client: connect(t), Key: of, MaxWait: time.Minute},
	} {
		var refused *client.Refused
		if _, err := get(t, tr, api.URL); !errors.As(err, &refused) || refused.Decision.Outcome != client.Blocked || refused.Decision.RetryAfter < 50*time.Minute {
			t.Errorf("%s: got %v, want a refusal by the block", who, err)
		}
	}
	if calls.Load() != 1 {
		t.Errorf("%d requests were sent", calls.Load())
	}
	text := string(testnode.Shared().Do(t, "GET", "/v1/blocks?search="+key, "", 200))
	if !strings.Contains(text, "answered 429 with Retry-After") {
		t.Errorf("the block is %s, want the reason in it", text)
	}
}

func TestTransportHoldsTheKeyUntilTheRetryAfterDate(t *testing.T) {
	api, calls := throttled(t, func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", time.Now().Add(2*time.Second).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	tr := &client.Transport{Client: connect(t), Key: func(*http.Request) string { return "free:held" }}
	for _, want := range []int{http.StatusServiceUnavailable, http.StatusOK} {
		if status, err := get(t, tr, api.URL); err != nil || status != want {
			t.Errorf("got %d, %v, want %d", status, err, want)
		}
	}
	if calls.Load() != 2 {
		t.Errorf("%d requests were sent", calls.Load())
	}
}

func TestTransportHoldsForAtMostMaxHoldAndOnlyAfterRetryAfter(t *testing.T) {
	for name, header := range map[string]string{"years": "999999999", "none": "", "nonsense": "soon", "past": "Mon, 02 Jan 2006 15:04:05 GMT"} {
		api, _ := throttled(t, func(w http.ResponseWriter) {
			if header != "" {
				w.Header().Set("Retry-After", header)
			}
			w.WriteHeader(http.StatusTooManyRequests)
		})
		tr := &client.Transport{Client: connect(t), Key: func(*http.Request) string { return "free:" + name }, MaxHold: 50 * time.Millisecond}
		for range 2 {
			if _, err := get(t, tr, api.URL); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestTransportHoldsTheKeyAfterARetryAfterBeyondAnyDuration(t *testing.T) {
	for _, seconds := range []string{"4294967296", "99999999999999999999"} {
		api, calls := throttled(t, func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", seconds)
			w.WriteHeader(http.StatusTooManyRequests)
		})
		tr := &client.Transport{Client: connect(t), Key: func(*http.Request) string { return "free:" + seconds }, MaxWait: time.Minute}
		if _, err := get(t, tr, api.URL); err != nil {
			t.Errorf("%s: %v", seconds, err)
		}
		_, err := get(t, tr, api.URL)
		var refused *client.Refused
		if !errors.As(err, &refused) || calls.Load() != 1 {
			t.Errorf("%s: got %v after %d requests, want a refusal after the first", seconds, err, calls.Load())
		}
	}
}

func TestHoldRejectsPatternsAndZeroDurations(t *testing.T) {
	admin := adminOf(t)
	for _, pattern := range []string{"*", "user:*", "user:a*", "ip:192.0.2.0/24"} {
		if err := admin.Hold(t.Context(), pattern, time.Second, ""); err == nil {
			t.Errorf("Hold(%s): got no error", pattern)
		}
	}
	if err := admin.Hold(t.Context(), fresh("user"), 0, ""); err == nil {
		t.Error("Hold for 0 seconds: got no error")
	}
	var outage *client.OutageError
	if err := connect(t).Hold(t.Context(), fresh("user"), time.Second, ""); !errors.As(err, &outage) && err == nil {
		t.Errorf("Hold at the check listener: got %v", err)
	}
}

func TestTransportLimitsRequestsInFlight(t *testing.T) {
	arrived, release := make(chan struct{}, 8), make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-release
	}))
	t.Cleanup(api.Close)
	tr := &client.Transport{Client: connect(t), Key: func(*http.Request) string { return "free:inflight" }, MaxInFlight: 2}
	done := make(chan *http.Response, 8)
	send := func(ctx context.Context) (*http.Response, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, api.URL, nil)
		if err != nil {
			return nil, err
		}
		return (&http.Client{Transport: tr}).Do(request)
	}
	for range 2 {
		go func() {
			response, err := send(t.Context())
			if err != nil {
				t.Error(err)
			}
			done <- response
		}()
	}
	<-arrived
	<-arrived
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := send(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a third request in flight: got %v, want a deadline exceeded", err)
	}
	close(release)
	one, other := <-done, <-done
	one.Body.Close()
	other.Body.Close()
	if response, err := send(t.Context()); err != nil {
		t.Errorf("a request after the bodies were closed: got %v", err)
	} else {
		response.Body.Close()
	}
	// A request whose body stays open counts as in flight.
	short := http.Client{Transport: &client.Transport{Client: tr.Client, Key: tr.Key, MaxInFlight: 1, MaxWait: 20 * time.Millisecond}}
	open, err := short.Get(api.URL)
	if err != nil {
		t.Fatal(err)
	}
	var refused *client.Refused
	if _, err := short.Get(api.URL); !errors.As(err, &refused) {
		t.Errorf("a request while a body is open: got %v, want a refusal", err)
	}
	_, _ = io.Copy(io.Discard, open.Body)
	open.Body.Close()
	for range 2 {
		response, err := short.Get(api.URL)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
}
