//go:build race

package programs

// buildFlags are flags of go build by which tests build programs of ours as the
// Makefile builds the tests: SQLite's translated C and the hashing of passwords
// are not watched. What is built so is compiled once for all. Without debug
// information, which stack traces do not need, programs are linked sooner.
var buildFlags = []string{
	"-ldflags=-s -w", "-trimpath", "-race", "-gcflags=modernc.org/sqlite/lib=-race=false -d=checkptr=0",
	"-gcflags=modernc.org/libc=-race=false -d=checkptr=0", "-gcflags=modernc.org/memory=-race=false -d=checkptr=0",
	"-gcflags=golang.org/x/crypto/argon2=-race=false", "-gcflags=golang.org/x/crypto/blake2b=-race=false",
}
