package gate

import (
	"crypto/hmac"
	"crypto/sha256"
	"sync"

	"github.com/stint-dev/stint/internal/keyhash"
	"github.com/stint-dev/stint/internal/offences"
)

// signer makes the ids of refusals, the handles of reservations and the hashes of values under one
// secret.
type signer struct {
	*offences.RefusalIDMaker
	handleKey []byte
	macs      sync.Pool // of hash.Hash under handleKey: a new one hashes the key again
	values    keyhash.Hash
}

// handleLabel separates the key for handles from other keys that are derived from the secret.
const handleLabel = "stint: handles of reservations"

// valuesLabel separates the hash of the values that distinct rules count from other hashes.
const valuesLabel = "stint: values that rules count"

// valueOf returns the hash of a value, which is never 0. Logs hold only this hash.
func (s *signer) valueOf(value string) uint64 { return max(1, s.values.Sum64(value)) }

// presentSigner returns the signer under the present secret.
func presentSigner(g *Gate) *signer { return g.signers.Of(g.view.Settings().Secret, newSigner) }

func newSigner(secret []byte) *signer {
	derived := hmac.New(sha256.New, secret)
	derived.Write([]byte(handleLabel))
	return &signer{
		RefusalIDMaker: offences.NewRefusalIDMaker(secret), handleKey: derived.Sum(nil), values: keyhash.New(secret, valuesLabel),
	}
}
