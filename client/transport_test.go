package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/client"
)

// outside is a third party's API, which echoes bodies.
func outside(t testing.TB) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var calls atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(s.Close)
	return s, &calls
}

func TestTransportWaitsForItsReservation(t *testing.T) {
	api, calls := outside(t)
	key := fresh("soon")
	var keys []string
	var mu sync.Mutex
	h := &http.Client{Transport: &client.Transport{Client: connect(t), Key: func(r *http.Request) string {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, client.HostKey(r))
		return key
	}}}
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() {
			response, err := h.Post(api.URL, "text/plain", strings.NewReader("body"))
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			if text, _ := io.ReadAll(response.Body); string(text) != "body" {
				t.Errorf("got the body %q, want body", text)
			}
		})
	}
	group.Wait()
	if calls.Load() != 5 || keys[0] != "host:127.0.0.1" {
		t.Errorf("%d calls under %v", calls.Load(), keys)
	}
}

// closable records whether it was closed.
type closable struct {
	io.Reader
	closed atomic.Bool
}

func (c *closable) Close() error { c.closed.Store(true); return nil }

func TestTransportDoesNotSendIfTheReservationIsTooLate(t *testing.T) {
	api, calls := outside(t)
	stint, key := connect(t), fresh("far")
	ask(t, stint, client.Check{Key: key})
	h := &http.Client{Transport: &client.Transport{
		Client: stint, Key: func(*http.Request) string { return key }, MaxWait: time.Second,
		Cost: func(*http.Request) int { return 1 },
	}}
	body := &closable{Reader: strings.NewReader("body")}
	_, err := h.Post(api.URL, "text/plain", body)
	var refused *client.Refused
	if !errors.As(err, &refused) || calls.Load() != 0 || !body.closed.Load() {
		t.Errorf("got %v after %d calls, the body closed %v", err, calls.Load(), body.closed.Load())
	}
	h = &http.Client{Transport: &client.Transport{Client: stint, Policy: "far", Key: func(*http.Request) string { return "" }}}
	response, err := h.Get(api.URL)
	if err != nil || calls.Load() != 1 {
		t.Fatalf("without a key: %v", err)
	}
	response.Body.Close()
}

func TestTransportWaitIsBoundedByTheHTTPClientTimeout(t *testing.T) {
	api, calls := outside(t)
	stint, key := connect(t), fresh("far")
	ask(t, stint, client.Check{Key: key})
	h := &http.Client{Timeout: 20 * time.Second, Transport: &client.Transport{Client: stint, Key: func(*http.Request) string { return key }}}
	_, err := h.Get(api.URL)
	var refused *client.Refused
	if !errors.As(err, &refused) || calls.Load() != 0 {
		t.Errorf("got %v", err)
	}
}

func TestHostKeyIsTheSameForAllSpellingsOfAHost(t *testing.T) {
	for _, target := range []string{"http://api.example.com", "https://API.example.com:8443/x", "http://api.example.com./", "http://api.example.com.:80/"} {
		r, err := http.NewRequest(http.MethodGet, target, nil)
		if err != nil {
			t.Fatal(err)
		}
		if key := client.HostKey(r); key != "host:api.example.com" {
			t.Errorf("%s: got %s", target, key)
		}
	}
}
