//go:build race

package e2e_test

// buildFlags build the programs as the tests themselves are built.
// as the Makefile says it: SQLite's translated C is not watched.
var buildFlags = []string{"-race", "-gcflags=modernc.org/sqlite/lib=-race=false -d=checkptr=0"}
