package accesslog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

var errUnlikeFormat = errors.New("the line is not as --log-format says")

// formatUses are the variables that are read: those with the well-known names of fields. Any
// other one is skipped.
var formatUses = func() map[string]wanted {
	all := map[string]wanted{}
	for use, names := range map[int][]string{
		forTime: timeNames, forKey: addressNames, forForwarded: append([]string{appendedForwarded, "http_forwarded"}, forwardedNames...),
		forPath: requestNames[0], forMethod: requestNames[1], forAgent: requestNames[2], forHost: requestNames[3], forStatus: statusNames, forLine: lineNames,
	} {
		for rank, name := range names {
			all[name] = wanted{use, rank}
		}
	}
	return all
}()

// appendedForwarded is X-Forwarded-For with the address of who asked at its end, which no client
// writes.
const appendedForwarded = "proxy_add_x_forwarded_for"

// The characters that the value of a variable consists of, in the syntax of a class of regular
// expressions. A client writes the value of any variable that is not here.
const addressCharacters = `0-9A-Fa-f.:\[\]\-unix` // also "-" and "unix:"

var variableCharacters = map[string]string{
	"remote_addr": addressCharacters, "realip_remote_addr": addressCharacters, "server_addr": addressCharacters,
	"time_local": `0-9A-Za-z/:+\- `, "time_iso8601": `0-9T:+Z.\-`, "msec": `0-9.`, "time": `0-9A-Za-z/:+.,\- `,
	"status": `0-9\-`, "body_bytes_sent": `0-9\-`, "bytes_sent": `0-9+\-`, "request_time": `0-9.\-`, "server_port": `0-9`, "remote_port": `0-9`,
	"pid": `0-9`, "connection": `0-9`, "request_length": `0-9\-`,
	// nginx refuses a host with a space. http_host is what the client sent.
	"host": `^\s"`, "server_name": `^\s"`,
	"_": `^ "`,
}

// optionalCharacters are the characters of variables that may be empty.
var optionalCharacters = map[string]string{"captures": `^"`}

// quotedText is a text between quotes. Servers escape quotes within it.
const quotedText = `(?:[^"\\]|\\.)*`

var formatVariable = regexp.MustCompile(`\$(?:\{(\w+)\}|(\w+))`)

// formatParser reads lines that are described in the style of nginx's log_format.
type formatParser struct {
	*description
	shortest *regexp.Regexp
	// longest is nil unless a text that a client writes, and that no quotes end, is before its
	// address: then both must find the same address, or the client has chosen where it is.
	longest *regexp.Regexp
	names   []string // of the groups
	pieces  []formatPiece
	rest    []byte // behind the last variable
	quotes  int    // in the description
	places  []int
	groups  [fieldUses]int
	ranks   [fieldUses]int
	keys    *clientKeys
	texts   textCache
	clock   clock
	columns Columns
}

// formatPiece is a variable and the text before it.
type formatPiece struct {
	before     []byte
	isQuoted   bool
	isOptional bool
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
	_, err := newFormatParser(o.description(), o)
	return err
}

// description returns the description of LogFormat.
func (o Options) description() *description {
	d := &description{format: described, title: "lines of --log-format", lines: o.LogFormat}
	if isApacheFormat(d.lines) {
		d.lines = fromApache(d.lines)
	}
	return d
}

func newFormatParser(d *description, o Options) (*formatParser, error) {
	p, err := compileFormat(d, strings.TrimPrefix(o.Key, "$"), strings.TrimPrefix(o.Account, "$"))
	if err != nil {
		return nil, err
	}
	if p.clock.zone = o.Zone; o.Zone == nil && d.isLocal {
		p.clock.zone = time.Local //nolint:gosmopolitan // as the server that writes the log
	}
	return p, p.check(o, strings.TrimPrefix(o.Key, "$"), strings.TrimPrefix(o.Account, "$"))
}

