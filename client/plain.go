package client

import (
	"strings"
	"unicode"
)

// longest is how much of a foreign text an error repeats, in characters.
const longest = 300

// plain returns text without what could harm a log or a terminal.
func plain(text string) string {
	n := 0
	return strings.Map(func(r rune) rune {
		n++
		switch {
		case n > longest:
			return -1
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
