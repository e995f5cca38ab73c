package identity

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

const (
	minTokenBits     = 128
	minTokenDistinct = 8 // characters; a random token of 128 bits always has more
)

// CheckChosenToken returns an error unless a token that a person chose can have
// 128 bits of randomness. Nobody can see how a text was chosen, so this is the
// most that it can have: its length times the bits of a character of the
// smallest usual alphabet that holds all of its characters. A text that repeats
// itself counts once; the prefix of Stint's own tokens and the separators of
// words count nothing.
//
// So 32 hexadecimal digits, 25 lower-case letters and digits, or 22 letters of
// both cases and digits are enough.
func CheckChosenToken(token string) error {
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return errors.New("it may contain printable ASCII without spaces only, since it is sent in a header")
		}
	}
	bits := chosenBits(token)
	if bits < minTokenBits {
		return fmt.Errorf("it can have at most %.0f bits of randomness and must have %d, since it opens everything; make one with: openssl rand -hex 32", math.Floor(bits), minTokenBits)
	}
	return nil
}

// chosenBits returns the most bits of randomness that a text can have.
func chosenBits(text string) float64 {
	if own, found := strings.CutPrefix(text, "stint_"); found {
		if _, rest, found := strings.Cut(own, "_"); found {
			text = rest
		}
	}
	text = text[:period(text)]
	if !strings.ContainsAny(text, digits) || !strings.ContainsAny(text, lower) || !strings.ContainsAny(text, upper) {
		text = strings.NewReplacer("-", "", "_", "", ".", "", ":", "").Replace(text) // words, not base64
	}
	distinct := map[byte]bool{}
	for i := range len(text) {
		distinct[text[i]] = true
	}
	if len(distinct) < minTokenDistinct {
		return float64(len(text)) * math.Log2(float64(max(len(distinct), 1)))
	}
	return float64(len(text)) * math.Log2(float64(alphabetOf(text)))
}

const digits, lower, upper = "0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// alphabetOf returns how many characters the smallest usual alphabet has that
// holds all of a text.
func alphabetOf(text string) int {
	for _, alphabet := range []string{
		digits, digits + "abcdef", digits + "ABCDEF", lower, upper, digits + lower, digits + upper, lower + upper,
		digits + lower + upper, digits + lower + upper + "+/-_=",
	} {
		if strings.Trim(text, alphabet) == "" {
			return min(len(alphabet), 64) // base64 has two spellings of two characters
		}
	}
	return '~' - '!' + 1
}

// period returns the length of the beginning of a text that the rest of it
// repeats, at least once; else the length of the text.
func period(text string) int {
	for n := 1; n <= len(text)/2; n++ {
		if strings.HasPrefix(text, text[n:]) {
			return n
		}
	}
	return len(text)
}
