package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var errUnlikeFormat = errors.New("the line is not as --log-format says")

// Variables of nginx's log_format that are read. Any other one is skipped.
var formatVariables = map[string]int{
	"remote_addr": forKey, "http_x_forwarded_for": forForwarded, "proxy_add_x_forwarded_for": forForwarded, "http_forwarded": forForwarded,
	"time_local": forTime, "time_iso8601": forTime, "msec": forTime, "status": forStatus, "request": forLine,
	"uri": forPath, "request_uri": forPath, "request_method": forPath + 1, "http_user_agent": forPath + 2,
	"host": forHost, "http_host": forHost, "server_name": forHost,
}

// The characters of which the value of a variable is, in the syntax of a class of regular
// expressions. A client writes the value of any variable that is not here.
const addressCharacters = `0-9A-Fa-f.:\[\]\-unix` // also "-" and "unix:"

var variableCharacters = map[string]string{
	"remote_addr": addressCharacters, "realip_remote_addr": addressCharacters, "server_addr": addressCharacters,
	"time_local": `0-9A-Za-z/:+\- `, "time_iso8601": `0-9T:+Z\-`, "msec": `0-9.`,
	"status": `0-9`, "body_bytes_sent": `0-9\-`, "bytes_sent": `0-9\-`, "request_time": `0-9.\-`, "server_port": `0-9`, "remote_port": `0-9`,
	"pid": `0-9`, "connection": `0-9`, "request_length": `0-9\-`,
	// nginx refuses a host with a space. http_host is what the client sent.
	"host": `^\s"`, "server_name": `^\s"`,
}

// quotedText is what is between quotes, of which servers escape each within.
const quotedText = `(?:[^"\\]|\\.)*`

var formatVariable = regexp.MustCompile(`\$(?:\{(\w+)\}|(\w+))`)

// formatParser reads lines that are described in the style of nginx's log_format.
type formatParser struct {
	shortest *regexp.Regexp
	// longest is nil unless a text that a client writes, and that no quotes end, is before its
	// address: then both must find the same address, or the client has chosen where it is.
	longest *regexp.Regexp
	names   []string // of the groups
	pieces  []formatPiece
	rest    []byte // behind the last variable
	places  []int
	groups  [fieldUses]int
	keys    *clientKeys
	texts   textCache
	columns Columns
}

// formatPiece is a variable and the text before it.
type formatPiece struct {
	before     []byte
	isQuoted   bool
	characters *[256]bool // nil for any
}

// charactersOf returns the bytes of a class of characters.
func charactersOf(class string) *[256]bool {
	all, one := new([256]bool), regexp.MustCompile("^["+class+"]$")
	for b := range all {
		all[b] = b >= 0x80 && class[0] == '^' || b < 0x80 && one.Match([]byte{byte(b)})
	}
	return all
}

// CheckLogFormat returns an error unless LogFormat, if any, describes lines with what is needed.
func (o Options) CheckLogFormat() error {
	if o.LogFormat == "" {
		return nil
	}
	_, err := newFormatParser(o)
	return err
}

