//go:build !race

package programs

// buildFlags are flags of go build by which tests build programs of ours as the
// Makefile builds the tests. What is built so is compiled once for all. Without debug
// information, which stack traces do not need, programs are linked sooner.
var buildFlags = []string{"-ldflags=-s -w", "-trimpath"}
