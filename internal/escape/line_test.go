package escape

import (
	"strings"
	"testing"
)

func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		" a\r\n b\t\tc ":         "a b c",
		"a\xffb":                 "a?b",
		strings.Repeat("ä", 101): strings.Repeat("ä", 100) + "...",
	} {
		if got := OneLine(text); got != want {
			t.Errorf("OneLine(%q) = %q, want %q", text, got, want)
		}
	}
}