func newFormatParser(o Options) (*formatParser, error) {
	p := &formatParser{}
	key := strings.TrimPrefix(o.Key, "$")
	account := strings.TrimPrefix(o.Account, "$")
	var shortest, longest strings.Builder
	shortest.WriteString("(?s)^")
	longest.WriteString("(?s)^")
	for use := range p.groups {
		p.groups[use] = -1
	}
	at, isFree, needsBoth, end := 0, false, false, ""
	matches := formatVariable.FindAllStringSubmatchIndex(o.LogFormat, -1)
	for i, m := range matches {
		literal := o.LogFormat[at:m[0]]
		if i > 0 && literal == "" {
			return nil, fmt.Errorf("the log format has nothing between two variables: %s", clip(o.LogFormat[matches[i-1][0]:m[1]]))
		}
		shortest.WriteString(regexp.QuoteMeta(literal))
		longest.WriteString(regexp.QuoteMeta(literal))
		at = m[1]
		name := strings.Trim(o.LogFormat[m[0]:m[1]], "${}")
		p.names = append(p.names, name)
		use, isRead := formatVariables[name]
		switch {
		case account != "" && name == account:
			use, isRead = forAccount, true
		case key != "" && name == key && !isForwardedList(key):
			use, isRead = forKey, true
		case key != "" && !isForwardedList(key) && use == forKey:
			isRead = false
		}
		if isRead && p.groups[use] < 0 {
			p.groups[use] = len(p.names)
		}
		text, piece := "", formatPiece{before: []byte(literal)}
		end = ""
		switch class := variableCharacters[name]; {
		case strings.HasSuffix(literal, `"`) && strings.HasPrefix(o.LogFormat[at:], `"`):
			text, piece.isQuoted = quotedText, true
		case class != "":
			text, piece.characters = "["+class+"]+", charactersOf(class)
		default:
			isFree, end = true, "$"
		}
		p.pieces = append(p.pieces, piece)
		if isRead && (use == forKey || use == forForwarded) && isFree {
			needsBoth = true
		}
		if text == "" {
			shortest.WriteString("(.*?)")
			longest.WriteString("(.*)")
		} else {
			shortest.WriteString("(" + text + ")")
			longest.WriteString("(" + text + ")")
		}
	}
	p.rest = []byte(o.LogFormat[at:])
	rest := regexp.QuoteMeta(o.LogFormat[at:])
	if rest != "" {
		end = ""
	}
	var err error
	if p.shortest, err = regexp.Compile(shortest.String() + rest + end); err != nil {
		return nil, fmt.Errorf("the log format cannot be read: %w", err)
	}
	if needsBoth {
		if p.longest, err = regexp.Compile(longest.String() + rest + end); err != nil {
			return nil, fmt.Errorf("the log format cannot be read: %w", err)
		}
	}
	return p, p.check(o, key, account)
}

// check makes sure that the format has what is needed, and says what it has.
func (p *formatParser) check(o Options, key, account string) error {
	isList := isForwardedList(key) || key == "" && p.groups[forKey] < 0 && p.groups[forForwarded] > 0
	if !isList && (key != "" || len(o.Proxies) == 0) {
		p.groups[forForwarded] = -1
	}
	switch {
	case p.groups[forTime] < 0:
		return errors.New("the log format has no time; name $time_local, $time_iso8601 or $msec where it is")
	case p.groups[forKey] < 0 && p.groups[forForwarded] < 0 && key != "":
		return fmt.Errorf("the log format has no variable $%s for the key", clip(key))
	case p.groups[forKey] < 0 && p.groups[forForwarded] < 0:
		return errors.New("the log format has no client; name $remote_addr where its address is, or $http_x_forwarded_for")
	case account != "" && p.groups[forAccount] < 0:
		return fmt.Errorf("the log format has no variable $%s for the account", clip(account))
	}
	name := func(use int) string {
		if p.groups[use] < 0 {
			return ""
		}
		return "$" + p.names[p.groups[use]-1]
	}
	kind := addressKind
	if key != "" || o.Kind != "" {
		var err error
		if kind, err = o.kindOf(p.names[max(p.groups[forKey], p.groups[forForwarded])-1]); err != nil {
			return err
		}
	}
	list := strings.TrimPrefix(name(forForwarded), "$")
	p.keys = newClientKeys(&o, kind, list, isList)
	c := &p.columns
	c.Time, c.Client, c.Status, c.Account, c.Host, c.Agent = name(forTime), name(forKey), name(forStatus), name(forAccount), name(forHost), name(forPath+2)
	c.Path, c.Method = name(forPath), name(forPath+1)
	if line := name(forLine); line != "" {
		if c.Path == "" {
			c.Path = line
		}
		if c.Method == "" {
			c.Method = line
		}
	}
	switch {
	case isList:
		c.Client = name(forForwarded)
	case list != "":
		c.Client += ", behind trusted proxies $" + list
	}
	return nil
}

