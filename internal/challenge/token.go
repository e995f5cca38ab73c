// Package challenge makes and answers challenges, which clients solve to get a pass, and writes the
// pages that challenged and refused browsers show. Nothing is stored: challenges and passes are
// signed under the secret that all nodes share, and one challenge always gives the same pass, or the
// one that its address shares, so that sending its solution again, by whomever, gives nothing new.
package challenge

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"net/netip"
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/keys"
)

// The bounds of challenges and passes.
const (
	// Epoch is how long one key signs: each has a key of its own, derived from the secret.
	epoch = 24 * time.Hour
	// lifetime is how long a challenge can be solved.
	lifetime = 30 * time.Minute
	// workOnlyFor is the same for one in place of a captcha: it is no stock for when captchas are back.
	workOnlyFor = 2 * time.Minute
	// maxSkew is how far the clock of the node that signed may be ahead.
	maxSkew = 10 * time.Minute
	// sharedFor is how long the pass holds at most that those share who get none of their own: until then
	// their address may earn passes again.
	sharedFor = time.Hour
	// MaxTarget is the longest target that a challenge leads back to, in bytes.
	MaxTarget = 2048
	// MaxDifficulty is some ten minutes of a fast processor.
	MaxDifficulty = 28

	version   = 1
	nonceSize = 16
	maxToken  = (MaxTarget + 256) * 4 / 3
)

// The kinds of what is signed. Each has keys of its own, so that none passes for another.
const (
	kindChallenge byte = 'c'
	kindPass      byte = 'p'
	kindAltcha    byte = 'a'
)

var tokenText = base64.RawURLEncoding.Strict()

// challenge is a challenge as it is signed.
type challenge struct {
	issued     time.Time
	nonce      [nonceSize]byte
	difficulty int
	way        way
	wait       time.Duration // whole seconds
	network    netip.Prefix  // in which its pass holds, zero for any
	target     string        // cleaned, where its pass leads
}

// keyOf returns the key that signs a kind at a time.
func keyOf(secret []byte, kind byte, at time.Time) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("stint: challenges and passes"))
	mac.Write([]byte{kind})
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli()/epoch.Milliseconds())))
	return mac.Sum(nil)
}

// seal returns the token of body, which was issued at a time.
func seal(secret []byte, kind byte, issued time.Time, body []byte) string {
	raw := binary.BigEndian.AppendUint64([]byte{version, kind}, uint64(issued.UnixMilli()))
	raw = append(raw, body...)
	mac := hmac.New(sha256.New, keyOf(secret, kind, issued))
	mac.Write(raw)
	return tokenText.EncodeToString(mac.Sum(raw))
}

const headSize = 2 + 8

// open returns the body of a token and when it was issued, false if it was not sealed so.
func open(secret []byte, kind byte, token string) (issued time.Time, body []byte, ok bool) {
	if len(token) > maxToken {
		return issued, nil, false
	}
	raw, err := tokenText.DecodeString(token)
	if err != nil || len(raw) < headSize+sha256.Size || raw[0] != version || raw[1] != kind {
		return issued, nil, false
	}
	signed, sum := raw[:len(raw)-sha256.Size], raw[len(raw)-sha256.Size:]
	issued = time.UnixMilli(int64(binary.BigEndian.Uint64(raw[2:])))
	mac := hmac.New(sha256.New, keyOf(secret, kind, issued))
	mac.Write(signed)
	return issued, signed[headSize:], hmac.Equal(mac.Sum(nil), sum)
}

// difficultyBits of a byte are the difficulty of a challenge, and those above them its way.
const difficultyBits = 5

// The sizes of the fixed parts of bodies: a network is its address as 16 bytes and its bits.
const (
	networkSize   = 16 + 1
	challengeSize = nonceSize + 1 + 2 + networkSize
	passSize      = 8 + nonceSize + networkSize
)

func appendNetwork(b []byte, p netip.Prefix) []byte {
	if !p.IsValid() {
		return append(b, make([]byte, networkSize)...)
	}
	address := p.Addr().As16()
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	return append(append(b, address[:]...), byte(bits))
}

func networkIn(b []byte) netip.Prefix {
	if b[16] == 0 {
		return netip.Prefix{}
	}
	address, n := netip.AddrFrom16([16]byte(b)), int(b[16])
	if address.Is4In6() {
		address, n = address.Unmap(), n-96
	}
	return netip.PrefixFrom(address, n)
}

