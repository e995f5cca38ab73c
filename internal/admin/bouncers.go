package admin

import (
	"context"
	"iter"
	"net/netip"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/bouncers"
	"github.com/stint-dev/stint/internal/fault"
)

// Bouncers are the use cases of programs that enforce the blocks elsewhere, and of the
// operators who look after them.
type Bouncers struct {
	Store   BouncerStore
	Entries BouncerChanges
	View    BouncerView
	Now     func() time.Time

	mu    sync.Mutex
	noted map[bouncers.ID]live // live bouncers
}

// live is what was not stored yet of a bouncer in live mode.
type live struct {
	at   time.Time // when it was stored
	sent int64     // since
}

// BouncerStore keeps the bouncers.
type BouncerStore interface {
	// Bouncers returns those that have asked since an instant, by token and address.
	Bouncers(ctx context.Context, since time.Time) ([]bouncers.Bouncer, error)
	FindBouncer(ctx context.Context, id bouncers.ID) (b bouncers.Bouncer, found bool, err error)
	// PutBouncer notes that a bouncer has asked: First is kept and Sent is added. Its
	// cursor moves in stream mode only.
	PutBouncer(ctx context.Context, b bouncers.Bouncer) error
}

// BouncerChanges reads what has changed.
type BouncerChanges interface {
	// BouncerChanges returns the entries that have changed beyond a revision, and those
	// that have or had an expiry after from and not after to, in one view.
	BouncerChanges(ctx context.Context, since int64, from, to time.Time) (bouncers.Changes, error)
}

// BouncerView is the node's copy of the entries.
type BouncerView interface {
	View
	Revision() int64
	Refresh(ctx context.Context) error
}

// BouncerCaller is a bouncer that asks.
type BouncerCaller struct {
	bouncers.ID
	Version string
}

// StreamAnswer is what a bouncer is sent in stream mode.
type StreamAnswer struct {
	bouncers.Delta
	Now time.Time
	// Confirm moves the bouncer's cursor; it is called once the bouncer has been sent
	// all of it, with the number of bans.
	Confirm func(ctx context.Context, sent int64) error
}

// Pull returns what has changed for a bouncer since the answer that it confirmed last,
// everything on startup.
func (b *Bouncers) Pull(ctx context.Context, c BouncerCaller, startup bool, f bouncers.Filter) (*StreamAnswer, error) {
	known, _, err := b.Store.FindBouncer(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	now := b.Now()
	pull := bouncers.Pull{Filter: f, Cursor: known.Cursor, Startup: startup, Now: now}
	since, from := known.Cursor.Before.Revision, pull.ExpiriesFrom()
	if known.Cursor.Last.Revision == 0 {
		// A bouncer that has nothing needs no history.
		if err := b.View.Refresh(ctx); err != nil {
			return nil, err
		}
		since, from = b.View.Revision(), now
	}
	changes, err := b.Entries.BouncerChanges(ctx, since, from, now)
	if err != nil {
		return nil, err
	}
	if b.View.Revision() < changes.Revision {
		if err := b.View.Refresh(ctx); err != nil {
			return nil, err
		}
	}
	delta := bouncers.Compute(b.View.Blocks(), changes, pull)
	confirm := func(ctx context.Context, sent int64) error {
		return b.Store.PutBouncer(ctx, bouncers.Bouncer{
			ID: c.ID, Version: c.Version, Mode: bouncers.Stream, First: now, Last: now, Sent: sent, Cursor: delta.Cursor,
		})
	}
	return &StreamAnswer{delta, now, confirm}, nil
}

// OfAddress returns the bans of one address, the longest first.
func (b *Bouncers) OfAddress(a netip.Addr, f bouncers.Filter) []bouncers.Ban {
	return selected(bouncers.OfKey(b.View.Blocks(), b.View.Parser().AddressKey(a), b.Now()), f)
}

// OfRange returns the bans that contain a network, the longest first.
func (b *Bouncers) OfRange(network netip.Prefix, f bouncers.Filter) []bouncers.Ban {
	return selected(bouncers.OfRange(b.View.Blocks(), network, b.Now()), f)
}

// OfKey returns the bans of a key that is no address, the longest first. Its scope
// counts as asked for.
func (b *Bouncers) OfKey(scope, value string, f bouncers.Filter) ([]bouncers.Ban, error) {
	key, err := b.View.Parser().Key(scope + ":" + value)
	if err != nil {
		return nil, fault.Field("value", "is not a key of the scope %q", scope)
	}
	f.Scopes = append([]string{scope}, f.Scopes...)
	return selected(bouncers.OfKey(b.View.Blocks(), key, b.Now()), f), nil
}

// All ranges over all bans.
func (b *Bouncers) All(f bouncers.Filter) iter.Seq[bouncers.Ban] {
	return bouncers.All(b.View.Blocks(), b.Now(), f)
}

func selected(all []bouncers.Ban, f bouncers.Filter) []bouncers.Ban {
	var some []bouncers.Ban
	for _, one := range all {
		if f.Selects(one) {
			some = append(some, one)
		}
	}
	return some
}

// noteInterval is how often what a live bouncer asks is stored.
const noteInterval = time.Minute

// maxNoted bounds the bouncers that are remembered between two notes.
const maxNoted = 10_000

// NoteLive counts that a bouncer was answered in live mode. It returns what writes the
// count to the store, at most once a minute for each bouncer, and else nil.
func (b *Bouncers) NoteLive(c BouncerCaller, sent int64) (write func(context.Context) error) {
	now := b.Now()
	b.mu.Lock()
	known := b.noted[c.ID]
	sent += known.sent
	isDue := now.Sub(known.at) >= noteInterval
	if isDue {
		known = live{at: now}
	} else {
		known.sent = sent
	}
	if b.noted == nil || len(b.noted) >= maxNoted {
		b.noted = map[bouncers.ID]live{}
	}
	b.noted[c.ID] = known
	b.mu.Unlock()
	if !isDue {
		return nil
	}
	return func(ctx context.Context) error {
		return b.Store.PutBouncer(ctx, bouncers.Bouncer{ID: c.ID, Version: c.Version, Mode: bouncers.Live, First: now, Last: now, Sent: sent})
	}
}

// List returns the bouncers that have asked lately.
func (b *Bouncers) List(ctx context.Context) ([]bouncers.Bouncer, error) {
	return b.Store.Bouncers(ctx, b.Now().Add(-bouncers.Gone))
}
