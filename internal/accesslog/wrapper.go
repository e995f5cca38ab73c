package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ErrPart is returned by LineParser.Parse for a line that a container's log has cut: the request
// comes with the last part.
var ErrPart = errors.New("the line goes on in one that follows")

var errCutLine = fmt.Errorf("the line that was cut into several is longer than %d bytes", MaxLine)

// wrapper takes lines out of what a container runtime, syslog or journald has put around them.
type wrapper struct {
	name string
	// unwrap returns the line within line, or a part of it, and the stream that the parts belong
	// to. It reports false for a line that is not wrapped so. The error says why a line that
	// is has nothing in it.
	unwrap func(line []byte) (inner []byte, stream string, isPart, isWrapped bool, err error)
}

// wrappers are all that are known.
var wrappers = []wrapper{{"docker", unwrapDocker}, {"CRI", unwrapCRI}, {"journald", unwrapJournal}, {"syslog", unwrapSyslog}}

// unwrapper unwraps the lines of one log and joins those that were cut. The zero value leaves
// lines as they are.
type unwrapper struct {
	*wrapper
	parts map[string]*cutLine // by stream
	// isLoose has a line without the wrapper read as it is: clients may have written what looked like one.
	isLoose bool
}

// cutLine is what has come of a line.
type cutLine struct {
	text   []byte
	isLong bool
}

var errNotWrapped = errors.New("the line is not wrapped as the lines before it")

// take returns the line within line; ErrPart for a part.
func (u *unwrapper) take(line []byte) ([]byte, error) {
	if u.wrapper == nil {
		return line, nil
	}
	inner, stream, isPart, isWrapped, err := u.unwrap(line)
	switch {
	case !isWrapped && u.isLoose:
		return line, nil
	case !isWrapped:
		return nil, fmt.Errorf("%w (%s)", errNotWrapped, u.name)
	case err != nil:
		return nil, err
	}
	before := u.parts[stream]
	if before == nil && !isPart {
		return trimEnd(inner), nil
	}
	if before == nil {
		before = &cutLine{}
		if u.parts == nil {
			u.parts = map[string]*cutLine{}
		}
		u.parts[stream] = before
	}
	if before.isLong = before.isLong || len(before.text)+len(inner) > MaxLine; !before.isLong {
		before.text = append(before.text, inner...)
	}
	if isPart {
		return nil, ErrPart
	}
	delete(u.parts, stream)
	if before.isLong {
		return nil, errCutLine
	}
	return trimEnd(before.text), nil
}

// unwrapDocker reads a line of docker's json-file driver, which cuts lines after 16 KiB: all parts
// but the last have no line end.
func unwrapDocker(line []byte) (inner []byte, stream string, isPart, isWrapped bool, err error) {
	if len(line) == 0 || line[0] != '{' {
		return nil, "", false, false, nil
	}
	var object struct {
		Log    *string `json:"log"`
		Stream string  `json:"stream"`
		Time   string  `json:"time"`
	}
	if json.Unmarshal(line, &object, lenient) != nil || object.Log == nil || object.Stream == "" || object.Time == "" {
		return nil, "", false, false, nil //nolint:nilerr // it is no line of docker
	}
	inner = []byte(*object.Log)
	return inner, object.Stream, !bytes.HasSuffix(inner, []byte{'\n'}), true, nil
}

// criLine is the line of a pod's log: the time, the stream, and P for a part or F for a whole line.
var criLine = regexp.MustCompile(`^\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|[+-]\d\d:\d\d) (stdout|stderr) ([PF])(?::\S*)? `)

func unwrapCRI(line []byte) (inner []byte, stream string, isPart, isWrapped bool, err error) {
	m := criLine.FindSubmatchIndex(line)
	if m == nil {
		return nil, "", false, false, nil
	}
	return line[m[1]:], string(line[m[2]:m[3]]), line[m[4]] == 'P', true, nil
}

var errNoMessage = errors.New("the message is left out: journalctl leaves out long ones without --all")

// unwrapJournal reads a line of "journalctl -o json". A message that is no UTF-8 is a list of its
// bytes there.
func unwrapJournal(line []byte) (inner []byte, stream string, isPart, isWrapped bool, err error) {
	if len(line) == 0 || line[0] != '{' {
		return nil, "", false, false, nil
	}
	var object struct {
		Message jsontext.Value `json:"MESSAGE"`
		Time    string         `json:"__REALTIME_TIMESTAMP"`
	}
	if json.Unmarshal(line, &object, lenient) != nil || object.Time == "" || len(object.Message) == 0 {
		return nil, "", false, false, nil //nolint:nilerr // it is no line of journald
	}
	switch object.Message.Kind() {
	case '"':
		return []byte(textOf(object.Message)), "", false, true, nil
	case '[':
		var numbers []uint16
		if json.Unmarshal(object.Message, &numbers) != nil {
			return nil, "", false, true, errNoMessage
		}
		for _, n := range numbers {
			inner = append(inner, byte(n))
		}
		return inner, "", false, true, nil
	}
	return nil, "", false, true, errNoMessage
}

// syslogLine is what syslog and journalctl write before a message, by RFC 3164 with the time of
// it or of RFC 3339, or by RFC 5424.
var syslogLine = regexp.MustCompile(`^(?:(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?|[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? [A-Z0-9+-]+|\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|[+-]\d\d:?\d\d)) \S+ [^\s:\[]+(?:\[\d+\])?: ?|<\d{1,3}>1 \S+ \S+ \S+ \S+ \S+ (?:-|(?:\[(?:[^\]\\]|\\.)*\])+) \x{feff}?)`)

func unwrapSyslog(line []byte) (inner []byte, stream string, isPart, isWrapped bool, err error) {
	m := syslogLine.FindIndex(line)
	if m == nil {
		return nil, "", false, false, nil
	}
	return line[m[1]:], "", false, true, nil
}

// unwrapHead returns the lines within those that are wrapped so, nil if none are.
func (w *wrapper) unwrapHead(head [][]byte) [][]byte {
	u := unwrapper{wrapper: w}
	var inner [][]byte
	for _, line := range head[:min(len(head), layoutLines)] {
		if line, err := u.take(trimEnd(line)); err == nil {
			inner = append(inner, bytes.Clone(line))
		}
	}
	return inner
}
