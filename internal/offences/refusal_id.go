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

// RefusalID identifies the refusals of one key under one policy in one minute. Its text is 26
// characters of Crockford's base 32, as in a ULID: 48 bits of the minute in milliseconds, then 80
// bits of the MAC of policy and key. So every node makes the same id, nobody can guess the id of
// another key, and the id leads to the record of the minute. The zero value means no refusal; its
// text is "".
type RefusalID struct {
	Minute time.Time // UTC, whole minutes
	MAC    [MACSize]byte
}

// RefusalIDMaker makes ids under one secret. It is safe for concurrent use. The zero value is not
// usable.
//
// Fast path. Plain version: hmac.New for each id, in refusal_id_test.go. Benchmark: BenchmarkMAC,
// 3.6 times faster.
type RefusalIDMaker struct{ digests sync.Pool } // of *digest

// digest is a keyed hash that is reused: keying a hash costs more than hashing the data.
type digest struct {
	hash.Hash
	sum [sha256.Size]byte
	in  [8]byte
	key []byte
}

// NewRefusalIDMaker returns a maker of ids under the secret of a database.
func NewRefusalIDMaker(secret []byte) *RefusalIDMaker {
	return &RefusalIDMaker{sync.Pool{New: func() any { return &digest{Hash: hmac.New(sha256.New, secret)} }}}
}

// MAC returns the MAC of a policy's id (0 for none) and a key.
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

// ID returns the id of a refusal at a given time.
func (m *RefusalIDMaker) ID(policy int64, key string, at time.Time) RefusalID {
	return RefusalID{Minute: at.UTC().Truncate(time.Minute), MAC: m.MAC(policy, key)}
}

const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// mistaken maps letters to the digits for which they are easily mistaken.
var mistaken = strings.NewReplacer("I", "1", "L", "1", "O", "0")

// IsZero reports whether id means no refusal.
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

// ErrBadRefusalID is returned for text that is not a refusal id.
var ErrBadRefusalID = errors.New("a refusal's id has 26 letters and digits, for example 01M84HRKV0XB90539ZDAXJCCYG")

// ParseRefusalID parses the result of String, in upper or lower case. It reads I and L as 1 and O
// as 0.
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
