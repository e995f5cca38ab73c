package identity

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
)

// Bounds of a password.
const (
	MinPassword = 10  // characters
	MaxPassword = 512 // bytes
)

// argonParams are argon2id's costs: memory in KiB, passes, lanes.
type argonParams struct {
	memory, passes uint32
	lanes          uint8
}

// These are OWASP's recommendation; a hash of other costs still verifies.
var argonDefault = argonParams{memory: 19 * 1024, passes: 2, lanes: 1}

const (
	saltSize = 16
	hashSize = 32
)

// hashing bounds how many passwords are hashed at once, so that a flood of
// logins costs neither all memory nor all processors.
var hashing = make(chan struct{}, 2)

// strangers bounds the comparisons for addresses that the account has not logged in from. It
// holds fewer than hashing, so that those who are known never wait for strangers.
var strangers = make(chan struct{}, 1)

// CheckPassword returns an error that says what would be right unless the
// password may be used.
func CheckPassword(password string) error {
	switch {
	case !utf8.ValidString(password):
		return errors.New("is not valid UTF-8")
	case len(password) > MaxPassword:
		return fmt.Errorf("has %d bytes; at most %d are allowed", len(password), MaxPassword)
	case utf8.RuneCountInString(password) < MinPassword:
		return fmt.Errorf("is too short; use at least %d characters", MinPassword)
	}
	return nil
}

// HashPassword returns the argon2id hash of a password in PHC form.
func HashPassword(password string) string {
	salt := make([]byte, saltSize)
	rand.Read(salt)
	return formatPHC(argonDefault, salt, argonKey(password, salt, argonDefault, hashSize))
}

func formatPHC(p argonParams, salt, sum []byte) string {
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, p.memory, p.passes, p.lanes, encode(salt), encode(sum))
}

// unknownUser is what the password of an unknown user is compared with, so that
// the comparison takes as long as for a known one. It has the costs of a real
// hash and is not computed: every start of a program would wait for it.
var unknownUser = formatPHC(argonDefault, make([]byte, saltSize), make([]byte, hashSize))

// VerifyPassword reports whether password is the one that phc was made from.
// An empty phc, which means a user who does not exist, takes as long and
// is never right.
func VerifyPassword(phc, password string) bool {
	exists := phc != ""
	if !exists {
		phc = unknownUser
	}
	p, salt, want, err := parsePHC(phc)
	if err != nil || len(password) > MaxPassword {
		return false
	}
	got := argonKey(password, salt, p, uint32(len(want)))
	return subtle.ConstantTimeCompare(got, want) == 1 && exists
}

// VerifyStrangersPassword is VerifyPassword for somebody who has not logged in from where the
// attempt comes. Strangers wait for each other, and not longer than ctx, whose error is
// returned if the password was not compared.
func VerifyStrangersPassword(ctx context.Context, phc, password string) (matches bool, err error) {
	select {
	case strangers <- struct{}{}:
		defer func() { <-strangers }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return VerifyPassword(phc, password), nil
}

func argonKey(password string, salt []byte, p argonParams, size uint32) []byte {
	hashing <- struct{}{}
	defer func() { <-hashing }()
	return argon2.IDKey([]byte(password), salt, p.passes, p.memory, p.lanes, size)
}

var errPHC = errors.New("is not an argon2id hash in PHC form")

// parsePHC reads what HashPassword writes. It refuses costs beyond reason: a
// hash is data and must not be able to exhaust the memory.
func parsePHC(phc string) (p argonParams, salt, sum []byte, err error) {
	parts := strings.Split(phc, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" {
		return p, nil, nil, errPHC
	}
	var version int
	if _, err := fmt.Sscanf(parts[2], "v=%d", &version); err != nil || version != argon2.Version {
		return p, nil, nil, errPHC
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &p.memory, &p.passes, &p.lanes); err != nil {
		return p, nil, nil, errPHC
	}
	if p.memory < 8 || p.memory > 1<<20 || p.passes < 1 || p.passes > 100 || p.lanes < 1 {
		return p, nil, nil, errPHC
	}
	if salt, err = base64.RawStdEncoding.DecodeString(parts[4]); err != nil || len(salt) < 8 {
		return p, nil, nil, errPHC
	}
	if sum, err = base64.RawStdEncoding.DecodeString(parts[5]); err != nil || len(sum) < 16 || len(sum) > 64 {
		return p, nil, nil, errPHC
	}
	return p, salt, sum, nil
}
