package db

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

const readSecret = `SELECT value FROM settings WHERE name = 'secret'`

// ErrUnsealable is returned for data that was not sealed in this database with this label.
var ErrUnsealable = errors.New("it was sealed in another database, or is damaged")

// errNoSecret is the ErrUnsealable of a database without the secret that all nodes share.
var errNoSecret = fmt.Errorf("the secret that all nodes share cannot be read: %w", ErrUnsealable)

// Seal encrypts secret with AES-256-GCM, with a key derived from the secret that all nodes of
// the database share. label binds the result to its row: it cannot be opened with another
// label. This protects against a reader of a row or of a query log. A reader of the whole
// database or of a backup also has the key.
func Seal(t *Tx, label string, secret []byte) ([]byte, error) {
	with, err := sealer(t, label)
	if err != nil {
		return nil, err
	}
	return with.Seal(nil, nil, secret, []byte(label)), nil
}

// Unseal decrypts what Seal encrypted with the same label.
func Unseal(t *Tx, label string, sealed []byte) ([]byte, error) {
	with, err := sealer(t, label)
	if err != nil {
		return nil, err
	}
	secret, err := with.Open(nil, nil, sealed, []byte(label))
	if err != nil {
		return nil, ErrUnsealable
	}
	return secret, nil
}

func sealer(t *Tx, label string) (cipher.AEAD, error) {
	var text string
	if _, err := t.One(readSecret, nil, &text); err != nil {
		return nil, err
	}
	secret, err := hex.DecodeString(text)
	if err != nil || len(secret) == 0 {
		return nil, errNoSecret
	}
	key, err := hkdf.Key(sha256.New, secret, nil, "stint seal "+label, 32)
	if err != nil {
		return nil, fmt.Errorf("derive the key of %s: %w", label, err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
