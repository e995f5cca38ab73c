package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"math/big"
	"regexp"
	"slices"
	"strings"
)

// SecretPattern is what secret scanners match: "stint_", the widest scope, 256
// random bits in base 62 and a CRC-32 of all that precedes it.
const SecretPattern = `stint_(check|bouncer|captcha|read|operate|admin)_[0-9A-Za-z]{49}`

const (
	base62         = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	randomDigits   = 43 // 62^43 > 2^256
	checksumDigits = 6  // 62^6 > 2^32
	hintDigits     = 4
)

var secretForm = regexp.MustCompile(`^` + SecretPattern + `$`)

// Secret is the secret of a token as it is made: only its hash and hint are
// kept.
type Secret struct {
	Text string
	Hint string
	Hash [sha256.Size]byte
}

// NewSecret makes a secret for a token of these scopes.
func NewSecret(scopes []Access) Secret {
	var raw [32]byte
	rand.Read(raw[:])
	body := "stint_" + string(widest(scopes)) + "_" + toBase62(new(big.Int).SetBytes(raw[:]), randomDigits)
	return SecretOf(body + checksum(body))
}

// SecretOf returns the hash and hint of a given secret, for example one that
// an operator chose for the first start.
func SecretOf(text string) Secret {
	return Secret{Text: text, Hint: hint(text), Hash: HashSecret(text)}
}

// HashSecret returns what the store keeps of a secret. Its 256 random bits need
// no salt and no slow hash.
func HashSecret(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }

// Mistyped reports whether text has the form of a secret but not its checksum.
func Mistyped(text string) bool {
	if !secretForm.MatchString(text) {
		return false
	}
	body := text[:len(text)-checksumDigits]
	return checksum(body) != text[len(body):]
}

// widest returns the last of Scopes that is among some.
func widest(some []Access) Access {
	found := Check
	for _, scope := range Scopes {
		if slices.Contains(some, scope) {
			found = scope
		}
	}
	return found
}

// hint shows the prefix and few enough digits that the rest stays secret. A
// secret that somebody chose shows nothing beyond a quarter of its length.
func hint(text string) string {
	if secretForm.MatchString(text) {
		return text[:strings.LastIndexByte(text, '_')+1+hintDigits]
	}
	return text[:min(hintDigits, len(text)/4)]
}

func checksum(body string) string {
	return toBase62(new(big.Int).SetUint64(uint64(crc32.ChecksumIEEE([]byte(body)))), checksumDigits)
}

func toBase62(n *big.Int, digits int) string {
	text := make([]byte, digits)
	base, digit := big.NewInt(int64(len(base62))), new(big.Int)
	for i := digits - 1; i >= 0; i-- {
		n.QuoRem(n, base, digit)
		text[i] = base62[digit.Int64()]
	}
	return string(text)
}
