package keys_test

import "github.com/stint-dev/stint/internal/keys"

// failer is what *testing.T and *rapid.T have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func mustKey(t failer, text string) keys.Key {
	t.Helper()
	k, err := keys.Parser{}.Key(text)
	if err != nil {
		t.Fatalf("key %q: %v", text, err)
	}
	return k
}

func mustPattern(t failer, text string) keys.Pattern {
	t.Helper()
	p, err := keys.Parser{}.Pattern(text)
	if err != nil {
		t.Fatalf("pattern %q: %v", text, err)
	}
	return p
}
