package occurrences

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/keys"
)

// No text has the key of another, also if it reads as the hash of that one.
func TestPlainTextsDoNotCollideWithHashes(t *testing.T) {
	for _, text := range []string{strings.Repeat("a", maxPlain+1), "a\u202eb", ""} {
		hashed := Plain(text)
		if !strings.HasPrefix(hashed, "sha256-") || Plain(hashed) == hashed {
			t.Errorf("%q and %q have the keys %q and %q, want different ones", text, hashed, hashed, Plain(hashed))
		}
	}
	if got := Plain("sha256"); got != "sha256" {
		t.Errorf("got %q for a text without the prefix of a hash", got)
	}
}

// A key of several parts is made for each combination of their values, and none is left out.
func TestKeysOfSeveralParts(t *testing.T) {
	long := strings.Repeat("a", maxPlain)
	for _, c := range []struct {
		kinds []string
		parts [][]string
		want  string
	}{
		{[]string{"ip", "path"}, [][]string{{"192.0.2.1"}, {"/a|b"}}, "[ip+path:192.0.2.1|/a%7Cb]"},
		{[]string{"header", "host"}, [][]string{{"x:1", "x:2"}, {"a"}}, "[header+host:x:1|a header+host:x:2|a]"},
		{[]string{"ip", "path"}, [][]string{{"192.0.2.1"}, {long}}, "[ip+path:sha256-" + Hash("192.0.2.1|"+long) + "]"},
	} {
		if got, err := AppendTogether(nil, keys.Parser{}, c.kinds, c.parts); fmt.Sprint(got) != c.want || err != nil {
			t.Errorf("%v of %.60v: got %v, %v, want %s", c.kinds, c.parts, got, err, c.want)
		}
	}
	if _, err := AppendTogether(nil, keys.Parser{}, []string{"header", "cookie"}, [][]string{make([]string, 5), make([]string, 4)}); !errors.Is(err, ErrTooMany) {
		t.Errorf("20 combinations: got %v, want ErrTooMany", err)
	}
}
