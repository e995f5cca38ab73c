package admin

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// ErasureStore erases keys from the database.
type ErasureStore interface {
	// Erase erases a key and puts name in its place where a text names it. A preview says what it would erase.
	Erase(ctx context.Context, by audit.Actor, key keys.Key, name string, preview bool) (wire.KeyErasure, error)
}

// ErasedName returns the name of an erased key in audit records: a hash that depends on the secret,
// so that nobody without it can find the key by trying all addresses.
func ErasedName(secret []byte, key keys.Key) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("erased key\x00" + key.String()))
	return audit.ErasedName + hex.EncodeToString(mac.Sum(nil)[:8])
}

// Erase erases everything that is kept about a key, from the logs and from the database. If something fails, it
// can be repeated.
func (k *Keys) Erase(ctx context.Context, by Caller, in wire.EraseKeyRequest) (wire.KeyErasure, error) {
	key, err := k.Parse(ctx, in.Key)
	if err != nil {
		return wire.KeyErasure{}, err
	}
	name := ErasedName(k.Secret(), key)
	if !in.Preview && in.Confirm != key.String() {
		e := fault.New(fault.NeedConfirm, "Nothing was erased. What is erased about %s cannot be restored, and its limits start from zero. To go on, send it again with confirm=%s.", key, key)
		e.Field = "confirm"
		return wire.KeyErasure{}, e
	}
	if !in.Preview {
		all, err := k.policiesToReset("")
		if err != nil {
			return wire.KeyErasure{}, err
		}
		if _, err := k.reset(ctx, key, all, true); err != nil {
			return wire.KeyErasure{}, err
		}
		if err := k.Forget(ctx, key.String()); err != nil {
			return wire.KeyErasure{}, err
		}
	}
	done, err := k.Erasure.Erase(ctx, by.Actor, key, name, in.Preview)
	if err != nil {
		return done, err
	}
	for _, p := range k.View.Selector().Policies() {
		if namesKey(p, key) {
			done.Left = append(done.Left, fmt.Sprintf("The policy %s names it, and so do its versions.", p.Name))
		}
	}
	done.Left = append(done.Left,
		"The sample of traffic has it for up to 24 hours, and other nodes the requests of the last hour; they may still write what they counted in the last seconds.",
		"Addresses of operators' logins and changes stay, and what refusals of other keys say of the same requests.",
		"Backups, the event log and the log of the node keep what they have; so do notifications that were sent.")
	return done, nil
}

func namesKey(p *rules.Policy, key keys.Key) bool {
	return slices.ContainsFunc(p.Match, func(m keys.Pattern) bool { return m.String() == key.String() })
}
