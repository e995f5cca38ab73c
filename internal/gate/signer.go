package gate

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"sync/atomic"

	"github.com/stint-dev/stint/internal/keyhash"
	"github.com/stint-dev/stint/internal/offences"
)

// signers caches the signer of the current secret. A restored backup may change
// the secret.
type signers struct{ last atomic.Pointer[signer] }

type signer struct {
	secret []byte
	*offences.RefusalIDMaker
	handleKey []byte
	values    keyhash.Hash
}

// handleLabel separates the key for handles from other keys that are derived from the secret.
const handleLabel = "stint: handles of reservations"

// valuesLabel separates the hash of the values that distinct rules count from other hashes.
const valuesLabel = "stint: values that rules count"

// valueOf returns the hash of a value, which is never 0. Logs hold only this hash.
func (s *signer) valueOf(value string) uint64 { return max(1, s.values.Sum64(value)) }

func (m *signers) under(secret []byte) *signer {
	if last := m.last.Load(); last != nil && bytes.Equal(last.secret, secret) {
		return last
	}
	made := &signer{secret: bytes.Clone(secret), RefusalIDMaker: offences.NewRefusalIDMaker(secret)}
	derived := hmac.New(sha256.New, secret)
	derived.Write([]byte(handleLabel))
	made.handleKey = derived.Sum(nil)
	made.values = keyhash.New(secret, valuesLabel)
	m.last.Store(made)
	return made
}
