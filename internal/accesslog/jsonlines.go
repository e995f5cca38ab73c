package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

var (
	errNotObject = errors.New("the line is not one JSON object")
	errNoTime    = errors.New("the object has no field for the time")
	errNoClient  = errors.New("the object has no field for the key")
	errKeyType   = errors.New("the field that makes the key is not a string of valid UTF-8")
	errTwice     = errors.New("a required field occurs twice")
)

// lenient lets servers write what they like into the fields that nobody needs;
// the needed ones are checked.
var lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

// What a field of interest is for.
const (
	forTime = iota
	forKey
	forCost
	forPath
	forMethod
	forAgent
	forHost
	forAccount
	forStatus
	forLine // the request line, of which the method and the path are parts
	fieldUses
)

// wanted is what a field of interest is for and how much it is preferred,
// 0 the most.
type wanted struct{ use, rank int }

// jsonParser reads one object a line.
type jsonParser struct {
	wanted  map[string]wanted // by path, lower case
	hosts   map[string]wanted // names of the host that may also make the key
	parents map[string]bool   // paths of objects that hold wanted fields
	texts   textCache
	caches  []*keyCache // of the keys, by rank
	// takesList says that the key may be the last one of a list, as Caddy writes the lines of
	// a header: of addresses, where the field is named.
	takesList bool
	options   Options
	bytes     bytes.Reader
	in        *jsontext.Decoder
	found     [fieldUses]found
}

// found is the most preferred field so far.
type found struct {
	rank  int // -1: none yet
	value []byte
}

func newJSONParser(o Options) (*jsonParser, error) {
	p := &jsonParser{wanted: map[string]wanted{}, hosts: map[string]wanted{}, parents: map[string]bool{}, options: o}
	p.in = jsontext.NewDecoder(&p.bytes, lenient)
	p.want(forTime, o.Time, timeNames)
	p.want(forCost, o.Cost, costNames)
	for i, names := range requestNames {
		p.want(forPath+i, "", names)
	}
	if o.Account != "" {
		p.want(forAccount, o.Account, nil)
	}
	p.want(forStatus, "", statusNames)
	p.want(forLine, "", []string{"request", "request_line"})
	for _, name := range p.want(forKey, o.Key, keyNames) {
		kind, err := o.kindOf(name)
		if err != nil {
			return nil, err
		}
		p.caches = append(p.caches, newKeyCache(o.Keys, kind))
	}
	p.takesList = o.Key != "" && p.caches[0].kind == addressKind
	for rank, name := range requestNames[forHost-forPath] {
		if p.wanted[name].use == forKey {
			p.hosts[name] = wanted{forHost, rank}
		}
	}
	return p, nil
}

func (p *jsonParser) want(use int, name string, wellKnown []string) []string {
	if name != "" {
		wellKnown = []string{name}
	}
	for rank, path := range wellKnown {
		path = strings.ToLower(path)
		if _, taken := p.wanted[path]; taken && use >= forPath {
			continue // the key is made of it
		}
		p.wanted[path] = wanted{use, rank}
		for i, c := range path {
			if c == '.' {
				p.parents[path[:i]] = true
			}
		}
	}
	return wellKnown
}

func (p *jsonParser) parse(line []byte) (Record, error) {
	r, err := p.parseObject(line)
	if err != nil && bytes.Contains(line, hexEscape) {
		return p.parseObject(hexEscapes.ReplaceAll(line, []byte(`\u00$1`)))
	}
	return r, err
}

// hexEscapes are what nginx writes for a quote, a backslash and what is no ASCII unless its
// log_format has escape=json. They are no JSON, and clients choose the values: a quote in an
// agent must not hide a request.
var (
	hexEscape  = []byte(`\x`)
	hexEscapes = regexp.MustCompile(`\\x([0-9A-Fa-f]{2})`)
)

func (p *jsonParser) parseObject(line []byte) (Record, error) {
	p.bytes.Reset(line)
	p.in.Reset(&p.bytes, lenient)
	for use := range p.found {
		p.found[use] = found{rank: -1, value: p.found[use].value[:0]}
	}
	if p.in.PeekKind() != '{' {
		return Record{}, errNotObject
	}
	if err := p.object(""); err != nil {
		return Record{}, jsonProblem(err)
	}
	if _, err := p.in.ReadToken(); !errors.Is(err, io.EOF) {
		return Record{}, errNotObject
	}
	return p.record()
}

// object reads the fields of the object at path.
func (p *jsonParser) object(path string) error {
	if _, err := p.in.ReadToken(); err != nil {
		return err
	}
	for p.in.PeekKind() != '}' {
		name, err := p.in.ReadToken()
		if err != nil {
			return err
		}
		full := strings.ToLower(name.String())
		if path != "" {
			full = path + "." + full
		}
		if err := p.field(full); err != nil {
			return err
		}
	}
	_, err := p.in.ReadToken()
	return err
}

