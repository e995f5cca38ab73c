package format

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// piece is a part of a text, or a character that is invisible or changes the direction of
// others. Such a character is drawn as a tag with its number.
type piece struct {
	Text string
	Tag  bool
	// Break means that a line may end after it, though no space follows.
	Break bool
}

// keyView is a key or pattern for the template "key".
type keyView struct {
	Kind       string // with its colon, "" for none
	Head, Tail []piece
	Whole      string // safe for a title
	Plain      string // unchanged, for copying and links
}

const (
	maxShown  = 24 // maximum length of a key's value in a table, in characters
	headShown = 14 // of a longer one: 60% from its head
	tailShown = 9  // and 40% from its tail
	maxMarks  = 2  // accents on one letter; more would cover the lines around
	maxWhole  = 18 // longest word without a place of its own where a line may end, in bytes
)

// separators are the characters of paths, keys and agents after which a line may end. Browsers end lines
// after the hyphen by themselves, and otherwise anywhere in a word that is too long.
const separators = "/?&=_.:;,|@+"

var KindPattern = regexp.MustCompile(`^[a-z][a-z0-9_-]*:`)

// Key returns the view of a key or pattern. A long one is cut in its middle.
func Key(text string) keyView { return viewKey(text, maxShown) }

// WholeKey returns the view of a key or pattern without cutting it.
func WholeKey(text string) keyView { return viewKey(text, len(text)) }

func viewKey(text string, most int) keyView {
	v := keyView{Kind: KindPattern.FindString(text), Plain: text, Whole: VisibleText(text)}
	value := []rune(text[len(v.Kind):])
	if len(value) <= most {
		v.Head = Pieces(string(value))
		return v
	}
	v.Head = Pieces(string(value[:headShown]))
	v.Tail = Pieces(string(value[len(value)-tailShown:]))
	return v
}

// Pieces splits a text from an untrusted source so that all of it is visible, and its long words where
// a line may end.
func Pieces(text string) []piece {
	var all []piece
	var run strings.Builder
	marks, word, wordEnd := 0, 0, 0
	isLong, separated := false, false
	flush := func() {
		if run.Len() > 0 {
			all = append(all, piece{Text: run.String()})
			run.Reset()
		}
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	for i, r := range text {
		if i >= wordEnd {
			separated, word, wordEnd = false, i, len(text)
			if space := strings.IndexByte(text[i:], ' '); space >= 0 {
				wordEnd = i + space + 1
			}
			isLong = wordEnd-i > maxWhole
		}
		isSeparator := isLong && i > word && strings.ContainsRune(separators, r)
		if separated && !isSeparator && r != ' ' {
			flush()
			all[len(all)-1].Break = true
		}
		separated = isSeparator
		if unicode.IsMark(r) {
			marks++
		} else {
			marks = 0
		}
		if isVisible(r) && marks <= maxMarks {
			run.WriteRune(r)
			continue
		}
		flush()
		all = append(all, piece{Text: fmt.Sprintf("U+%04X", r), Tag: true})
	}
	flush()
	return all
}

// isVisible reports whether a character is drawn and does not move others.
func isVisible(r rune) bool {
	return unicode.IsGraphic(r) && (r == ' ' || !unicode.IsSpace(r)) && !blank[r]
}

// blank are characters of a graphic class that are invisible.
var blank = map[rune]bool{
	'\u115F': true, '\u1160': true, '\u3164': true, '\uFFA0': true, '\u2800': true,
	'\u034F': true, '\u17B4': true, '\u17B5': true,
}

// VisibleText returns a text from an untrusted source with every character visible: hidden ones
// are written as numbers, for example <U+200B>.
func VisibleText(text string) string {
	var b strings.Builder
	for _, p := range Pieces(text) {
		if p.Tag {
			b.WriteString("<" + p.Text + ">")
		} else {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// BareKey returns the view of a pattern, without its kind if that is clear.
func BareKey(text string) keyView {
	v := Key(text)
	if v.Kind == "ip:" {
		v.Kind = ""
	}
	return v
}
