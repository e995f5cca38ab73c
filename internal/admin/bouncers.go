package admin

import (
	"context"
	"iter"
	"net/netip"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/bouncers"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/wire"
)

// Bouncers are the use cases of programs that enforce the blocks elsewhere, and of the
// operators who administer them.
type Bouncers struct {
	Store   BouncerStore
	Entries BouncerChanges
	View    BouncerView
	Now     func() time.Time

	mu    sync.Mutex
	noted map[bouncers.ID]live // live bouncers
}

// live is the state of a bouncer in live mode that is not stored yet.
type live struct {
	at   time.Time // when it was last stored
	sent int64     // answers since then
}

// BouncerStore stores the bouncers.
type BouncerStore interface {
	// Bouncers returns the bouncers with a request since an instant, by token and address.
	Bouncers(ctx context.Context, since time.Time) ([]bouncers.Bouncer, error)
	FindBouncer(ctx context.Context, id bouncers.ID) (b bouncers.Bouncer, found bool, err error)
	// PutBouncer stores a request of a bouncer: it keeps First and adds Sent. It changes the
	// cursor only in stream mode.
	PutBouncer(ctx context.Context, b bouncers.Bouncer) error
}

// BouncerChanges reads changed entries.
type BouncerChanges interface {
	// BouncerChanges returns the entries that changed after a revision, and those with a
	// present or former expiry after from and not after to, in one view; those that challenge
	// only if captchas is set.
	BouncerChanges(ctx context.Context, since int64, from, to time.Time, captchas bool) (bouncers.Changes, error)
}

// BouncerView is the node's copy of the entries.
type BouncerView interface {
	View
	Revision() int64
	Refresh(ctx context.Context) error
}

// BouncerCaller is a bouncer that sends a request.
type BouncerCaller struct {
	bouncers.ID
	Version string
}

// StreamAnswer is the response to a bouncer in stream mode.
type StreamAnswer struct {
	bouncers.Delta
	Now time.Time
	// Confirm advances the bouncer's cursor. Call it with the number of bans after the whole
	// response was sent.
	Confirm func(ctx context.Context, sent int64) error
}

// Pull returns the changes since the last response that a bouncer confirmed, or everything on
// startup.
func (b *Bouncers) Pull(ctx context.Context, c BouncerCaller, startup bool, f bouncers.Filter) (*StreamAnswer, error) {
	known, _, err := b.Store.FindBouncer(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	now := b.Now()
	pull := bouncers.Pull{Filter: f, Cursor: known.Cursor, Startup: startup, Now: now}
	since, from := known.Cursor.Before.Revision, pull.ExpiriesFrom()
	if known.Cursor.Last.Revision == 0 {
		// A bouncer without any entries needs no history.
		if err := b.View.Refresh(ctx); err != nil {
			return nil, err
		}
		since, from = b.View.Revision(), now
	}
	changes, err := b.Entries.BouncerChanges(ctx, since, from, now, f.Captchas)
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
	return bouncers.OfKey(b.View.Blocks(), b.View.Parser().AddressKey(a), b.Now(), &f)
}

// OfRange returns the bans that contain a network, the longest first.
func (b *Bouncers) OfRange(network netip.Prefix, f bouncers.Filter) []bouncers.Ban {
	return bouncers.OfRange(b.View.Blocks(), network, b.Now(), &f)
}

// OfKey returns the bans of a key that is not an address, the longest first. A filter for
// scopes does not exclude the key's own scope.
func (b *Bouncers) OfKey(scope, value string, f bouncers.Filter) ([]bouncers.Ban, error) {
	key, err := b.View.Parser().Key(scope + ":" + value)
	if err != nil {
		return nil, fault.Field("value", "is not a key of the scope %q", scope)
	}
	f.Scopes = append([]string{scope}, f.Scopes...)
	return bouncers.OfKey(b.View.Blocks(), key, b.Now(), &f), nil
}

// All iterates over all bans.
func (b *Bouncers) All(f bouncers.Filter) iter.Seq[bouncers.Ban] {
	return bouncers.All(b.View.Blocks(), b.Now(), f)
}

// noteInterval is how often the requests of a live bouncer are stored.
const noteInterval = time.Minute

// maxNoted bounds the live bouncers that are remembered.
const maxNoted = 10_000

// NoteLive counts a response to a bouncer in live mode. At most once a minute for each bouncer,
// it returns a function that writes the count to the store; otherwise nil.
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

// List returns the bouncers with a recent request.
func (b *Bouncers) List(ctx context.Context, _ Caller, _ wire.None) (wire.Page[wire.Bouncer], error) {
	all, err := b.Store.Bouncers(ctx, b.Now().Add(-bouncers.Gone))
	return wire.WholePage(all, func(b bouncers.Bouncer) wire.Bouncer {
		return wire.Bouncer{
			Type: b.Type, Version: b.Version, Mode: string(b.Mode), TokenID: b.TokenID, Token: b.TokenName, Address: b.Address.String(),
			FirstSeen: wire.At(b.First), LastPulled: wire.At(b.Last), Sent: b.Sent, Captchas: b.GetsCaptchas(), Warning: b.Warning(),
		}
	}), err
}
