package gate

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"sync/atomic"

	"github.com/stint-dev/stint/internal/refusal"
)

// makers keeps the maker of refusal ids and handles while the secret, which a
// restored backup may bring, stays the same.
type makers struct{ last atomic.Pointer[makerUnder] }

type makerUnder struct {
	secret []byte
	*refusal.Maker
	handleKey []byte
}

// handleLabel tells the key of handles from whatever else is derived of the
// secret.
const handleLabel = "stint: handles of turns"

func (m *makers) under(secret []byte) *makerUnder {
	if last := m.last.Load(); last != nil && bytes.Equal(last.secret, secret) {
		return last
	}
	made := &makerUnder{secret: bytes.Clone(secret), Maker: refusal.NewMaker(secret)}
	derived := hmac.New(sha256.New, secret)
	derived.Write([]byte(handleLabel))
	made.handleKey = derived.Sum(nil)
	m.last.Store(made)
	return made
}
