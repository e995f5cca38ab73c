package site

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
)

// MaskCSRF returns a token in the form that pages contain: different in every response. Pages
// are compressed and also show keys, which attackers choose. From the lengths of such
// responses, an attacker could guess a constant text byte by byte (BREACH).
func MaskCSRF(token string) string {
	if token == "" {
		return ""
	}
	masked := make([]byte, 2*len(token))
	pad, rest := masked[:len(token)], masked[len(token):]
	_, _ = rand.Read(pad) // never fails
	subtle.XORBytes(rest, pad, []byte(token))
	return base64.RawURLEncoding.EncodeToString(masked)
}

// IsMaskedCSRF reports whether masked is a result of MaskCSRF for token.
func IsMaskedCSRF(masked, token string) bool {
	text, err := base64.RawURLEncoding.DecodeString(masked)
	if err != nil || token == "" || len(text) != 2*len(token) {
		return false
	}
	subtle.XORBytes(text, text[:len(token)], text[len(token):])
	return subtle.ConstantTimeCompare(text[:len(token)], []byte(token)) == 1
}
