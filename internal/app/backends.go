package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/internal/timestamplog/refusalcache"
)

// prepareTimeout bounds how long a start waits for the database.
const prepareTimeout = 30 * time.Second

// backends are where a node keeps things: memory and SQLite, or Redis and
// Postgres.
type backends struct {
	store *sqlstore.Store
	log   timestamplog.Log
	// memory is the log in memory: log itself when embedded, else local.
	memory *memlog.Log
	// local stands in for log in an outage, nil when embedded.
	local timestamplog.Log
	redis *redislog.Log // nil when embedded
	// refusals is log when distributed: what Redis refused and this node knows.
	refusals *refusalcache.Log
	dir      *dataDir // nil when distributed
	close    func()
}

func openBackends(s Settings, log *slog.Logger, changed func(context.Context) error, secret func() []byte, onOutage func(timestamplog.OutageEvent)) (*backends, error) {
	options := sqlstore.Options{Logger: log, AfterChange: changed}
	if s.Embedded() {
		return openEmbedded(s, log, options)
	}
	return openDistributed(s, options, secret, onOutage)
}

func openEmbedded(s Settings, log *slog.Logger, options sqlstore.Options) (*backends, error) {
	dir, err := openDataDir(s.DataDir)
	if err != nil {
		return nil, err
	}
	checking, cancel := context.WithTimeout(context.Background(), prepareTimeout)
	defer cancel()
	if err := dir.checkDatabase(checking); err != nil {
		dir.close()
		return nil, err
	}
	store, err := sqlstore.New(dir.database(), options)
	if err != nil {
		dir.close()
		return nil, fmt.Errorf("the database %s: %s", dir.database(), oneLine(err))
	}
	memory := memlog.New(memlog.Options{})
	b := &backends{store: store, log: memory, memory: memory, dir: dir}
	b.close = closeAll(memory, store, dir.lock)
	if err := memory.LoadFile(dir.snapshot()); err != nil {
		// A log that cannot be read back is lost, which may admit up to N more;
		// refusing to start would refuse everybody.
		log.Warn("the snapshot of the logs cannot be read and is left aside; every key starts afresh", "file", dir.snapshot(), "error", err)
	}
	return b, nil
}

func openDistributed(s Settings, options sqlstore.Options, secret func() []byte, onOutage func(timestamplog.OutageEvent)) (*backends, error) {
	store, err := sqlstore.New(s.DatabaseURL, options)
	if err != nil {
		return nil, fmt.Errorf("--database-url: %s", oneLine(err))
	}
	redis, err := redislog.Open(s.RedisURL, redislog.Options{
		Prefix: s.RedisPrefix, Secret: secret, OnOutage: onOutage, Timeout: max(redislog.DefaultTimeout, s.CheckDeadline),
	})
	if err != nil {
		store.Close()
		return nil, fmt.Errorf("--redis-url: %s", oneLine(err))
	}
	memory := memlog.New(memlog.Options{})
	known := refusalcache.New(redis, refusalcache.Options{})
	b := &backends{store: store, log: known, memory: memory, local: memory, redis: redis, refusals: known}
	b.close = closeAll(redis, memory, store)
	return b, nil
}

func closeAll(parts ...io.Closer) func() {
	return func() {
		for _, part := range parts {
			part.Close()
		}
	}
}

// isOutage reports whether a database is unreachable, and not misconfigured.
func isOutage(err error) bool {
	return fault.Is(err, fault.Unavailable) || errors.Is(err, context.DeadlineExceeded)
}
