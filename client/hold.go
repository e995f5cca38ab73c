package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	pathBlocks = "/v1/blocks"
	// defaultMaxHold is the MaxHold of a Transport that sets none.
	defaultMaxHold = time.Hour
	// holdStep is how much later an answer must hold a key to be passed on to Stint: many
	// requests in flight are answered the same.
	holdStep = time.Second
)

// Hold blocks a key for a duration, rounded up to whole seconds. If the key has a block
// that ends earlier, that block is extended. Until then no program that uses the same
// Stint is allowed the key, and calls of Wait wait. c must be a client of the admin
// listener with a token of the scope operate. The error is a *Problem, an *OutageError
// regardless of WithOutage, or the error of ctx.
func (c *Client) Hold(ctx context.Context, key string, duration time.Duration, reason string) error {
	if isPattern(key) {
		return errors.New("client: the key is a pattern of several keys; a hold needs a single key")
	}
	seconds := int64((duration + time.Second - 1) / time.Second)
	if seconds <= 0 {
		return errors.New("client: the duration of a hold must be positive")
	}
	question := struct {
		Pattern    string `json:"pattern"`
		Reason     string `json:"reason"`
		ExpiresIn  string `json:"expires_in"`
		OnConflict string `json:"on_conflict"`
	}{key, reason, strconv.FormatInt(seconds, 10) + "s", "extend"}
	_, err := c.ask(ctx, call{path: pathBlocks, question: &question}, &wireHeld{})
	return err
}

// isPattern reports whether a block of this text could select other keys than the one.
func isPattern(key string) bool {
	return strings.Contains(key, "*") || strings.HasPrefix(key, "ip:") && strings.Contains(key, "/")
}

// wireHeld is what the server answers to a block that was added.
type wireHeld struct {
	ID      string `json:"id"`
	Outcome string `json:"outcome"`
}

// fits returns an error unless it answers a block that was added.
func (w *wireHeld) fits(status int) error {
	if status != http.StatusCreated && status != http.StatusOK || w.ID == "" {
		return fmt.Errorf("an answer with status %d that adds no block", status)
	}
	return nil
}

// hold holds a key for wait, at most MaxHold, in this Transport and with Admin also in Stint.
func (t *Transport) hold(ctx context.Context, key string, wait time.Duration, status int) {
	longest := t.MaxHold
	if longest <= 0 {
		longest = defaultMaxHold
	}
	wait = min(wait, longest)
	if !t.holds.add(key, time.Now().Add(wait)) || t.Admin == nil {
		return
	}
	t.Admin.background.Go(func() {
		reason := fmt.Sprintf("answered %d with Retry-After", status)
		if err := t.Admin.Hold(detached(ctx), key, wait, reason); err != nil && t.OnError != nil {
			t.OnError(fmt.Errorf("holding a key in stint: %w", err))
		}
	})
}

// retryAfter returns how long an answer asks its callers to stay away, 0 if it does
// not. Retry-After is a number of seconds or a date (RFC 9110, 10.2.3); a date is read by
// the upstream's own Date where it sends one, so that its clock may be wrong.
func retryAfter(response *http.Response, now time.Time) time.Duration {
	if response.StatusCode != http.StatusTooManyRequests && response.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	text := strings.TrimSpace(response.Header.Get("Retry-After"))
	// Of a number that is out of range it returns the largest.
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		now = date
	}
	return max(0, at.Sub(now))
}

// holds are the keys that answers hold. The zero value holds none.
type holds struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// maxHolds is how many keys are known before those whose time has passed are dropped.
const maxHolds = 1024

// add holds a key, and reports whether that is later than it was held before.
func (h *holds) add(key string, until time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if until.Before(h.until[key].Add(holdStep)) {
		return false
	}
	if h.until == nil {
		h.until = map[string]time.Time{}
	}
	if len(h.until) >= maxHolds {
		now := time.Now()
		for other, end := range h.until {
			if !end.After(now) {
				delete(h.until, other)
			}
		}
	}
	h.until[key] = until
	return true
}

func (h *holds) left(key string) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Until(h.until[key])
}

func (h *holds) isHeld(key string) bool { return h.left(key) > 0 }

// wait returns once a key is not held, and a *Refused where that is after the deadline.
func (h *holds) wait(ctx context.Context, key string, deadline time.Time, bounded bool) error {
	for {
		left := h.left(key)
		if left <= 0 {
			return nil
		}
		until := time.Now().Add(left)
		if bounded && until.After(deadline) {
			return &Refused{Decision: &Decision{
				Answer: Answer{Outcome: Blocked, RetryAfter: left, RetryAt: until}, Key: key, FromCache: true,
				Block: &Block{Pattern: key, Reason: "answered with Retry-After", ExpiresAt: until},
			}}
		}
		if err := sleep(ctx, left); err != nil {
			return fmt.Errorf("waiting for a reservation: %w", err)
		}
	}
}

// inFlight bounds the requests of each key that are in flight. The zero value has none.
type inFlight struct {
	mu    sync.Mutex
	byKey map[string]*places
}

// places are what the requests of one key take while they are in flight.
type places struct {
	taken chan struct{} // one value for each request in flight
	users int           // requests in flight or waiting
}

// enter waits for a place among n. Each enter without an error needs a leave.
func (f *inFlight) enter(ctx context.Context, key string, n int) error {
	f.mu.Lock()
	if f.byKey == nil {
		f.byKey = map[string]*places{}
	}
	one := f.byKey[key]
	if one == nil {
		one = &places{taken: make(chan struct{}, n)}
		f.byKey[key] = one
	}
	one.users++
	f.mu.Unlock()
	select {
	case one.taken <- struct{}{}: // whatever is left of ctx
		return nil
	default:
	}
	select {
	case one.taken <- struct{}{}:
		return nil
	case <-ctx.Done():
		f.drop(key, one)
		return ctx.Err()
	}
}

func (f *inFlight) leave(key string) {
	f.mu.Lock()
	one := f.byKey[key]
	f.mu.Unlock()
	<-one.taken
	f.drop(key, one)
}

// drop forgets a key that nobody uses any more.
func (f *inFlight) drop(key string, one *places) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one.users--; one.users == 0 {
		delete(f.byKey, key)
	}
}

// leaveAtEnd returns a body that leaves once it is closed. One that can be written to, of
// a connection that was switched to another protocol, stays so.
func leaveAtEnd(body io.ReadCloser, leave func()) io.ReadCloser {
	if w, is := body.(io.Writer); is {
		return struct {
			leavingBody
			io.Writer
		}{leavingBody{body, leave}, w}
	}
	return leavingBody{body, leave}
}

type leavingBody struct {
	io.ReadCloser
	leave func()
}

// Close closes the body and leaves.
func (b leavingBody) Close() error {
	defer b.leave()
	return b.ReadCloser.Close()
}
