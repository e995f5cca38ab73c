package keys_test

import (
	"testing"

	"github.com/stint-dev/stint/internal/keys"
)

func mustKey(t testing.TB, text string) keys.Key {
	t.Helper()
	k, err := keys.Parser{}.Key(text)
	if err != nil {
		t.Fatalf("key %q: %v", text, err)
	}
	return k
}

func mustPattern(t testing.TB, text string) keys.Pattern {
	t.Helper()
	p, err := keys.Parser{}.Pattern(text)
	if err != nil {
		t.Fatalf("pattern %q: %v", text, err)
	}
	return p
}