// compileFormat compiles a description.
func compileFormat(d *description, key, account string) (*formatParser, error) {
	p := &formatParser{description: d, quotes: strings.Count(d.lines, `"`)}
	var shortest, longest strings.Builder
	shortest.WriteString("(?s)^")
	longest.WriteString("(?s)^")
	for use := range p.groups {
		p.groups[use] = -1
	}
	at, isFree, needsBoth, end := 0, false, false, ""
	matches := formatVariable.FindAllStringSubmatchIndex(d.lines, -1)
	for i, m := range matches {
		literal := d.lines[at:m[0]]
		at = m[1]
		name := strings.Trim(d.lines[m[0]:m[1]], "${}")
		optional, isOptional := optionalCharacters[name]
		if i > 0 && literal == "" {
			return nil, fmt.Errorf("the log format has nothing between two variables: %s", clip(d.lines[matches[i-1][0]:m[1]]))
		}
		shortest.WriteString(regexp.QuoteMeta(literal))
		longest.WriteString(regexp.QuoteMeta(literal))
		p.names = append(p.names, name)
		p.use(name, key, account)
		text, piece := "", formatPiece{before: []byte(literal), isOptional: isOptional}
		end = ""
		switch class := variableCharacters[name]; {
		case isOptional:
			text, piece.characters = "["+optional+"]*", charactersOf(optional)
		case strings.HasSuffix(literal, `"`) && strings.HasPrefix(d.lines[at:], `"`):
			if piece.isQuoted = true; d.isBare {
				isFree = true
			} else {
				text = quotedText
			}
		case class != "":
			text, piece.characters = "["+class+"]+", charactersOf(class)
		default:
			isFree, end = true, "$"
		}
		p.pieces = append(p.pieces, piece)
		if isFree && (p.groups[forKey] == i+1 || p.groups[forForwarded] == i+1) {
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
	p.rest = []byte(d.lines[at:])
	rest := regexp.QuoteMeta(d.lines[at:])
	switch {
	case d.isWhole:
		end = "$"
	case rest != "":
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
	return p, nil
}

// use notes what the last of the variables is for. Of several for one use the preferred one
// counts, and of the same the first.
func (p *formatParser) use(name, key, account string) {
	want, isRead := formatUses[name]
	isNamed := key != "" && !isForwardedList(key)
	switch {
	case account != "" && name == account:
		want, isRead = wanted{use: forAccount}, true
	case isNamed && name == key:
		want, isRead = wanted{use: forKey}, true
	case isNamed && want.use == forKey:
		isRead = false
	}
	if isRead && (p.groups[want.use] < 0 || want.rank < p.ranks[want.use]) {
		p.groups[want.use], p.ranks[want.use] = len(p.names), want.rank
	}
}

// check makes sure that the format has what is needed, and says what it has.
func (p *formatParser) check(o Options, key, account string) error {
	name := func(use int) string {
		if p.groups[use] < 0 {
			return ""
		}
		return "$" + p.names[p.groups[use]-1]
	}
	isList := isForwardedList(key) || key == "" && p.groups[forKey] < 0 && p.groups[forForwarded] > 0
	switch {
	case p.groups[forTime] < 0:
		return errors.New("the log format has no time; name $time_local, $time_iso8601 or $msec where it is")
	case p.groups[forKey] < 0 && p.groups[forForwarded] < 0 && key != "":
		return fmt.Errorf("the log format has no variable $%s for the key", clip(key))
	case p.groups[forKey] < 0 && p.groups[forForwarded] < 0:
		return errors.New("the log format has no client; name $remote_addr where its address is, or $http_x_forwarded_for")
	case p.groups[forLine] < 0 && p.groups[forPath] < 0:
		return errors.New("the log format has no request; name $request or $request_uri where it is")
	case account != "" && p.groups[forAccount] < 0:
		return fmt.Errorf("the log format has no variable $%s for the account", clip(account))
	case isList && key == "" && len(o.Proxies) == 0 && name(forForwarded) != "$"+appendedForwarded:
		return &InputError{fmt.Errorf("the lines (%s) have no address of who connected, and clients write a part of %s; name your proxies with --trusted-proxies, or take the last address of each list by --key-column %s",
			p.title, name(forForwarded), strings.TrimPrefix(name(forForwarded), "$"))}
	}
	if !isList && (key != "" || len(o.Proxies) == 0) {
		p.groups[forForwarded] = -1
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
	c.Time, c.Client, c.Status, c.Account, c.Host, c.Agent = name(forTime), name(forKey), name(forStatus), name(forAccount), name(forHost), name(forAgent)
	c.Path, c.Method = cmp.Or(name(forPath), name(forLine)), cmp.Or(name(forMethod), name(forLine))
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
		case piece.isQuoted && p.isBare:
			length = bytes.IndexByte(line[at:], '"')
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
		if length < 0 || piece.characters != nil && !isOf(line[at:at+length], piece.characters) && (length > 0 || !piece.isOptional) {
			return p.shortest.FindSubmatchIndex(line)
		}
		p.places = append(p.places, at, at+length)
		at += length
	}
	if !bytes.HasPrefix(line[at:], p.rest) {
		return p.shortest.FindSubmatchIndex(line)
	}
	if p.places[1] = at + len(p.rest); p.isWhole && p.places[1] < len(line) {
		return p.shortest.FindSubmatchIndex(line)
	}
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
	if p.longest != nil && !(p.isBare && bytes.Count(line, quoteMark) == p.quotes) {
		other := p.longest.FindSubmatchIndex(line)
		for _, use := range [...]int{forKey, forForwarded} {
			if at := 2 * p.groups[use]; at > 0 && (other == nil || !slices.Equal(m[at:at+2], other[at:at+2])) {
				return Record{}, errTwoReadings
			}
		}
	}
	value := func(use int) []byte {
		at := 2 * p.groups[use]
		if at <= 0 || m[at] < 0 {
			return nil
		}
		if p.isBare || use == forKey {
			return line[m[at]:m[at+1]]
		}
		return unescape(line[m[at]:m[at+1]])
	}
	ms, err := p.clock.parse(string(value(forTime)))
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
	request := value(forLine)
	if p.isColored {
		request = uncolor(request)
	}
	method, target := requestLine(request)
	r.IsNoRequest = isNoRequest(request)
	if p.isURL {
		var host []byte
		if host, target = cutURL(target); r.Host == "" {
			r.Host = p.texts.of(host)
		}
	}
	if r.Method == "" {
		r.Method = p.texts.of(method)
	}
	if r.Path == "" {
		r.Path = p.texts.ofPath(target)
	}
	r.Status = parseStatus(string(value(forStatus)))
	return r, nil
}

// cutURL returns the host and the target of a whole URL, or a target as it is.
func cutURL(target []byte) (host, rest []byte) {
	_, behind, isURL := bytes.Cut(target, []byte("://"))
	if !isURL || target[0] == '/' {
		return nil, target
	}
	at := bytes.IndexByte(behind, '/')
	if at < 0 {
		return behind, []byte("/")
	}
	return behind[:at], behind[at:]
}

// describe makes p a parser of described lines. It is an error if no line at the beginning is as
// the description says.
func (p *LineParser) describe(head [][]byte, d *description, o Options) error {
	format, err := newFormatParser(d, o)
	if err != nil {
		return err
	}
	p.title, p.parse, p.columns = d.title, format.parse, format.columns
	p.beginsFree = len(format.pieces[0].before) == 0 && format.pieces[0].characters == nil
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
	return &InputError{fmt.Errorf("none of the first %d lines is as %s", lines, map[bool]string{true: "--log-format says", false: "in an " + d.title}[d.format == described])}
}
