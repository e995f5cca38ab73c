// Package occurrences finds all values of a header or a cookie in a client's request, for the
// doors that derive keys from them. A client may send a name several times, and applications
// differ in which value they use. If only one value were counted, a client could vary it and
// never reach a limit.
package occurrences

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

// ErrTooMany is the error for a request with more different values than a check may have keys:
// no value may be left out.
var ErrTooMany = fault.New(fault.Malformed, "The request repeats a header or a cookie too often: it has more than %d values to count.", wire.MaxKeys)

// Hash returns the first 128 bits of SHA-256 in hex, as "printf %s VALUE | sha256sum | cut
// -c1-32" does, so that operators can find the key of a known value.
func Hash(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:16])
}

// maxPlain is the maximum length of a text that a key contains unchanged, in bytes; a longer
// one is hashed. It leaves room for the kind of the key.
const maxPlain = 256

// hashPrefix is the prefix of a hash in place of a text.
const hashPrefix = "sha256-"

// Plain returns a text in the form of keys: a text that is long, needs escaping or could be taken
// for a hash is hashed.
func Plain(text string) string {
	if text == "" || len(text) > maxPlain || strings.HasPrefix(text, hashPrefix) || escape.Log(text) != text {
		return hashPrefix + Hash(text)
	}
	return strings.Clone(text)
}

// ValuesOf returns the keys of one part of a request without their kind.
func ValuesOf(all []keys.Key) []string {
	values := make([]string, len(all))
	for i, key := range all {
		_, values[i], _ = strings.Cut(key.String(), ":")
	}
	return values
}

// AppendTogether appends the keys of several parts of a request together, as ip+path:192.0.2.1|/login:
// one for each combination of the values of the parts, which have these kinds.
func AppendTogether(all []keys.Key, parser keys.Parser, kinds []string, parts [][]string) ([]keys.Key, error) {
	combinations := [][]string{nil}
	for _, values := range parts {
		if len(combinations)*len(values) > wire.MaxKeys {
			return all, ErrTooMany
		}
		var more [][]string
		for _, before := range combinations {
			for _, value := range values {
				more = append(more, append(slices.Clip(before), value))
			}
		}
		combinations = more
	}
	for _, values := range combinations {
		text := keys.JoinValues(values)
		if len(text) > maxPlain {
			text = hashPrefix + Hash(text)
		}
		key, err := parser.Key(strings.Join(kinds, "+") + ":" + text)
		if err != nil {
			return all, err
		}
		all = append(all, key)
	}
	return all, nil
}

// AppendCookies appends the non-empty values of a cookie in the lines of the header Cookie, decoded
// as an application may decode them: if a client could choose between spellings of one value, each
// would be counted on its own.
// areJoined means that a gateway may have joined lines with commas, and written "!" for bytes that
// are no UTF-8, as Envoy does.
func AppendCookies(values []string, lines [][]byte, name string, areJoined bool) []string {
	surrounds := isSpace
	if areJoined {
		surrounds = isSpaceOrReplaced
	}
	for _, line := range lines {
		if !bytes.Contains(line, []byte(name)) { // most requests do not have most cookies
			continue
		}
		if areJoined && bytes.IndexByte(line, ',') >= 0 {
			line = joinedCookies.ReplaceAll(line, []byte(";$1"))
		}
		for pair := range bytes.SplitSeq(line, []byte{';'}) {
			key, value, _ := bytes.Cut(pair, []byte{'='})
			if string(trim(key, surrounds)) != name {
				continue
			}
			value = trim(value, isSpace)
			values = appendCookie(values, value)
			if rest := trim(value, surrounds); len(rest) < len(value) { // a "!" may be a part of the value, or was white space
				values = appendCookie(values, rest)
			}
		}
	}
	return values
}

// appendCookie appends the value of a cookie, unless it is empty.
func appendCookie(values []string, value []byte) []string {
	if n := len(value); n > 1 && value[0] == '"' && value[n-1] == '"' {
		value = value[1 : n-1]
	}
	// White space may be escaped too.
	if value = trim(decoded(value), isSpace); len(value) == 0 {
		return values
	}
	return append(values, string(value))
}

// trim returns text without what surrounds it according to a function, whether an application reads
// it as UTF-8 or as Latin-1.
func trim(text []byte, surrounds func(rune) bool) []byte {
	for {
		trimmed := bytes.TrimFunc(text, surrounds)
		if first, size := utf8.DecodeRune(trimmed); first == utf8.RuneError && size == 1 && surrounds(rune(trimmed[0])) {
			trimmed = trimmed[1:]
		}
		if last, size := utf8.DecodeLastRune(trimmed); last == utf8.RuneError && size == 1 && surrounds(rune(trimmed[len(trimmed)-1])) {
			trimmed = trimmed[:len(trimmed)-1]
		}
		if len(trimmed) == len(text) {
			return trimmed
		}
		text = trimmed
	}
}

// isSpace reports whether Python or JavaScript remove r from the ends of texts.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f || r == 0xfeff }

// isSpaceOrReplaced reports whether r is white space, or what Envoy writes for a byte that is white
// space in Latin-1 and no UTF-8.
func isSpaceOrReplaced(r rune) bool { return isSpace(r) || r == '!' }

// decoded returns the value of a cookie without its percent-encoding, which Node.js, PHP and Rack
// decode, and without backslashes before three octal digits or another character, which Python
// decodes.
func decoded(value []byte) []byte {
	if bytes.IndexByte(value, '%') < 0 && bytes.IndexByte(value, '\\') < 0 {
		return value
	}
	return escapes.ReplaceAllFunc(value, func(escape []byte) []byte {
		digits, base := string(escape[1:]), 8
		if escape[0] == '%' {
			base = 16
		}
		if code, err := strconv.ParseUint(digits, base, 8); err == nil && len(escape) > 2 {
			return []byte{byte(code)}
		}
		return escape[1:]
	})
}

// escapes matches an escaped byte in the value of a cookie.
var escapes = regexp.MustCompile(`(?s)%[0-9A-Fa-f]{2}|\\[0-3][0-7]{2}|\\.`)

// joinedCookies matches the start of a joined line of cookies: a comma before a name.
// White space may surround the name; see isSpaceOrReplaced.
var joinedCookies = regexp.MustCompile(",([^\"-~]*[-!#$%&'*+.^_`|~0-9A-Za-z]+[^\"-~]*=)")

// whole are the headers whose values contain commas, and those that Envoy itself joins to one
// line.
var whole = []string{"cookie", "user-agent", "x-forwarded-for", "x-forwarded-client-cert"}

// AppendElements appends the non-empty values of a header whose lines a gateway has joined with
// commas, as Envoy does. For some headers, such as User-Agent, it appends the whole value.
func AppendElements(values []string, name, value string) []string {
	if slices.ContainsFunc(whole, func(other string) bool { return httpserver.IsSameHeader(other, name) }) {
		return append(values, value)
	}
	for element := range strings.SplitSeq(value, ",") {
		if element = strings.Trim(element, " \t"); element != "" {
			values = append(values, element)
		}
	}
	return values
}
