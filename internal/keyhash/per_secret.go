package keyhash

import (
	"bytes"
	"sync/atomic"
)

// PerSecret caches a value that is derived from a secret, such as a Hash. The secret of a
// database changes when the backup of another one is restored. The zero value is ready to use. It
// is safe for concurrent use.
type PerSecret[T any] struct {
	last atomic.Pointer[underSecret[T]]
}

type underSecret[T any] struct {
	secret []byte
	value  T
}

// Of returns the value that derive returns for secret. Concurrent calls may derive it more than
// once.
func (c *PerSecret[T]) Of(secret []byte, derive func(secret []byte) T) T {
	if last := c.last.Load(); last != nil && bytes.Equal(last.secret, secret) {
		return last.value
	}
	kept := bytes.Clone(secret)
	next := &underSecret[T]{kept, derive(kept)}
	c.last.Store(next)
	return next.value
}
