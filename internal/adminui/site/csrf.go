package site

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
)

// MaskCSRF returns a token as pages contain it: different in every answer. Pages are
// compressed and also show keys, which attackers choose. A text that is the same each
// time could be guessed from the length of the answers, byte by byte (BREACH).
func MaskCSRF(token string) string {
	if token == "" {
		return ""
	}
	masked := make([]byte, 2*len(token))
	pad, rest := masked[:len(token)], masked[len(token):]
	_, _ = rand.Read(pad) // it never fails
	subtle.XORBytes(rest, pad, []byte(token))
	return base64.RawURLEncoding.EncodeToString(masked)
}

// IsMaskedCSRF reports whether masked is what MaskCSRF returned for a token.
func IsMaskedCSRF(masked, token string) bool {
	text, err := base64.RawURLEncoding.DecodeString(masked)
	if err != nil || token == "" || len(text) != 2*len(token) {
		return false
	}
	subtle.XORBytes(text, text[:len(token)], text[len(token):])
	return subtle.ConstantTimeCompare(text[:len(token)], []byte(token)) == 1
}
