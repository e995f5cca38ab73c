package escape

import "testing"

func TestClip(t *testing.T) {
	for _, c := range []struct {
		text string
		max  int
		want string
	}{
		{"", 3, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "abc..."},
		{"aää", 3, "aä..."},
		{"aää", 2, "a..."},
		{"日本", 1, "..."},
		{"a\xffb", 3, "a\xffb"},
		{"a\xffbc", 3, "ab..."},
	} {
		if got := Clip(c.text, c.max); got != c.want {
			t.Errorf("Clip(%q, %d) = %q, want %q", c.text, c.max, got, c.want)
		}
	}
}
