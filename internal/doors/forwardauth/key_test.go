package forwardauth

import (
	"strings"
	"testing"
)

// No text has the key of another, also if it reads as the hash of that one.
func TestPlainTextsDoNotCollideWithHashes(t *testing.T) {
	for _, text := range []string{strings.Repeat("a", maxPlain+1), "a\u202eb", ""} {
		hashed := plain(text)
		if !strings.HasPrefix(hashed, "sha256-") || plain(hashed) == hashed {
			t.Errorf("%q and %q have the keys %q and %q, want different ones", text, hashed, hashed, plain(hashed))
		}
	}
	if got := plain("sha256"); got != "sha256" {
		t.Errorf("got %q for a text without the prefix of a hash", got)
	}
}
