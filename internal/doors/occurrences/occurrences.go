// Package occurrences finds every value that a client's request has of a header or a cookie,
// for the doors that make keys of them. A client may send a name several times, and
// applications differ in which value they take: where only one of them were counted, a client
// could give it another value each time and never reach a limit.
package occurrences

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/valyala/fasthttp"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

// ErrTooMany is what a request is refused with that has more different values than a check
// may have keys: none of them may be left out.
var ErrTooMany = fault.New(fault.Malformed, "The request repeats a header or a cookie too often: it has more than %d values to count.", wire.MaxKeys)

// Hash returns 128 bits of SHA-256 in hex, as
// "printf %s VALUE | sha256sum | cut -c1-32" does, so that operators find the key
// of a value that they know.
func Hash(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:16])
}

// AppendCookies appends the values of a cookie in the lines of the header Cookie, but not
// empty ones. areJoined says that a gateway may have joined lines with commas, as Envoy does.
func AppendCookies(values []string, lines [][]byte, name string, areJoined bool) []string {
	if len(lines) == 0 {
		return values
	}
	h := headers.Get().(*fasthttp.RequestHeader)
	defer headers.Put(h)
	h.Reset()
	for _, line := range lines {
		if areJoined && bytes.IndexByte(line, ',') >= 0 {
			line = joinedCookies.ReplaceAll(line, []byte(";$1"))
		}
		h.AddBytesV(fasthttp.HeaderCookie, line)
	}
	for key, value := range h.Cookies() {
		if len(value) > 0 && string(key) == name {
			values = append(values, string(value))
		}
	}
	return values
}

var headers = sync.Pool{New: func() any { return new(fasthttp.RequestHeader) }}

// joinedCookies finds where a line of cookies begins behind another: at a comma before a name.
var joinedCookies = regexp.MustCompile(",([ \\t]*[-!#$%&'*+.^_`|~0-9A-Za-z]+=)")

// whole are the headers whose values have commas of their own, and of which Envoy itself
// makes one line for everybody behind it.
var whole = []string{"cookie", "user-agent", "x-forwarded-for", "x-forwarded-client-cert"}

// AppendElements appends the values of a header whose lines a gateway has joined with commas,
// as Envoy does, but not empty ones. Of some headers, as User-Agent, it appends the whole value.
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
