package firewall

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/stint-dev/stint/internal/supervise"
	"github.com/stint-dev/stint/internal/wire"
)

// follower runs a Sync: one goroutine receives changes, one at a time lists everything,
// and run alone changes the state.
type follower struct {
	*Sync
	messages chan message
	lists    chan listing

	listing bool               // a listing is on its way
	since   []*wire.AuditEntry // the changes since it began
	again   bool               // another is needed after it
	outage  bool               // the stream has ended and has not been opened again
	refused error              // the server refuses the token
}

// message is what the stream of changes says.
type message struct {
	opened bool
	change *wire.AuditEntry // nil: changes are missing
	err    error            // the stream has ended
}

// retryAfter is how long a failed listing or write waits for the next.
const retryAfter = 5 * time.Second

// run follows the server until ctx ends, which is no error, or until the server refuses the
// token: the command is started again with the token that replaces it.
func (f *follower) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go f.receive(ctx)
	ticker := time.NewTicker(f.o.CompareEvery)
	defer ticker.Stop()
	retry := time.NewTimer(retryAfter)
	retry.Stop()
	exemption := time.NewTimer(0)
	exemption.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			f.startListing(ctx)
		case <-retry.C:
			f.startListing(ctx)
		case <-exemption.C:
			err = f.update(ctx)
		case m := <-f.messages:
			if f.receiveAll(ctx, m) && f.listed {
				err = f.update(ctx)
			}
		case found := <-f.lists:
			err = f.finishListing(ctx, found)
		}
		if f.refused != nil {
			return f.refused
		}
		if err != nil && ctx.Err() == nil {
			f.o.Progress.failed()
			f.o.Logf("%v; trying again in %s.", err, retryAfter)
			retry.Reset(retryAfter)
			f.next = time.Time{} // the next attempt sets it
		}
		if !f.next.IsZero() {
			exemption.Reset(time.Until(f.next))
		}
	}
}

// startListing starts to read everything from the server, unless that is on its way.
func (f *follower) startListing(ctx context.Context) {
	if f.listing {
		f.again = true
		return
	}
	f.listing, f.again, f.since = true, false, nil
	go func() { f.lists <- f.list(ctx) }()
}

// finishListing compares what was listed with the kernel. If the server is unreachable,
// what is known is compared, so that a table that was deleted is restored.
func (f *follower) finishListing(ctx context.Context, found listing) error {
	f.listing = false
	if found.err == nil {
		f.again = !f.replace(found, f.since) || f.again
	}
	f.since = nil
	if f.again {
		f.startListing(ctx)
	}
	if f.listed {
		if err := f.compare(ctx, false); err != nil {
			return err
		}
	}
	if f.outage {
		return nil // it was logged, and its end lists everything
	}
	return found.err
}

// maxBatch is the most changes that are written in one transaction.
const maxBatch = 10_000

// receiveAll takes over a message and those that have arrived since. It reports whether
// the blocks have changed.
func (f *follower) receiveAll(ctx context.Context, m message) (changed bool) {
	for range maxBatch {
		changed = f.take(ctx, m) || changed
		select {
		case m = <-f.messages:
		default:
			return changed
		}
	}
	return changed
}

func (f *follower) take(ctx context.Context, m message) (changed bool) {
	switch {
	case m.err != nil:
		if isTokenRefused(m.err) {
			f.refused = m.err
			return false
		}
		if !f.outage {
			f.o.Logf("%v; the sets stay and their elements time out. Reconnecting.", m.err)
		}
		f.outage = true
		f.o.Progress.connected(false)
		return false
	case m.opened:
		f.outage = false
		f.o.Progress.connected(true)
		f.o.Logf("Following the server.")
		f.startListing(ctx)
		return false
	}
	if f.listing {
		f.since = append(f.since, m.change)
	}
	if m.change != nil && f.known.apply(m.change) {
		return true
	}
	f.startListing(ctx)
	return false
}

// isTokenRefused reports whether the server answered that the token is unknown, has ended or
// does not allow to read.
func isTokenRefused(err error) bool {
	var problem *wire.Problem
	return errors.As(err, &problem) && (problem.Status == http.StatusUnauthorized || problem.Status == http.StatusForbidden)
}

// receive sends the changes to f.messages until ctx ends, and connects again whenever the
// stream ends.
func (f *follower) receive(ctx context.Context) {
	wait := minPause
	send := func(m message) {
		select {
		case f.messages <- m:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		var openedAt time.Time
		opened := func() {
			openedAt = time.Now()
			send(message{opened: true})
		}
		for change, err := range f.source.Changes(ctx, opened) {
			send(message{change: change, err: err})
		}
		if !openedAt.IsZero() && time.Since(openedAt) > steady {
			wait = minPause
		}
		_ = supervise.Sleep(ctx, wait/2+rand.N(wait/2)) // the loop looks at ctx
		wait = min(2*wait, maxPause)
	}
}
