package format_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/adminui/format"
)

// broken returns a text with a bar where a line may end inside a word.
func broken(text string) string {
	var b strings.Builder
	for _, p := range format.Pieces(text) {
		b.WriteString(p.Text)
		if p.Break {
			b.WriteByte('|')
		}
	}
	return b.String()
}

func TestLinesEndAfterSeparatorsOfLongWords(t *testing.T) {
	for text, want := range map[string]string{
		"/v1/chat/completions":                "/v1/|chat/|completions",
		"GET /v1/chat/completions?model=a_b":  "GET /v1/|chat/|completions?|model=|a_|b",
		"https://shop.example/old//products/": "https://|shop.|example/|old//|products/",
		"2001:db8:abc0:1234:5678::1":          "2001:|db8:|abc0:|1234:|5678::|1",
		"203.0.113.128/25 and /wp-login.php":  "203.0.113.128/25 and /wp-login.php", // short words are kept whole
		"Added the block of these keys.":      "Added the block of these keys.",
		"":                                    "", "/": "/", strings.Repeat("W", 40): strings.Repeat("W", 40),
	} {
		if got := broken(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// What is copied from a page is the text of its pieces.
func TestPiecesAreTheWholeText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ -~é世]{0,60}`).Draw(t, "text")
		var whole strings.Builder
		for _, p := range format.Pieces(text) {
			if p.Tag {
				t.Fatalf("%q has the tag %q", text, p.Text)
			}
			whole.WriteString(p.Text)
		}
		if whole.String() != text {
			t.Fatalf("got %q, want %q", whole.String(), text)
		}
	})
}
