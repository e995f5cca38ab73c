package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/machine"
	"github.com/stint-dev/stint/internal/metrics"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
	"github.com/stint-dev/stint/internal/timestamplog/refusalcache"
	"github.com/stint-dev/stint/internal/tracing"
)

// backends store the data of a node: memory and SQLite when it is embedded, Redis
// and Postgres when it is distributed.
type backends struct {
	// lostLogs says what the start could not load of the logs, "" for nothing.
	lostLogs string
	store    *sqlstore.Store
	log      timestamplog.Log
	// memory is the log in memory: log itself when embedded, else local.
	memory *memlog.Log
	// local replaces log during an outage; nil when embedded.
	local timestamplog.Log
	redis *redislog.Log // nil when embedded
	// refusals is log when distributed, nil when embedded.
	refusals *refusalcache.Log
	dir      *dataDir // nil when distributed
	close    func()
}

// backendOptions are the dependencies of the backends.
type backendOptions struct {
	log      *slog.Logger
	metrics  *metrics.Metrics
	tracer   *tracing.Tracer
	refresh  func(context.Context) error // after a change of the database
	secret   func() []byte
	onOutage func(timestamplog.OutageEvent)
	// onRequestError is redislog.Options.OnRequestError.
	onRequestError func(error)
	// describe is memlog.Options.Describe.
	describe func(timestamplog.LogID) ([]*rules.Policy, bool)
}

// unknownMemory is the memory for logs, in bytes, on a machine whose memory is unknown.
const unknownMemory = 1 << 30

// newMemoryLog returns the log in memory. It may use a third of the memory, since the garbage
// collector lets the heap grow to twice the live memory before it collects.
func newMemoryLog(s Settings, o backendOptions) *memlog.Log {
	limit := s.MaxMemory
	if limit == 0 {
		if limit = machine.Memory() / 3; limit == 0 {
			limit = unknownMemory
		}
	}
	return memlog.New(memlog.Options{MaxBytes: limit, Describe: o.describe})
}

// describeLogs returns a function that returns the policies that may read a log, and whether
// the log must be kept when memory is short. Logs to keep are those of blocked keys, those that
// limit the guessing of passwords, whose number is fixed, and all while the policies are
// unknown.
func describeLogs(current func() *catalog.Catalog) func(timestamplog.LogID) ([]*rules.Policy, bool) {
	return func(id timestamplog.LogID) (reading []*rules.Policy, isKept bool) {
		c := current()
		if id.IsInternal() || c == nil || !c.Loaded() {
			return nil, true
		}
		if id.Policy < 0 { // of challenges
			return nil, false
		}
		selector, now := c.Selector(), time.Now()
		p, found := selector.ByID(id.Policy)
		if found {
			reading = append(reading, p)
		}
		k, err := offences.ParseKey(id.Key)
		if err != nil {
			return reading, false
		}
		for _, part := range selector.DerivedOf(p) {
			if part.Derived.Makes(k) {
				reading = append(reading, part)
			}
		}
		if member := c.Profiles().Find(k); member.LimitAt(now) != nil {
			// A limit replaces only the rules of the policy that selects the key.
			if own, _ := selector.Select(profiles.Subject(k, member)); own == p {
				reading = append(reading, member.Limit.Apply(own))
			}
		}
		return reading, len(reading) > 0 && c.Blocks().Match(k, now).Refuses()
	}
}

func openBackends(s Settings, o backendOptions) (*backends, error) {
	options := sqlstore.Options{Logger: o.log, AfterChange: o.refresh, Observe: o.databaseCall}
	if s.Embedded() {
		return openEmbedded(s, options, o)
	}
	return openDistributed(s, options, o)
}

func (o backendOptions) databaseCall(ctx context.Context, kind string, began time.Time, err error) {
	o.metrics.DatabaseCall(kind, time.Since(began), err)
	o.tracer.Call(ctx, "database "+kind, began, err)
}

func (o backendOptions) redisCall(ctx context.Context, isDecision bool, began time.Time, err error) {
	o.metrics.RedisCall(isDecision, time.Since(began), err)
	if isDecision {
		o.tracer.Shared(ctx, "redis decide", began, err)
		return
	}
	o.tracer.Call(ctx, "redis", began, err)
}

func openEmbedded(s Settings, options sqlstore.Options, o backendOptions) (*backends, error) {
	dir, err := openDataDir(s.DataDir)
	if err != nil {
		return nil, err
	}
	_, err = os.Stat(dir.database())
	isUsed := err == nil
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
	memory := newMemoryLog(s, o)
	b := &backends{store: store, log: memory, memory: memory, dir: dir}
	b.close = closeAll(memory, store, dir.lock)
	b.lostLogs = loadSnapshot(memory, dir, isUsed, o.log)
	return b, nil
}

// loadSnapshot loads the logs. Without its log a key may use its whole limit once more; a node
// that did not start would refuse every request. isUsed says that the node has run before. It returns what is lost, "" for nothing.
func loadSnapshot(memory *memlog.Log, dir *dataDir, isUsed bool, log *slog.Logger) (lost string) {
	path := dir.snapshot()
	if _, err := os.Stat(path); isUsed && errors.Is(err, fs.ErrNotExist) {
		log.Error("the snapshot of the logs is missing beside a database that was used; all counts start from zero", "file", path)
		return "The snapshot of the logs is missing beside a database that was used: all counts started from zero."
	}
	err := memory.LoadFile(path)
	var damaged *memlog.DamagedSnapshot
	switch {
	case errors.As(err, &damaged):
		log.Error("the snapshot of the logs is damaged; the keys whose logs are lost start from zero", "file", path, "loaded", damaged.Loaded, "lost", damaged.Lost, "error", damaged.Err)
		return "The snapshot of the logs was damaged: " + strings.TrimPrefix(damaged.Error(), memlog.ErrSnapshot.Error()+": ") + ". Their keys started from zero."
	case err != nil:
		log.Error("the snapshot of the logs cannot be read and is ignored; all counts start from zero", "file", path, "error", err)
		return "The snapshot of the logs could not be read: all counts started from zero. The log of the node says why."
	}
	return ""
}

func openDistributed(s Settings, options sqlstore.Options, o backendOptions) (*backends, error) {
	store, err := sqlstore.New(s.DatabaseURL, options)
	if err != nil {
		return nil, fmt.Errorf("--database-url: %s", oneLine(err))
	}
	redis, err := redislog.Open(s.RedisURL, redislog.Options{
		Prefix: s.RedisPrefix, Secret: o.secret, OnOutage: o.onOutage, OnRequestError: o.onRequestError, Observe: o.redisCall,
		Timeout: max(redislog.DefaultTimeout, s.CheckDeadline), MaxLatency: s.CheckDeadline,
	})
	if err != nil {
		store.Close()
		return nil, fmt.Errorf("--redis-url: %s", oneLine(err))
	}
	memory := newMemoryLog(s, o)
	cache := refusalcache.New(redis, refusalcache.Options{})
	b := &backends{store: store, log: cache, memory: memory, local: memory, redis: redis, refusals: cache}
	b.close = closeAll(redis, memory, store)
	return b, nil
}

// liveness says when the database last answered this node.
func (b *backends) liveness() httpserver.StoreLiveness {
	return httpserver.StoreLiveness{LastAnswer: func() time.Time { return db.LastAnswer(b.store.DB) }}
}

func closeAll(parts ...io.Closer) func() {
	return func() {
		for _, part := range parts {
			part.Close()
		}
	}
}
