package eventlog

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/events"
)

// ChangeStore reads the audit and notes how far it was written.
type ChangeStore interface {
	EachRecord(ctx context.Context, f audit.Filter) iter.Seq2[*audit.Record, error]
	// AcquireLease gives the lease of name to holder until an instant, or renews it.
	AcquireLease(ctx context.Context, name, holder string, now, until time.Time) (bool, error)
	// WrittenUntil returns the id of the last audit record that was written, false before the first.
	WrittenUntil(ctx context.Context) (int64, bool, error)
	// SetWrittenUntil notes it.
	SetWrittenUntil(ctx context.Context, id int64) error
}

// Times of the lease. If the node that writes changes dies, another one goes on after leaseTime.
const (
	leaseTime   = 30 * time.Second
	lookEvery   = 10 * time.Second
	maxAtOnce   = 500   // records in one write
	maxUnseen   = 10000 // records that are written after an interruption
	changeLease = "event log of changes"
)

// Changes writes the changes of all nodes, once: by the node that has the lease. It writes those that were made
// while no node ran too.
type Changes struct {
	Log    *Log
	Store  ChangeStore
	Holder string // this node, unique
	Errors *slog.Logger

	wake chan struct{}
}

// NewChanges returns what writes changes to l; see Changed and Run.
func NewChanges(l *Log, store ChangeStore, holder string, errors *slog.Logger) *Changes {
	return &Changes{Log: l, Store: store, Holder: holder, Errors: errors, wake: make(chan struct{}, 1)}
}

// Changed is the callback for catalog.OnChange. It never blocks.
func (c *Changes) Changed(catalog.Changed) {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run writes changes until ctx ends.
func (c *Changes) Run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if err := c.look(ctx); err != nil && ctx.Err() == nil {
			c.Errors.Debug("changes could not be written to the event log yet", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-c.wake:
		}
	}
}

// look writes what is new, if this node has the lease.
func (c *Changes) look(ctx context.Context) error {
	now := c.Log.o.Now()
	held, err := c.Store.AcquireLease(ctx, changeLease, c.Holder, now, now.Add(leaseTime))
	if err != nil || !held {
		return err
	}
	last, known, err := c.Store.WrittenUntil(ctx)
	if err != nil {
		return err
	}
	var fresh []events.Event
	newest := int64(0)
	whole := true
	for record, err := range c.Store.EachRecord(ctx, audit.Filter{}) {
		if err != nil {
			return err
		}
		newest = max(newest, record.ID)
		if !known || record.ID <= last {
			break
		}
		if len(fresh) == maxUnseen {
			whole = false
			break
		}
		fresh = append(fresh, events.Event{Kind: events.Change, At: record.At, Entry: record})
	}
	notice := func(text string) events.Event { return events.Event{Kind: events.Notice, At: now, Text: text} }
	switch {
	case !known || newest < last:
		if known {
			err = c.Log.Changes([]events.Event{notice("changes are missing: the database went back to an earlier state, as after a failover or the restore of a backup")})
		}
		if err != nil {
			return err
		}
		return c.Store.SetWrittenUntil(ctx, newest)
	case !whole:
		fresh = append(fresh, notice(fmt.Sprintf("changes are missing: there were more than %d since the last that was written; the audit has them all", maxUnseen)))
	}
	slices.Reverse(fresh)
	for some := range slices.Chunk(fresh, maxAtOnce) {
		if err := c.Log.Changes(some); err != nil {
			return err
		}
		if entry := some[len(some)-1].Entry; entry != nil {
			if err := c.Store.SetWrittenUntil(ctx, entry.ID); err != nil {
				return err
			}
		}
	}
	return nil
}
