package recorder

import (
	"encoding/binary"
	"maps"
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

func (s *refusalSample) set(at, boundary, retryAt int64, meta map[string]string) {
	s.at, s.boundary, s.retryAt = at, boundary, retryAt
	if s.meta == nil {
		if len(meta) == 0 {
			return
		}
		s.meta = new([]byte)
	}
	*s.meta = packMeta((*s.meta)[:0], meta)
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

// withoutPath returns meta without the path of the request. It does not change meta.
func withoutPath(meta map[string]string) map[string]string {
	name := conditions.Path.String()
	if _, has := meta[name]; !has {
		return meta
	}
	rest := maps.Clone(meta)
	delete(rest, name)
	return rest
}

// packMeta appends as many pairs as there is room for, sorted by name.
func packMeta(to []byte, meta map[string]string) []byte {
	if len(meta) == 0 {
		return to
	}
	var all [maxMetaPairs]string
	names := all[:0]
	for name := range meta {
		if len(names) == maxMetaPairs {
			break
		}
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		value := meta[name]
		if room := maxMetaBytes - len(to) - len(name) - 4; room < 0 {
			break
		} else if len(value) > room {
			value = value[:room]
		}
		to = appendText(appendText(to, name), value)
	}
	return to
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
