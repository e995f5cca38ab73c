package accesslog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
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
	forForwarded // the list of forwarded addresses
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
	names   [fieldUses][]string
	parents map[string]bool // paths of objects that hold wanted fields
	texts   textCache
	clock   clock
	keys    *clientKeys
	// takesList says that the key may be the last one of a list, as Caddy writes the lines of
	// a header: of addresses, where the field is named.
	takesList bool
	bytes     bytes.Reader
	in        *jsontext.Decoder
	found     [fieldUses]found
	columns   Columns
}

// found is the most preferred field so far.
type found struct {
	rank  int // -1: none yet
	value []byte
}

func newJSONParser(head [][]byte, o Options) (*jsonParser, error) {
	p := &jsonParser{wanted: map[string]wanted{}, parents: map[string]bool{}, clock: clock{zone: o.Zone}}
	p.in = jsontext.NewDecoder(&p.bytes, lenient)
	p.want(forTime, o.Time, timeNames)
	list, isList := "", isForwardedList(o.Key)
	switch {
	case isList:
		list = o.Key
		p.want(forForwarded, o.Key, nil)
		p.want(forKey, "", addressNames)
	case len(o.Proxies) > 0 && o.Key == "":
		list = forwardedNames[0]
		p.want(forForwarded, "", forwardedNames)
		p.want(forKey, "", addressNames)
	default:
		p.want(forKey, o.Key, addressNames)
	}
	p.want(forCost, o.Cost, costNames)
	for i, names := range requestNames {
		p.want(forPath+i, "", names)
	}
	if o.Account != "" {
		p.want(forAccount, o.Account, nil)
	}
	p.want(forStatus, "", statusNames)
	p.want(forLine, "", lineNames)
	kind := addressKind
	if o.Key != "" || o.Kind != "" {
		var err error
		if kind, err = o.kindOf(cmp.Or(o.Key, addressNames[0])); err != nil {
			return nil, err
		}
	}
	p.keys = newClientKeys(&o, kind, list, isList)
	p.takesList = o.Key != "" && kind == addressKind
	return p, p.look(head, o.Key)
}

// look finds the fields in the objects at the beginning. It is an error if none of them has a
// field that makes the key.
func (p *jsonParser) look(head [][]byte, key string) error {
	from := [fieldUses]string{}
	objects := 0
	var first []string
	for _, line := range head[:min(len(head), headLines)] {
		if line = bytes.TrimSpace(line); p.read(line) != nil {
			continue
		}
		if objects++; first == nil {
			first = fieldNames(line)
		}
		for use, f := range p.found {
			if f.rank >= 0 && from[use] == "" {
				from[use] = p.names[use][f.rank]
			}
		}
	}
	c := &p.columns
	if from[forKey] == "" && from[forForwarded] != "" {
		p.keys.isList = true // there is nothing but the list, of which trusted proxies write the end
	}
	c.Time, c.Client, c.Status, c.Account = from[forTime], from[forKey], from[forStatus], from[forAccount]
	c.Path, c.Method = cmp.Or(from[forPath], from[forLine]), cmp.Or(from[forPath+1], from[forLine])
	c.Agent, c.Host = from[forPath+2], from[forHost]
	switch list := from[forForwarded]; {
	case list == "":
	case p.keys.isList:
		c.Client = list
	default:
		c.Client += ", behind trusted proxies " + list
	}
	if objects > 0 && c.Client == "" && key == "" {
		return &InputError{fmt.Errorf("no field is known to hold the client's address; name it with --key-column FIELD --kind ip, a dot going down into an object, or your proxies with --trusted-proxies where only X-Forwarded-For has it; the first object has %s", clip(strconv.Quote(strings.Join(first, ", "))))}
	}
	return nil
}

// fieldNames returns the names of the fields of an object.
func fieldNames(line []byte) []string {
	var fields map[string]jsontext.Value
	if json.Unmarshal(line, &fields, lenient) != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(fields))
}

func (p *jsonParser) want(use int, name string, wellKnown []string) {
	if name != "" {
		wellKnown = []string{name}
	}
	p.names[use] = wellKnown
	for rank, path := range wellKnown {
		path = strings.ToLower(path)
		if _, taken := p.wanted[path]; taken && use > forKey {
			continue // the key is made of it
		}
		p.wanted[path] = wanted{use, rank}
		for i, c := range path {
			if c == '.' {
				p.parents[path[:i]] = true
			}
		}
	}
}

