package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/supervise"
)

const (
	// prepareTimeout bounds one attempt to prepare the database.
	prepareTimeout = 30 * time.Second
	// prepareInterval is the pause between two attempts.
	prepareInterval = time.Second
)

// preparer prepares the database for use: its schema, the first credentials and
// the first read of the catalog.
type preparer struct {
	store     *sqlstore.Store
	dir       *dataDir // nil when distributed
	catalog   *catalog.Catalog
	lastKnown *lastKnown // nil when embedded
	first     firstStart
	log       *slog.Logger

	done          atomic.Bool // the schema is current, and the credentials exist
	fromLastKnown atomic.Bool // the node started from lastKnown
}

// start makes the first attempt. If the shared database is unreachable, the node
// starts from the last known state or, without one, not ready; start then returns
// nil, and run tries again.
func (p *preparer) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	err := p.prepare(ctx)
	if wrong := databaseMistake(err); wrong != nil {
		return wrong
	}
	if err == nil || p.dir != nil || !isOutage(err) {
		return err
	}
	p.adoptLastKnown(err)
	return nil
}

// prepare is one attempt. It is idempotent.
func (p *preparer) prepare(ctx context.Context) error {
	if err := p.store.Prepare(ctx); err != nil {
		return err
	}
	if p.dir != nil {
		if err := p.dir.protect(); err != nil {
			return err
		}
	}
	if err := p.first.run(ctx, p.store); err != nil {
		return err
	}
	if err := p.catalog.Refresh(ctx); err != nil {
		return err
	}
	if p.dir != nil {
		if err := p.dir.markInUse(); err != nil {
			return fmt.Errorf("--data-dir: %w", err)
		}
	}
	p.done.Store(true)
	return nil
}

// adoptLastKnown starts from what an earlier run saved, because the database is
// unreachable with err.
func (p *preparer) adoptLastKnown(err error) {
	saved, asOf, problem := p.lastKnown.load()
	switch {
	case errors.Is(problem, fs.ErrNotExist):
		p.log.Warn("the database is unreachable and no policies and blocks are kept in the data directory; this node answers 503 until the database is reachable",
			"file", p.lastKnown.path, "error", oneLine(err), "cause", oneLine(causeOf(err)))
	case problem != nil:
		p.log.Warn("the database is unreachable and the policies and blocks kept in the data directory are ignored; this node answers 503 until the database is reachable",
			"file", p.lastKnown.path, "reason", oneLine(problem), "error", oneLine(err), "cause", oneLine(causeOf(err)))
	default:
		p.catalog.Adopt(saved, asOf, err)
		p.fromLastKnown.Store(true)
		p.log.Warn("the database is unreachable; this node answers checks by the policies and blocks kept in the data directory and takes no changes",
			"as_of", asOf.UTC().Format(time.RFC3339), "age", time.Since(asOf).Round(time.Second).String(), "revision", saved.Revision,
			"policies", len(saved.Policies), "entries", len(saved.Entries), "error", oneLine(err), "cause", oneLine(causeOf(err)))
	}
}

// run repeats the attempt until it succeeds or ctx ends.
func (p *preparer) run(ctx context.Context) {
	for !p.done.Load() && supervise.Sleep(ctx, prepareInterval) == nil {
		attempt, cancel := context.WithTimeout(ctx, prepareTimeout)
		err := p.prepare(attempt)
		cancel()
		if err == nil {
			p.log.Info("the database is reachable; this node is ready")
		} else if wrong := databaseMistake(err); wrong != nil {
			p.log.Error("the database answers and the URL does not fit it", "error", wrong)
		} else if !isOutage(err) && ctx.Err() == nil {
			p.log.Error("the database is reachable and cannot be used", "error", err)
		}
	}
}

// wait returns when the database is prepared, or when ctx has ended.
func (p *preparer) wait(ctx context.Context) {
	for !p.done.Load() && supervise.Sleep(ctx, prepareInterval) == nil {
	}
}

// refresh applies a change that this node has just committed, so that the change affects the
// next check before the operator gets a response. Before the first load there is nothing to
// refresh.
func (p *preparer) refresh(ctx context.Context) error {
	if !p.done.Load() && !p.catalog.Loaded() {
		return nil
	}
	return p.catalog.Refresh(context.WithoutCancel(ctx))
}

// isOutage reports whether a database is unreachable, and not misconfigured.
func isOutage(err error) bool {
	if errors.Is(err, db.ErrUnfit) {
		return false
	}
	return fault.Is(err, fault.Unavailable) || fault.Is(err, fault.MaybeSaved) || errors.Is(err, context.DeadlineExceeded)
}

// databaseMistake is db.Mistake with the name of the setting.
func databaseMistake(err error) error {
	if wrong := db.Mistake(err); wrong != nil {
		return fmt.Errorf("--database-url: %w", wrong)
	}
	return nil
}

// causeOf returns the cause of a fault, whose own text is for callers.
func causeOf(err error) error {
	var known *fault.Error
	if errors.As(err, &known) && known.Err != nil {
		return known.Err
	}
	return err
}
