package adminui

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// piece is a stretch of text, or a character that cannot be seen or changes the
// direction of others, which is drawn as a tag with its number.
type piece struct {
	Text string
	Tag  bool
}

// keyView is a key or pattern as the template "key" draws it.
type keyView struct {
	Kind       string // with its colon, "" for none
	Head, Tail []piece
	Whole      string // safe for a title
	Plain      string // as it is, for copying and links
}

const (
	mostShown = 24 // characters of a key's value in a table
	headShown = 14 // of a longer one: 60% from its head
	tailShown = 9  // and 40% from its tail
	mostMarks = 2  // accents on one letter; more would cover the lines around
)

var kindPattern = regexp.MustCompile(`^[a-z][a-z0-9_-]*:`)

// keyOf returns the view of a key or pattern that is cut in its middle where it
// is long.
func keyOf(text string) keyView { return viewKey(text, mostShown) }

// wholeKey returns the view of a key or pattern, never cut.
func wholeKey(text string) keyView { return viewKey(text, len(text)) }

func viewKey(text string, most int) keyView {
	v := keyView{Kind: kindPattern.FindString(text), Plain: text, Whole: joinPieces(pieces(text))}
	value := []rune(text[len(v.Kind):])
	if len(value) <= most {
		v.Head = pieces(string(value))
		return v
	}
	v.Head = pieces(string(value[:headShown]))
	v.Tail = pieces(string(value[len(value)-tailShown:]))
	return v
}

// pieces splits text that somebody chose so that all of it can be seen.
func pieces(text string) []piece {
	var all []piece
	var run strings.Builder
	marks := 0
	flush := func() {
		if run.Len() > 0 {
			all = append(all, piece{Text: run.String()})
			run.Reset()
		}
	}
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		if unicode.IsMark(r) {
			marks++
		} else {
			marks = 0
		}
		if visible(r) && marks <= mostMarks {
			run.WriteRune(r)
			continue
		}
		flush()
		all = append(all, piece{Text: fmt.Sprintf("U+%04X", r), Tag: true})
	}
	flush()
	return all
}

// visible reports whether a character takes room of its own and leaves the
// others where they are.
func visible(r rune) bool {
	return unicode.IsGraphic(r) && (r == ' ' || !unicode.IsSpace(r)) && !blank[r]
}

// blank are graphic by their class and yet cannot be seen.
var blank = map[rune]bool{
	'\u115F': true, '\u1160': true, '\u3164': true, '\uFFA0': true, '\u2800': true,
	'\u034F': true, '\u17B4': true, '\u17B5': true,
}

func joinPieces(all []piece) string {
	var b strings.Builder
	for _, p := range all {
		if p.Tag {
			b.WriteString("<" + p.Text + ">")
		} else {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}
