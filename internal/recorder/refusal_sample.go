package recorder

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/offences"
)

// Bounds of what is kept of a caller's own description.
const (
	maxSource    = 128 // bytes
	maxMetaPairs = 8
	maxMetaBytes = 512 // total of the names and values of one check
)

// refusalSample is an offences.Refusal in memory that is reused, so that counting a known key
// allocates nothing.
type refusalSample struct {
	at, boundary, retryAt int64
	meta                  *[]byte // names and values, each preceded by its length; nil until a check has some
}

// askedRequest is what a check says of its request.
type askedRequest struct {
	meta    map[string]string
	request *conditions.Request
	omits   omissions
}

func (s *refusalSample) set(at, boundary, retryAt int64, asked askedRequest) {
	s.at, s.boundary, s.retryAt = at, boundary, retryAt
	if s.meta == nil {
		if len(asked.meta) == 0 && asked.request == nil {
			return
		}
		s.meta = new([]byte)
	}
	*s.meta = asked.append((*s.meta)[:0])
}

func (s *refusalSample) reset() {
	s.at, s.boundary, s.retryAt = 0, 0, 0
	if s.meta != nil {
		*s.meta = (*s.meta)[:0]
	}
}

// refusal returns a copy that shares no memory with s.
func (s *refusalSample) refusal(source string) offences.Refusal {
	r := offences.Refusal{At: s.at, Boundary: s.boundary, RetryAt: s.retryAt, Source: source}
	if s.meta != nil {
		r.Meta = unpackMeta(*s.meta)
	}
	return r
}

// maxDescribed bounds each attribute of a request, in bytes.
const maxDescribed = 256

// append appends as many pairs of the meta as there is room for, sorted by name, and then the method,
// the path and the agent of the request unless the meta names them.
func (a askedRequest) append(to []byte) []byte {
	var all [maxMetaPairs]string
	names := all[:0]
	for name := range a.meta {
		if len(names) == maxMetaPairs {
			break
		}
		if !slices.Contains(a.omits, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		to = appendPair(to, name, a.meta[name])
	}
	for _, attribute := range [...]conditions.Attribute{conditions.Method, conditions.Path, conditions.Agent} {
		value, name := a.omits.valueOf(a.request, attribute), attribute.String()
		if _, isNamed := a.meta[name]; value == "" || isNamed {
			continue
		}
		to = appendPair(to, name, value[:min(len(value), maxDescribed)])
	}
	return to
}

// appendPair appends a pair, with as much of the value as there is room for.
func appendPair(to []byte, name, value string) []byte {
	room := maxMetaBytes - len(to) - len(name) - 4
	if room < 0 {
		return to
	}
	return appendText(appendText(to, name), value[:min(len(value), room)])
}

func appendText(to []byte, text string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

func unpackMeta(from []byte) map[string]string {
	if len(from) == 0 {
		return nil
	}
	meta := map[string]string{}
	for len(from) > 0 {
		var name, value string
		name, from = cutText(from)
		value, from = cutText(from)
		meta[clean(name)] = clean(value)
	}
	return meta
}

func cutText(from []byte) (text string, rest []byte) {
	length, n := binary.Uvarint(from)
	if n <= 0 || length > uint64(len(from)-n) {
		return "", nil
	}
	return string(from[n : n+int(length)]), from[n+int(length):]
}

// clean makes text storable in every database: valid UTF-8 without NUL.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
