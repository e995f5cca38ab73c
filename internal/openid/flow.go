package openid

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"
)

// FlowLifetime is how long a login at the provider may take.
const FlowLifetime = 10 * time.Minute

// Flow is a login in progress. The browser keeps it, encrypted.
type Flow struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"` // of PKCE
	Next     string `json:"next"`     // the page after the login
	Former   string `json:"former"`   // secret of the browser's previous session, "" for none
	Expires  int64  `json:"expires"`  // Unix seconds
}

var errFlow = errors.New("it is not a login that this server began")

// maxFlow bounds an encrypted flow, in bytes: browsers keep cookies of at most 4 KiB, including
// their name.
const maxFlow = 4000

// seal encrypts a flow with the secret that all nodes share. to identifies the provider and
// client: the flow cannot be opened with another one.
func (f *Flow) seal(secret []byte, to string) (string, error) {
	aead, err := newAEAD(secret)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(f)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(aead.Seal(nil, nil, text, []byte(to))), nil
}

// openFlow decrypts the result of seal.
func openFlow(sealed string, secret []byte, to string) (*Flow, error) {
	if sealed == "" || len(sealed) > maxFlow {
		return nil, errFlow
	}
	aead, err := newAEAD(secret)
	if err != nil {
		return nil, err
	}
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return nil, errFlow
	}
	text, err := aead.Open(nil, nil, raw, []byte(to))
	if err != nil {
		return nil, errFlow
	}
	f := &Flow{}
	if err := json.Unmarshal(text, f); err != nil {
		return nil, errFlow
	}
	return f, nil
}

var errNoSecret = errors.New("this node has not loaded its secret yet")

func newAEAD(secret []byte) (cipher.AEAD, error) {
	if len(secret) < 16 {
		return nil, errNoSecret
	}
	key, err := hkdf.Key(sha256.New, secret, nil, "stint openid flow", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
