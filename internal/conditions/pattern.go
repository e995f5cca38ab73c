package conditions

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Pattern says which values of an attribute meet a condition: those that match a glob such as
// /admin/*, or one of those in a named list such as @secrets; or, with "not " before it, all others.
type Pattern struct {
	text  string // canonical spelling
	isNot bool
	name  string // of the list, "" for a glob
	globs []glob // one, or those of the list
}

// glob is a text to which the value of an attribute is compared. It is exact or contains stars,
// each of which matches any number of bytes, including none. So "/admin/*" is a prefix and "*.php"
// a suffix. "\*" is a literal star and "\\" a backslash. Paths are case-sensitive, but not in lists.
// Other attributes are compared ignoring the case of ASCII letters.
type glob struct {
	text string // canonical spelling
	// pieces are the literals between the stars. There is one more of them than there are stars.
	// The first and the last may be empty.
	pieces []string
	// ignoresCase is of paths in lists: the pieces are in lower case.
	ignoresCase bool
	// isSent means that the glob is compared with the readings of Request.sent too.
	isSent bool
}

// String returns the canonical spelling.
func (p Pattern) String() string { return p.text }

const (
	notPrefix  = "not "
	listPrefix = "@"
	// missingPattern is met by a header, a parameter or a cookie that was not sent.
	missingPattern = notPrefix + "*"
)

// ParsePattern parses a pattern for an attribute. The error says what is wrong, without quoting
// the text.
func ParsePattern(a Attribute, text string) (Pattern, error) {
	text, isNot := strings.CutPrefix(text, notPrefix)
	if isNot {
		text = strings.TrimLeft(text, " ")
	}
	p := Pattern{isNot: isNot}
	if name, isList := strings.CutPrefix(text, listPrefix); isList {
		l, err := listFor(a, name)
		if err != nil {
			return Pattern{}, err
		}
		p.text, p.name, p.globs = listPrefix+name, name, l.globs
	} else {
		g, err := parseGlob(a, text)
		if err != nil {
			return Pattern{}, err
		}
		p.text, p.globs = g.text, []glob{g}
	}
	if isNot {
		if p.text == "*" && !a.isNamed() || strings.HasPrefix(p.text, notPrefix) {
			return Pattern{}, errors.New("excludes every value, or has two times not")
		}
		p.text = notPrefix + p.text
	}
	return p, nil
}

func parseGlob(a Attribute, text string) (glob, error) {
	switch {
	case text == "":
		return glob{}, errors.New("is empty; write * for any value")
	case len(text) > MaxPatternLength:
		return glob{}, fmt.Errorf("is longer than %d bytes", MaxPatternLength)
	case !utf8.ValidString(text):
		return glob{}, errors.New("is not valid UTF-8")
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return glob{}, errors.New("has a control character")
	}
	text = a.fold(text)
	if a == ASN {
		text = strings.TrimPrefix(text, "as")
	}
	if err := a.check(text); err != nil {
		return glob{}, err
	}
	g, err := newGlob(text)
	if err != nil {
		return glob{}, err
	}
	if a == Path && g.pieces[0] != "" && g.pieces[0][0] != '/' {
		return glob{}, errors.New("must begin with / or *, as every path begins with /")
	}
	if a == Path && strings.Contains(text, "?") {
		return glob{}, errors.New("has a question mark; a path is compared without its query")
	}
	return g, nil
}

func newGlob(text string) (glob, error) {
	pieces, err := split(text)
	if err != nil {
		return glob{}, err
	}
	var spelled []string
	for _, piece := range pieces {
		spelled = append(spelled, Escape(piece))
	}
	return glob{text: strings.Join(spelled, "*"), pieces: pieces}, nil
}

// Escape returns the glob that matches only text.
func Escape(text string) string { return escaper.Replace(text) }

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

// matches reports whether the glob matches the whole normalized value, which must be in lower case
// if the glob ignores it. It takes time proportional to the length of both.
func (g *glob) matches(value string) bool {
	first, last := g.pieces[0], g.pieces[len(g.pieces)-1]
	if len(g.pieces) == 1 {
		return value == first
	}
	if !strings.HasPrefix(value, first) {
		return false
	}
	value = value[len(first):]
	for _, piece := range g.pieces[1 : len(g.pieces)-1] {
		at := strings.Index(value, piece)
		if at < 0 {
			return false
		}
		value = value[at+len(piece):]
	}
	return strings.HasSuffix(value, last)
}

// longest returns the longest literal of the glob, "" if it matches every value.
func (g *glob) longest() string {
	best := ""
	for _, piece := range g.pieces {
		if len(piece) > len(best) {
			best = piece
		}
	}
	return best
}

// describe says in words what the pattern matches.
func (p Pattern) describe() string {
	verb := func(is, isNot string) string {
		if p.isNot {
			return isNot
		}
		return is
	}
	if p.name != "" {
		return verb("is", "is not") + " in the list " + p.name
	}
	g := p.globs[0]
	first, last := g.pieces[0], g.pieces[len(g.pieces)-1]
	switch {
	case len(g.pieces) == 1:
		return verb("is ", "is not ") + first
	case len(g.pieces) == 2 && first == "" && last == "":
		return verb("is present", "is missing")
	case len(g.pieces) == 2 && last == "":
		return verb("begins with ", "does not begin with ") + first
	case len(g.pieces) == 2 && first == "":
		return verb("ends in ", "does not end in ") + last
	case len(g.pieces) == 3 && first == "" && last == "":
		return verb("contains ", "does not contain ") + g.pieces[1]
	}
	return verb("matches ", "does not match ") + g.text
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
