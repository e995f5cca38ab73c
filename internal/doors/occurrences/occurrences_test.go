package occurrences

import (
	"slices"
	"testing"
)

func TestAppendCookies(t *testing.T) {
	for _, c := range []struct {
		lines        []string
		alone, joint []string
	}{
		{nil, nil, nil},
		{[]string{"a=1; b=2"}, nil, nil},
		{[]string{"s=x"}, []string{"x"}, []string{"x"}},
		{[]string{"s=x; a=1; s=y;s=x"}, []string{"x", "y", "x"}, []string{"x", "y", "x"}},
		{[]string{"a=1; s=x", `s = "y" `}, []string{"x", "y"}, []string{"x", "y"}},
		{[]string{"s=; s; S=1; ss=2; s=x"}, []string{"x"}, []string{"x"}},
		// Spellings of x by which applications read it: those of Node.js, PHP and Rack, then those of Python.
		{[]string{`s=%78; s="%78"`}, []string{"x", "x"}, []string{"x", "x"}},
		{[]string{`s="\170"; s="\x"`}, []string{"x", "x"}, []string{"x", "x"}},
		{[]string{`s=%zz%7; s=\9; s=%3a%3A`}, []string{"%zz%7", "9", "::"}, []string{"%zz%7", "9", "::"}},
		// White space that Python and JavaScript remove, in UTF-8 and in Latin-1, but no part of a letter.
		{[]string{"\u00a0s=x; s\u2003=\f\ufeffx\x1d\u3000"}, []string{"x", "x"}, []string{"x", "x"}},
		{[]string{"\xa0s=x; s\x85=\xa0 x\x85"}, []string{"x", "x"}, []string{"x", "x"}},
		{[]string{"s=%20x%09; s=\\040x; s=%20; s=%c2%a0x"}, []string{"x", "x", "x"}, []string{"x", "x", "x"}},
		{[]string{"s=\u00e0; s=\u2020"}, []string{"\u00e0", "\u2020"}, []string{"\u00e0", "\u2020"}},
		{[]string{"a=1,\u00a0s\xa0=x"}, nil, []string{"x"}},
		// What Envoy makes of white space in Latin-1. It may be a part of a value too.
		{[]string{"!s=x; s! = ! y!", `s="z"!; s=!`}, []string{`"z"!`, "!"}, []string{"x", "! y!", "y", `"z"!`, "z", "!"}},
		{[]string{"a=1,! s=x"}, nil, []string{"x"}},
		// What a gateway made of two lines, and a comma in a value.
		{[]string{"a=1,s=x"}, nil, []string{"x"}},
		{[]string{"s=x, s=y; s=z"}, []string{"x, s=y", "z"}, []string{"x", "y", "z"}},
		{[]string{"s=x,y"}, []string{"x,y"}, []string{"x,y"}},
	} {
		var lines [][]byte
		for _, line := range c.lines {
			lines = append(lines, []byte(line))
		}
		if got := AppendCookies(nil, lines, "s", false); !slices.Equal(got, c.alone) {
			t.Errorf("%q: got %q, want %q", c.lines, got, c.alone)
		}
		if got := AppendCookies(nil, lines, "s", true); !slices.Equal(got, c.joint) {
			t.Errorf("%q, joined: got %q, want %q", c.lines, got, c.joint)
		}
	}
}

func TestAppendElements(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        []string
	}{
		{"x-api-key", "a", []string{"a"}},
		{"x-api-key", "a,b , c,,\t", []string{"a", "b", "c"}},
		{"x-api-key", " , ", nil},
		{"User_Agent", "Mozilla/5.0 (KHTML, like Gecko)", []string{"Mozilla/5.0 (KHTML, like Gecko)"}},
	} {
		if got := AppendElements(nil, c.name, c.value); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q: got %q, want %q", c.name, c.value, got, c.want)
		}
	}
}
