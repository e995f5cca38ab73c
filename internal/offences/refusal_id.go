package offences

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

// RefusalID names the refusals of one key under one policy in one minute. It is
// written as 26 characters of Crockford's base 32, as a ULID: 48 bits of the
// minute in milliseconds, then the 80 bits of the MAC of policy and key. So
// every node gives the same id, nobody can guess another key's, and it leads to
// the minute's record. The zero value is the id of no refusal, written as "".
type RefusalID struct {
	Minute time.Time // UTC, whole minutes
	MAC    [MACSize]byte
}

// RefusalIDMaker makes ids under one secret. It is safe for use by many goroutines. The
// zero value is not usable.
type RefusalIDMaker struct{ digests sync.Pool } // of *digest

// digest is a keyed hash that is used again and again: keying one costs more
// than what is hashed.
type digest struct {
	hash.Hash
	sum [sha256.Size]byte
	in  [8]byte
	key []byte
}

// NewRefusalIDMaker returns the maker of a database's ids.
func NewRefusalIDMaker(secret []byte) *RefusalIDMaker {
	return &RefusalIDMaker{sync.Pool{New: func() any { return &digest{Hash: hmac.New(sha256.New, secret)} }}}
}

// MAC returns the keyed digest of a policy's id (0 for none) and a key.
func (m *RefusalIDMaker) MAC(policy int64, key string) [MACSize]byte {
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
func (m *RefusalIDMaker) ID(policy int64, key string, at time.Time) RefusalID {
	return RefusalID{Minute: at.UTC().Truncate(time.Minute), MAC: m.MAC(policy, key)}
}

const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// mistaken maps the letters that people read for digits.
var mistaken = strings.NewReplacer("I", "1", "L", "1", "O", "0")

// IsZero reports whether it is the id of no refusal.
func (id RefusalID) IsZero() bool { return id.Minute.IsZero() }

// String returns the 26 characters.
func (id RefusalID) String() string { return string(id.AppendTo(nil)) }

// AppendTo appends the 26 characters.
func (id RefusalID) AppendTo(b []byte) []byte {
	if id.IsZero() {
		return b
	}
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
	return append(b, text[:]...)
}

// ErrBadRefusalID is returned for text that is no refusal id.
var ErrBadRefusalID = errors.New("a refusal's id has 26 letters and digits, for example 01M84HRKV0XB90539ZDAXJCCYG")

// ParseRefusalID reads an id as String writes it, in either case, taking I and L for 1
// and O for 0 as people do.
func ParseRefusalID(text string) (RefusalID, error) {
	text = mistaken.Replace(strings.ToUpper(text))
	if len(text) != 26 || text[0] > '7' {
		return RefusalID{}, ErrBadRefusalID
	}
	var high, low uint64
	for _, c := range []byte(text) {
		at := strings.IndexByte(alphabet, c)
		if at < 0 {
			return RefusalID{}, ErrBadRefusalID
		}
		high = high<<5 | low>>59
		low = low<<5 | uint64(at)
	}
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], high)
	binary.BigEndian.PutUint64(raw[8:], low)
	id := RefusalID{Minute: time.UnixMilli(int64(high >> 16)).UTC(), MAC: [MACSize]byte(raw[6:])}
	if id.Minute.Truncate(time.Minute) != id.Minute {
		return RefusalID{}, ErrBadRefusalID
	}
	return id, nil
}
