// Package refusal holds the ids that refused answers carry. An id is derived
// from the minute and a MAC of policy and key, so every node gives the same
// one, nobody can guess another key's, and it opens the minute's record.
package refusal

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"strings"
	"sync"
	"time"
)

// MACSize is the number of bytes of the MAC within an id.
const MACSize = 10

// ID names the refusals of one key under one policy in one minute. It is
// written as 26 characters of Crockford's base 32, as a ULID: 48 bits of the
// minute in milliseconds, then the 80 bits of the MAC.
type ID struct {
	Minute time.Time // UTC, whole minutes
	MAC    [MACSize]byte
}

// Maker makes ids under one secret. It is safe for use by many goroutines. The
// zero value is not usable.
type Maker struct{ digests sync.Pool } // of *digest

// digest is a keyed hash that is used again and again: keying one costs more
// than what is hashed.
type digest struct {
	hash.Hash
	sum [sha256.Size]byte
	in  [8]byte
	key []byte
}

// NewMaker returns the maker of a database's ids.
func NewMaker(secret []byte) *Maker {
	return &Maker{sync.Pool{New: func() any { return &digest{Hash: hmac.New(sha256.New, secret)} }}}
}

// MAC returns the keyed digest of a policy's id (0 for none) and a key.
func (m *Maker) MAC(policy int64, key string) [MACSize]byte {
	d := m.digests.Get().(*digest)
	defer m.digests.Put(d)
	d.Reset()
	binary.BigEndian.PutUint64(d.in[:], uint64(policy))
	d.key = append(d.key[:0], key...)
	d.Write(d.in[:])
	d.Write(d.key)
	return [MACSize]byte(d.Sum(d.sum[:0])[:MACSize])
}

// ID returns the id of a refusal at an instant.
func (m *Maker) ID(policy int64, key string, at time.Time) ID {
	return ID{Minute: at.UTC().Truncate(time.Minute), MAC: m.MAC(policy, key)}
}

const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// mistaken maps the letters that people read for digits.
var mistaken = strings.NewReplacer("I", "1", "L", "1", "O", "0")

// String returns the 26 characters.
func (id ID) String() string {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], uint64(id.Minute.UnixMilli())<<16)
	copy(raw[6:], id.MAC[:])
	var text [26]byte
	high, low := binary.BigEndian.Uint64(raw[:8]), binary.BigEndian.Uint64(raw[8:])
	for i := len(text) - 1; i >= 0; i-- {
		text[i] = alphabet[low&31]
		low = low>>5 | high<<59
		high >>= 5
	}
	return string(text[:])
}

// ErrBadID is returned for text that is no refusal id.
var ErrBadID = errors.New("a refusal's id has 26 letters and digits, for example 01KAH3E6C0QJ7V5N2RWZB48T9D")

// Parse reads an id as String writes it, in either case, taking I and L for 1
// and O for 0 as people do.
func Parse(text string) (ID, error) {
	text = mistaken.Replace(strings.ToUpper(text))
	if len(text) != 26 || text[0] > '7' {
		return ID{}, ErrBadID
	}
	var high, low uint64
	for _, c := range []byte(text) {
		at := strings.IndexByte(alphabet, c)
		if at < 0 {
			return ID{}, ErrBadID
		}
		high = high<<5 | low>>59
		low = low<<5 | uint64(at)
	}
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], high)
	binary.BigEndian.PutUint64(raw[8:], low)
	id := ID{Minute: time.UnixMilli(int64(high >> 16)).UTC(), MAC: [MACSize]byte(raw[6:])}
	if id.Minute.Truncate(time.Minute) != id.Minute {
		return ID{}, ErrBadID
	}
	return id, nil
}
