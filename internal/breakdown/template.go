package breakdown

import "strings"

// folded replaces an id, a number or a hash in a path.
const folded = "{id}"

const (
	maxSegments = 8  // of a template; what follows is written cutSegments
	maxSegment  = 64 // bytes of a segment that is no id
)

// cutSegments replaces the segments of a path beyond maxSegments.
const cutSegments = "/…"

// Template returns a path with its ids folded, so that paths of the same kind are counted
// together: numbers, UUIDs, hashes, tokens and whatever has a @ become {id}, as do numbers of three
// and more digits within a segment (order-{id}.html) and what follows a = in one. Nothing of a
// query is kept, not even of one that is escaped in the path.
func Template(path string) string {
	if at := strings.IndexAny(path, "?#&"); at >= 0 {
		path = path[:at]
	}
	if path == "" || path == "/" {
		return path
	}
	var b strings.Builder
	n := 0
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if n++; n > maxSegments {
			b.WriteString(cutSegments)
			break
		}
		b.WriteByte('/')
		foldSegment(&b, segment)
	}
	return b.String()
}

// foldSegment appends one segment of a path.
func foldSegment(b *strings.Builder, s string) {
	if name, _, is := strings.Cut(s, "="); is {
		foldSegment(b, name)
		b.WriteByte('=')
		s = "@"
	}
	if isID(s) && (!strings.Contains(s, ".") || strings.Trim(s, "0123456789.-_:") == "" || strings.Contains(s, "@")) {
		b.WriteString(folded)
		return
	}
	for i, part := range strings.Split(s, ".") { // the name and the extension of a file
		if i > 0 {
			b.WriteByte('.')
		}
		foldPart(b, part)
	}
}

func foldPart(b *strings.Builder, s string) {
	if isID(s) {
		b.WriteString(folded)
		return
	}
	for i := 0; i < len(s); {
		end := i
		for end < len(s) && isDigit(s[end]) {
			end++
		}
		switch {
		case end-i >= 3:
			b.WriteString(folded)
		case end == i:
			end++
			fallthrough
		default:
			b.WriteString(s[i:end])
		}
		i = end
	}
}

// isID reports whether a whole segment is an id.
func isID(s string) bool {
	var digits, hex, letters, upper, marks, changes int
	wasDigit := false
	for i := range len(s) {
		c := s[i]
		switch {
		case isDigit(c):
			digits++
			hex++
		case c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F':
			hex++
			letters++
		case c >= 'g' && c <= 'z' || c >= 'G' && c <= 'Z':
			letters++
		case c == '-' || c == '_' || c == '.' || c == ':' || c == ',' || c == '~' || c == '+':
			marks++
			continue
		case c == '@':
			return true
		case c >= 0x80:
			return len(s) > maxSegment
		}
		if c >= 'A' && c <= 'Z' {
			upper++
		}
		if i > 0 && isDigit(c) != wasDigit {
			changes++
		}
		wasDigit = isDigit(c)
	}
	switch {
	case len(s) > maxSegment:
		return true
	case digits == 0:
		return len(s) >= 24 && marks == 0 && upper > 2 && upper < letters // a token without a digit
	case letters == 0: // a number, a date, a version
		return digits+marks == len(s)
	case hex+marks == len(s) && hex >= 8: // a hash or a UUID
		return true
	}
	// A random token mixes all kinds, or changes between letters and digits again and again.
	return len(s) >= 16 && marks <= 2 && upper > 2 && letters-upper > 2 || len(s) >= 10 && digits+letters+marks == len(s) && changes >= 4 && digits >= 3 && marks <= 2
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
