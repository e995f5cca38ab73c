package limit

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/internal/timestamplog/redislog"
)

// Store is where requests are counted. Limiters of different names share it without sharing counts. It is safe for
// concurrent use.
type Store struct {
	log     timestamplog.Log
	timeout time.Duration // of a call, 0 for none
	err     error         // why it cannot be used, which New returns
	close   func()
}

// limited returns a context for one call.
func (s *Store) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.timeout)
}

// Close ends what runs in the background: the probes of a Redis that does not answer. It does not close the Redis
// client.
func (s *Store) Close() {
	if s.close != nil {
		s.close()
	}
}

// MemoryOptions are the settings of Memory. The zero value is valid.
type MemoryOptions struct {
	// MaxBytes bounds the memory, 0 for no bound. At the bound the keys that were idle longest are
	// forgotten, none of them refused at that moment; if every key is refused, new ones are allowed and not counted.
	// Set it where clients choose their keys.
	MaxBytes int64
	// Now is the clock; nil for the machine's. It must be fast, and must not use the store. time.Now obeys
	// testing/synctest.
	Now func() time.Time
}

// Memory returns a Store in the memory of this process. It starts no goroutine. What it counted ends with the process.
func Memory(options ...MemoryOptions) *Store {
	var o MemoryOptions
	if len(options) > 0 {
		o = options[0]
	}
	return &Store{log: memlog.New(memlog.Options{MaxBytes: o.MaxBytes, Now: o.Now})}
}

// RedisOptions are the settings of Redis. The zero value is valid.
type RedisOptions struct {
	// Prefix begins the name of every key in Redis, "" for "stint": 1 to 64 letters, digits, dots, colons, underscores or
	// dashes.
	Prefix string
	// Secret, the same in all processes, spreads the keys over a Redis Cluster so that callers who choose keys cannot
	// aim at one server. Another Secret forgets all counts. Empty spreads them by a known hash.
	Secret []byte
	// Timeout bounds each call, 0 for a second. The deadline of a context applies if it is earlier.
	Timeout time.Duration
}

// Redis returns a Store in a Redis, which client reaches: a *redis.Client, also of a Sentinel, or a
// *redis.ClusterClient, whose option ContextTimeoutEnabled must be true, or calls could last longer than their time-out. Calls that come together are sent
// together. Once calls have failed in a row, others fail at once, and Redis is asked once a second whether it answers.
func Redis(client redis.UniversalClient, options ...RedisOptions) *Store {
	var o RedisOptions
	if len(options) > 0 {
		o = options[0]
	}
	settings := redislog.Options{Prefix: o.Prefix, Timeout: o.Timeout}
	if len(o.Secret) > 0 {
		settings.Secret = func() []byte { return o.Secret }
	}
	log := redislog.New(client, settings)
	s := &Store{log: log, timeout: cmp.Or(o.Timeout, redislog.DefaultTimeout), close: log.Stop}
	switch {
	case !endsCalls(client):
		s.err = errors.New("the options of the Redis client need ContextTimeoutEnabled: true, or calls could last longer than their time-out")
	case o.Prefix != "":
		s.err = redislog.CheckPrefix(o.Prefix)
	}
	return s
}

// endsCalls reports whether calls of a client end with their contexts.
func endsCalls(client redis.UniversalClient) bool {
	switch c := client.(type) {
	case *redis.Client:
		return c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		return c.Options().ContextTimeoutEnabled
	}
	return false
}