// match returns where the line, or the beginning of it, and the variables are, as
// regexp.FindSubmatchIndex does; nil if the line is not as the format says.
//
// Fast path: each variable ends where the text behind it is first found. Plain version: p.shortest,
// which also tries later places. FuzzLogFormat compares both; BenchmarkReadDescribed, 15 times faster.
func (p *formatParser) match(line []byte) []int {
	p.places = append(p.places[:0], 0, 0)
	at := 0
	for i := range p.pieces {
		piece := &p.pieces[i]
		if !bytes.HasPrefix(line[at:], piece.before) {
			return p.shortest.FindSubmatchIndex(line)
		}
		at += len(piece.before)
		behind := p.rest
		if i+1 < len(p.pieces) {
			behind = p.pieces[i+1].before
		}
		var length int
		switch {
		case piece.isQuoted:
			length = closingQuote(line[at:])
		case len(behind) == 0 && piece.characters == nil:
			length = len(line) - at
		case len(behind) == 0:
			length = 0
			for at+length < len(line) && piece.characters[line[at+length]] {
				length++
			}
		default:
			length = bytes.Index(line[at:], behind)
		}
		if length < 0 || piece.characters != nil && !isOf(line[at:at+length], piece.characters) {
			return p.shortest.FindSubmatchIndex(line)
		}
		p.places = append(p.places, at, at+length)
		at += length
	}
	if !bytes.HasPrefix(line[at:], p.rest) {
		return p.shortest.FindSubmatchIndex(line)
	}
	p.places[1] = at + len(p.rest)
	return p.places
}

// isOf reports whether a text has a character, and only such.
func isOf(text []byte, characters *[256]bool) bool {
	for _, c := range text {
		if !characters[c] {
			return false
		}
	}
	return len(text) > 0
}

func (p *formatParser) parse(line []byte) (Record, error) {
	m := p.match(line)
	if m == nil {
		return Record{}, errUnlikeFormat
	}
	if p.longest != nil {
		other := p.longest.FindSubmatchIndex(line)
		for _, use := range [...]int{forKey, forForwarded} {
			if at := 2 * p.groups[use]; at > 0 && (other == nil || !slices.Equal(m[at:at+2], other[at:at+2])) {
				return Record{}, errTwoReadings
			}
		}
	}
	value := func(use int) []byte {
		if at := 2 * p.groups[use]; at > 0 && m[at] >= 0 {
			return line[m[at]:m[at+1]]
		}
		return nil
	}
	ms, err := parseTime(string(value(forTime)))
	if err != nil {
		return Record{}, err
	}
	key, err := p.keys.key(value(forKey), value(forForwarded))
	if err != nil {
		return Record{}, err
	}
	r := Record{Time: ms, Key: key, Cost: 1}
	for i, into := range r.texts() {
		if text := value(forPath + i); isSet(text) {
			*into = p.texts.ofPart(i, text)
		}
	}
	method, target := requestLine(value(forLine))
	if r.Method == "" {
		r.Method = p.texts.of(method)
	}
	if r.Path == "" {
		r.Path = p.texts.ofPath(target)
	}
	r.Status = parseStatus(string(value(forStatus)))
	return r, nil
}

// describe makes p the parser of Options.LogFormat. It is an error if no line at the beginning is
// as it says.
func (p *LineParser) describe(head [][]byte, o Options) error {
	format, err := newFormatParser(o)
	if err != nil {
		return err
	}
	p.format, p.parse, p.columns = described, format.parse, format.columns
	lines := 0
	for _, line := range head[:min(len(head), headLines)] {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if lines++; format.shortest.Match(line) {
			return nil
		}
	}
	if lines == 0 {
		return nil
	}
	return &InputError{fmt.Errorf("none of the first %d lines is as --log-format says", lines)}
}
