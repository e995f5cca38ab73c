package conditions

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Pattern is a text to which the value of an attribute is compared. It is exact or contains
// stars, each of which matches any number of bytes, including none. So "/admin/*" is a prefix and
// "*.php" a suffix. "\*" is a literal star and "\\" a backslash. Paths are case-sensitive.
// Methods, agents and hosts are compared ignoring the case of ASCII letters.
type Pattern struct {
	text string // canonical spelling
	// pieces are the literals between the stars. There is one more of them than there are stars.
	// The first and the last may be empty.
	pieces []string
}

// String returns the canonical spelling.
func (p Pattern) String() string { return p.text }

// ParsePattern parses a pattern for an attribute. The error says what is wrong, without quoting
// the text.
func ParsePattern(a Attribute, text string) (Pattern, error) {
	switch {
	case text == "":
		return Pattern{}, errors.New("is empty; write * for any value")
	case len(text) > MaxPatternLength:
		return Pattern{}, fmt.Errorf("is longer than %d bytes", MaxPatternLength)
	case !utf8.ValidString(text):
		return Pattern{}, errors.New("is not valid UTF-8")
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return Pattern{}, errors.New("has a control character")
	}
	if a != Path {
		text = lower(text)
	}
	pieces, err := split(text)
	if err != nil {
		return Pattern{}, err
	}
	if a == Path && pieces[0] != "" && pieces[0][0] != '/' {
		return Pattern{}, errors.New("must begin with / or *, as every path begins with /")
	}
	if a == Path && strings.Contains(text, "?") {
		return Pattern{}, errors.New("has a question mark; a path is compared without its query")
	}
	var spelled []string
	for _, piece := range pieces {
		spelled = append(spelled, escaper.Replace(piece))
	}
	return Pattern{text: strings.Join(spelled, "*"), pieces: pieces}, nil
}

var escaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`)

// split returns the literals between the stars. Consecutive stars count as one.
func split(text string) ([]string, error) {
	pieces := []string{""}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '*' && len(pieces) > 1 && pieces[len(pieces)-1] == "":
			continue
		case c == '*':
			pieces = append(pieces, "")
			continue
		case c == '\\':
			i++
			if i == len(text) || text[i] != '*' && text[i] != '\\' {
				return nil, errors.New(`has a lone backslash; write \\ for a backslash and \* for a star`)
			}
			c = text[i]
		}
		pieces[len(pieces)-1] += string([]byte{c})
	}
	return pieces, nil
}

// matches reports whether the pattern matches the whole normalized value. It takes time
// proportional to the length of both.
func (p Pattern) matches(value string) bool {
	first, last := p.pieces[0], p.pieces[len(p.pieces)-1]
	if len(p.pieces) == 1 {
		return value == first
	}
	if !strings.HasPrefix(value, first) {
		return false
	}
	value = value[len(first):]
	for _, piece := range p.pieces[1 : len(p.pieces)-1] {
		at := strings.Index(value, piece)
		if at < 0 {
			return false
		}
		value = value[at+len(piece):]
	}
	return strings.HasSuffix(value, last)
}

// longest returns the longest literal of the pattern, "" if it matches every value.
func (p Pattern) longest() string {
	best := ""
	for _, piece := range p.pieces {
		if len(piece) > len(best) {
			best = piece
		}
	}
	return best
}

// describe says in words what the pattern matches.
func (p Pattern) describe() string {
	first, last := p.pieces[0], p.pieces[len(p.pieces)-1]
	switch {
	case len(p.pieces) == 1:
		return "is " + first
	case len(p.pieces) == 2 && first == "" && last == "":
		return "is present"
	case len(p.pieces) == 2 && last == "":
		return "begins with " + first
	case len(p.pieces) == 2 && first == "":
		return "ends in " + last
	case len(p.pieces) == 3 && first == "" && last == "":
		return "contains " + p.pieces[1]
	}
	return "matches " + p.text
}

// lower returns text with its ASCII letters in lower case and other bytes unchanged. It allocates
// only if there is an upper case letter.
func lower(text string) string {
	for i := range len(text) {
		if 'A' <= text[i] && text[i] <= 'Z' {
			b := []byte(text)
			for j := i; j < len(b); j++ {
				if 'A' <= b[j] && b[j] <= 'Z' {
					b[j] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return text
}
