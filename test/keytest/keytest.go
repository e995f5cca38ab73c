// Package keytest parses the keys and patterns of tests.
package keytest

import (
	"testing"

	"github.com/stint-dev/stint/internal/keys"
)

// Key parses a key, or fails the test.
func Key(t testing.TB, text string) keys.Key {
	t.Helper()
	k, err := keys.Parser{}.Key(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Pattern parses a pattern, or fails the test.
func Pattern(t testing.TB, text string) keys.Pattern {
	t.Helper()
	p, err := keys.Parser{}.Pattern(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
