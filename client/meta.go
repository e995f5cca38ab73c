package client

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMetaValue is how long the server takes a value of Meta, in bytes.
const maxMetaValue = 256

// cutMeta returns meta as the server takes it: its values usually come from
// those who are counted, and none must be able to have its check refused by
// what is only shown.
func cutMeta(meta map[string]string) map[string]string {
	if len(meta) == 0 {
		return nil
	}
	cut := make(map[string]string, len(meta))
	for name, value := range meta {
		cut[name] = cutValue(value, maxMetaValue)
	}
	return cut
}

// cutValue returns value without control characters, and at most so many bytes of it.
func cutValue(value string, maxBytes int) string {
	value = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r // a byte that is not UTF-8 is U+FFFD already
	}, value)
	if len(value) <= maxBytes {
		return value
	}
	end := maxBytes
	for !utf8.RuneStart(value[end]) {
		end--
	}
	return value[:end]
}