// hexEscapes are what nginx writes for a quote, a backslash and what is no ASCII unless its
// log_format has escape=json. They are no JSON, and clients choose the values: a quote in an
// agent must not hide a request.
var (
	hexEscape  = []byte(`\x`)
	hexEscapes = regexp.MustCompile(`\\x([0-9A-Fa-f]{2})`)
)

func (p *jsonParser) parse(line []byte) (Record, error) {
	if err := p.read(line); err != nil {
		return Record{}, err
	}
	return p.record()
}

// read reads the fields of an object into p.found.
func (p *jsonParser) read(line []byte) error {
	err := p.readObject(line)
	if err != nil && bytes.Contains(line, hexEscape) {
		err = p.readObject(hexEscapes.ReplaceAll(line, []byte(`\u00$1`)))
	}
	return err
}

func (p *jsonParser) readObject(line []byte) error {
	p.bytes.Reset(line)
	p.in.Reset(&p.bytes, lenient)
	for use := range p.found {
		p.found[use] = found{rank: -1, value: p.found[use].value[:0]}
	}
	if p.in.PeekKind() != '{' {
		return errNotObject
	}
	if err := p.object(""); err != nil {
		return jsonProblem(err)
	}
	if _, err := p.in.ReadToken(); !errors.Is(err, io.EOF) {
		return errNotObject
	}
	return nil
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
	// null is as good as absent, and so is what can be no value.
	if !isWanted || kind == 'n' || kind == '{' && want.use != forTime || kind == '[' && want.use == forKey && !p.takesList {
		return p.in.SkipValue()
	}
	value, err := p.in.ReadValue()
	if err != nil {
		return err
	}
	if best := &p.found[want.use]; best.rank == want.rank && want.use < forPath && want.use != forForwarded {
		return errTwice
	}
	p.found[want.use].prefer(want.rank, value)
	return nil
}

// prefer takes over a value of a smaller rank.
func (f *found) prefer(rank int, value []byte) {
	if f.rank < 0 || rank < f.rank {
		f.rank, f.value = rank, append(f.value[:0], value...)
	}
}

func (p *jsonParser) record() (Record, error) {
	at, key, list, cost := p.found[forTime], p.found[forKey], p.found[forForwarded], p.found[forCost]
	switch {
	case at.rank < 0:
		return Record{}, errNoTime
	case key.rank < 0 && (list.rank < 0 || !p.keys.isList):
		return Record{}, errNoClient
	}
	ms, err := p.clock.parse(textOf(at.value))
	if err != nil {
		return Record{}, err
	}
	units := 1
	if cost.rank >= 0 {
		if units, err = parseCost(string(cost.value)); err != nil {
			return Record{}, err
		}
	}
	var peer, forwarded []byte
	if key.rank >= 0 {
		// Of a list of addresses clients choose the first.
		if c := key.value[0]; c != '"' && c != '[' || p.keys.cache.kind != addressKind && !utf8.Valid(key.value) {
			return Record{}, errKeyType
		}
		peer = []byte(listOf(key.value))
	}
	if list.rank >= 0 {
		forwarded = []byte(listOf(list.value))
	}
	parsed, err := p.keys.key(peer, forwarded)
	if err != nil {
		return Record{}, err
	}
	r := Record{Time: ms, Key: parsed, Cost: units}
	p.readRequest(&r)
	return r, nil
}

// readRequest reads what the line says of the request.
func (p *jsonParser) readRequest(r *Record) {
	for i, into := range r.texts() {
		if f := &p.found[forPath+i]; f.rank >= 0 {
			*into = p.texts.ofPart(i, []byte(textOf(firstOf(f.value))))
		}
	}
	if f := &p.found[forLine]; f.rank >= 0 {
		line := []byte(textOf(f.value))
		method, target := requestLine(line)
		r.IsNoRequest = isNoRequest(line)
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

// listOf returns the text of a string, or the texts of a list with commas between, as if the
// lines of a header were one.
func listOf(value []byte) string {
	if value[0] != '[' {
		return textOf(value)
	}
	var texts []string
	list := jsontext.NewDecoder(bytes.NewReader(value), lenient)
	for _, err := list.ReadToken(); err == nil && list.PeekKind() != ']'; {
		var element jsontext.Value
		if element, err = list.ReadValue(); err == nil {
			texts = append(texts, textOf(element))
		}
	}
	return strings.Join(texts, ",")
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
