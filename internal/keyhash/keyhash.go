// Package keyhash hashes strings from outside under a secret. Without the secret nobody can
// choose strings with colliding hashes to overload one shard, hash bucket or primary. Processes
// with the same secret compute the same hashes. Within one process hash/maphash does the same,
// faster.
package keyhash

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/dchest/siphash"
)

// Hash is SipHash-2-4 under a key. The zero value has a publicly known key.
type Hash struct{ k0, k1 uint64 }

// New returns the hash under a key that is derived from secret. label separates keys for
// different purposes.
func New(secret []byte, label string) Hash {
	derived := hmac.New(sha256.New, secret)
	derived.Write([]byte(label))
	sum := derived.Sum(nil)
	return Hash{binary.LittleEndian.Uint64(sum), binary.LittleEndian.Uint64(sum[8:])}
}

// Sum64 returns the hash of s. It does not allocate for strings up to 128 bytes.
func (h Hash) Sum64(s string) uint64 {
	var short [128]byte
	return siphash.Hash(h.k0, h.k1, append(short[:0], s...))
}
