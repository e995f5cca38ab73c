//go:build race

package e2e_test

// buildFlags build the programs as the Makefile builds the tests: SQLite's
// translated C and the hashing of passwords are not watched.
var buildFlags = []string{
	"-race", "-gcflags=modernc.org/sqlite/lib=-race=false -d=checkptr=0",
	"-gcflags=modernc.org/libc=-d=checkptr=0", "-gcflags=modernc.org/memory=-d=checkptr=0",
	"-gcflags=golang.org/x/crypto/argon2=-race=false", "-gcflags=golang.org/x/crypto/blake2b=-race=false",
}
