package redislog

import (
	"errors"

	"github.com/stint-dev/stint/internal/keyhash"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// sharder maps a key to its shard by a hash under a secret, so that callers cannot choose keys
// that share one shard and overload its primary. All nodes that share logs need the same secret.
// It is safe for concurrent use.
type sharder struct {
	// secret returns the secret, which may change; empty while it is not known. If secret is nil,
	// as for a single process, keys are hashed without a secret.
	secret func() []byte
	hashes keyhash.PerSecret[keyhash.Hash]
}

// shardLabel separates the hash of shards from others under the same secret.
const shardLabel = "stint: shards of the log"

// errNoSecret is the error of requests before the secret is known: without it a log could be
// stored in a shard in which other nodes would not look for it.
var errNoSecret = errors.New("the secret that the names of logs depend on has not been loaded from the database yet")

// check returns an error, matching timestamplog.ErrUnreachable, while the secret
// is not known.
func (s *sharder) check() error {
	if _, isKnown := s.hash(); !isKnown {
		return unreachable(errNoSecret)
	}
	return nil
}

// hash returns the hash under the present secret, false while that is not known.
func (s *sharder) hash() (keyhash.Hash, bool) {
	if s.secret == nil {
		return keyhash.Hash{}, true
	}
	secret := s.secret()
	if len(secret) == 0 {
		return keyhash.Hash{}, false
	}
	return s.hashes.Of(secret, shardHash), true
}

func shardHash(secret []byte) keyhash.Hash { return keyhash.New(secret, shardLabel) }

// of returns the shard of a key. check must have returned nil.
func (s *sharder) of(key string) int {
	h, _ := s.hash()
	return int(h.Sum64(key) % Shards)
}

// nameOf returns the name of a log.
func (l *Log) nameOf(id timestamplog.LogID) string {
	return logName(l.prefix, l.shards.of(id.Key), id)
}