// networkOf returns the network that a pass is bound to, and whose answers are verified together: the /24 of
// an address, the /48 of IPv6.
func networkOf(address netip.Addr) netip.Prefix {
	n := 48
	if address = address.Unmap(); address.Is4() {
		n = 24
	}
	network, err := address.Prefix(n)
	if err != nil {
		return netip.Prefix{}
	}
	return network
}

func (c *challenge) token(secret []byte) string {
	body := append(c.nonce[:len(c.nonce):len(c.nonce)], byte(c.difficulty)|byte(c.way)<<difficultyBits)
	body = binary.BigEndian.AppendUint16(body, uint16(c.wait/time.Second))
	return seal(secret, kindChallenge, c.issued, append(appendNetwork(body, c.network), c.target...))
}

// validity says whether a challenge can be solved.
type validity int

const (
	foreign validity = iota // it was not made under the secret
	tooOld                  // or, by its time, not yet made
	valid
)

// readChallenge reads a challenge, which is zero unless it is valid.
func readChallenge(secret []byte, token string, now time.Time) (c challenge, is validity) {
	issued, body, ok := open(secret, kindChallenge, token)
	if !ok || len(body) < challengeSize {
		return c, foreign
	}
	by := way(body[nonceSize] >> difficultyBits)
	if now.Sub(issued) > by.lifetime() || issued.Sub(now) > maxSkew {
		return c, tooOld
	}
	c.issued, c.nonce = issued, [nonceSize]byte(body)
	c.difficulty, c.way = int(body[nonceSize]&(1<<difficultyBits-1)), by
	c.wait = time.Duration(binary.BigEndian.Uint16(body[nonceSize+1:])) * time.Second
	c.network = networkIn(body[nonceSize+3:])
	c.target = string(body[challengeSize:])
	return c, valid
}

// newNonce returns a nonce that nobody can know before.
func newNonce() (nonce [nonceSize]byte) {
	_, _ = rand.Read(nonce[:]) // never fails
	return nonce
}

// name is the challenge's own, which nobody can know before.
func (c *challenge) name() string { return hex.EncodeToString(c.nonce[:]) }

// prefix is what the counter of a solution is appended to.
func (c *challenge) prefix() string { return c.name() + ":" }

// isSolvedBy reports whether SHA-256 of the prefix and the counter begins with as many zero bits as
// the difficulty says.
func (c *challenge) isSolvedBy(counter string) bool {
	if len(counter) > 16 {
		return false
	}
	if n, err := strconv.ParseUint(counter, 10, 64); err != nil || strconv.FormatUint(n, 10) != counter {
		return false
	}
	sum := sha256.Sum256([]byte(c.prefix() + counter))
	return bits.LeadingZeros32(binary.BigEndian.Uint32(sum[:])) >= c.difficulty
}

// pass returns the pass that solving c gives: always the same one or, unless shared is "", the one of all
// who share that.
func (c *challenge) pass(secret []byte, lasts time.Duration, shared string) (cookie string, expires time.Time) {
	id := sha256.Sum256(append([]byte("stint: pass "), c.nonce[:]...))
	if shared != "" {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte("stint: shared pass " + shared))
		id, lasts = [sha256.Size]byte(mac.Sum(nil)), min(lasts, sharedFor)
	}
	expires = c.issued.Add(lasts)
	body := binary.BigEndian.AppendUint64(nil, uint64(expires.UnixMilli()))
	body = append(body, id[:nonceSize]...)
	return seal(secret, kindPass, c.issued, appendNetwork(body, c.network)), expires
}

// readPass returns the key of a pass, false if it was not made under the secret, has expired, or
// is bound to a network without the address.
func readPass(secret []byte, cookie string, address netip.Addr, now time.Time) (keys.Key, bool) {
	issued, body, ok := open(secret, kindPass, cookie)
	if !ok || len(body) != passSize || issued.Sub(now) > maxSkew {
		return keys.Key{}, false
	}
	expires := time.UnixMilli(int64(binary.BigEndian.Uint64(body)))
	network := networkIn(body[8+nonceSize:])
	if !now.Before(expires) || network.IsValid() && !network.Contains(address.Unmap()) {
		return keys.Key{}, false
	}
	key, err := keys.Parser{}.Key(keys.Pass + ":" + hex.EncodeToString(body[8:8+nonceSize]))
	return key, err == nil
}
