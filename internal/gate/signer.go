package gate

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"sync/atomic"

	"github.com/stint-dev/stint/internal/offences"
)

// signers caches the signer of the current secret. A restored backup may change
// the secret.
type signers struct{ last atomic.Pointer[signer] }

type signer struct {
	secret []byte
	*offences.RefusalIDMaker
	handleKey []byte
}

// handleLabel separates the key of handles from other keys derived from the secret.
const handleLabel = "stint: handles of reservations"

func (m *signers) under(secret []byte) *signer {
	if last := m.last.Load(); last != nil && bytes.Equal(last.secret, secret) {
		return last
	}
	made := &signer{secret: bytes.Clone(secret), RefusalIDMaker: offences.NewRefusalIDMaker(secret)}
	derived := hmac.New(sha256.New, secret)
	derived.Write([]byte(handleLabel))
	made.handleKey = derived.Sum(nil)
	m.last.Store(made)
	return made
}
