package gate

import (
	"bytes"
	"sync/atomic"

	"github.com/stint-dev/stint/internal/refusal"
)

// makers keeps the maker of refusal ids while the secret, which a restored
// backup may bring, stays the same.
type makers struct{ last atomic.Pointer[makerUnder] }

type makerUnder struct {
	secret []byte
	*refusal.Maker
}

func (m *makers) under(secret []byte) *refusal.Maker {
	if last := m.last.Load(); last != nil && bytes.Equal(last.secret, secret) {
		return last.Maker
	}
	made := &makerUnder{bytes.Clone(secret), refusal.NewMaker(secret)}
	m.last.Store(made)
	return made.Maker
}