func (p *jsonParser) field(path string) error {
	if p.in.PeekKind() == '{' && p.parents[path] {
		return p.object(path)
	}
	want, isWanted := p.wanted[path]
	kind := p.in.PeekKind()
	if !isWanted || kind == 'n' || want.use == forKey && (kind == '{' || kind == '[' && !p.takesList) { // null is as good as absent, and so is what can be no key
		return p.in.SkipValue()
	}
	value, err := p.in.ReadValue()
	if err != nil {
		return err
	}
	if best := &p.found[want.use]; best.rank == want.rank && want.use < forPath {
		return errTwice
	}
	p.found[want.use].prefer(want.rank, value)
	if host, isHost := p.hosts[path]; isHost {
		p.found[forHost].prefer(host.rank, value)
	}
	return nil
}

// prefer takes over a value of a smaller rank.
func (f *found) prefer(rank int, value []byte) {
	if f.rank < 0 || rank < f.rank {
		f.rank, f.value = rank, append(f.value[:0], value...)
	}
}

func (p *jsonParser) record() (Record, error) {
	at, key, cost := p.found[forTime], p.found[forKey], p.found[forCost]
	switch {
	case at.rank < 0:
		return Record{}, errNoTime
	case key.rank < 0:
		return Record{}, errNoClient
	}
	ms, err := parseTime(textOf(at.value))
	if err != nil {
		return Record{}, err
	}
	units := 1
	if cost.rank >= 0 {
		if units, err = parseCost(string(cost.value)); err != nil {
			return Record{}, err
		}
	}
	keys := p.caches[key.rank]
	if key.value[0] == '[' {
		key.value = lastOf(key.value)
	}
	// Of a list of addresses only the last one makes the key, and clients choose the others.
	if key.value[0] != '"' || keys.kind != addressKind && !utf8.Valid(key.value) {
		return Record{}, errKeyType
	}
	client := textOf(key.value)
	parsed, err := keys.key([]byte(client))
	if err != nil {
		return Record{}, err
	}
	r := Record{Time: ms, Key: parsed, Cost: units}
	p.readRequest(&r, client)
	return r, nil
}

// readRequest reads what the line says of the request, whose key is made of client.
func (p *jsonParser) readRequest(r *Record, client string) {
	for i, into := range r.texts() {
		if f := &p.found[forPath+i]; f.rank >= 0 {
			if text := textOf(firstOf(f.value)); i != forHost-forPath || text != client {
				*into = p.texts.ofPart(i, []byte(text))
			}
		}
	}
	if f := &p.found[forLine]; f.rank >= 0 {
		method, target := requestLine([]byte(textOf(f.value)))
		if r.Method == "" {
			r.Method = p.texts.of(method)
		}
		if r.Path == "" {
			r.Path = p.texts.ofPath(target)
		}
	}
	if f := &p.found[forStatus]; f.rank >= 0 {
		r.Status = parseStatus(textOf(f.value))
	}
}

// firstOf returns the first element of a list, as Caddy writes headers, and any other
// value as it is.
func firstOf(value []byte) []byte {
	if value[0] != '[' {
		return value
	}
	list := jsontext.NewDecoder(bytes.NewReader(value), lenient)
	if _, err := list.ReadToken(); err != nil || list.PeekKind() != '"' {
		return []byte(`""`)
	}
	first, err := list.ReadValue()
	if err != nil {
		return []byte(`""`)
	}
	return first
}

// lastOf returns the last element of a list, an empty string for an empty list.
func lastOf(value []byte) []byte {
	list, last := jsontext.NewDecoder(bytes.NewReader(value), lenient), []byte(`""`)
	for _, err := list.ReadToken(); err == nil && list.PeekKind() != ']'; {
		var element jsontext.Value
		if element, err = list.ReadValue(); err == nil {
			last = append(last[:0], element...)
		}
	}
	return last
}

// textOf returns the text of a string, or any other value as it is written. What is no UTF-8
// becomes U+FFFD: many servers write what a client sent as it is, and one byte in its agent must
// not hide the agent.
func textOf(value []byte) string {
	if value[0] != '"' {
		return string(value)
	}
	text, _ := jsontext.AppendUnquote(nil, value) // the decoder has found nothing else wrong with it
	return string(text)
}

// jsonProblem words an error of the JSON parser for a line of a log.
func jsonProblem(err error) error {
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.Is(err, errTwice):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON object ends in its middle")
	case errors.As(err, &syntactic):
		return fmt.Errorf("the JSON is broken after byte %d", syntactic.ByteOffset)
	default:
		return errors.New("the JSON is broken")
	}
}
