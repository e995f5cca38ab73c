package keys

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// checkText refuses text that cannot be a key or a pattern, before it is parsed.
func checkText(what, text string, most int) error {
	switch {
	case text == "":
		return refuse(what, text, "is empty; write kind:value, for example ip:203.0.113.7")
	case len(text) > most:
		return refuse(what, text, "has %d bytes; at most %d are allowed", len(text), most)
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c >= utf8.RuneSelf:
			return checkRunes(what, text)
		case c < ' ' || c == 0x7f:
			return refuseControl(what, text, rune(c), i)
		}
	}
	return nil
}

// checkRunes is the slow part of checkText, for text beyond ASCII.
func checkRunes(what, text string) error {
	if !utf8.ValidString(text) {
		return refuse(what, text, "is not valid UTF-8")
	}
	for i, r := range text {
		if unicode.IsControl(r) {
			return refuseControl(what, text, r, i)
		}
	}
	return nil
}

func refuseControl(what, text string, r rune, at int) error {
	return refuse(what, text, "holds the control character U+%04X at byte %d; remove it", r, at)
}

func checkKind(what, text, kind string) error {
	if kind == "" || kind[0] < 'a' || kind[0] > 'z' {
		return badKind(what, text, kind)
	}
	for i := 1; i < len(kind); i++ {
		c := kind[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '+' {
			return badKind(what, text, kind)
		}
	}
	return nil
}

func badKind(what, text, kind string) error {
	if kind == "" {
		return refuse(what, text, "begins with a colon; write kind:value, for example token:abc")
	}
	if lower := strings.ToLower(kind); lower != kind && checkKind(what, text, lower) == nil {
		return refuse(what, text, "has the kind %q; kinds are lower case: %q", clip(kind), clip(lower))
	}
	return refuse(what, text, "has the bad kind %q; a kind starts with a-z and holds a-z, 0-9, _ and - only, and + between the kinds of several values", clip(kind))
}
