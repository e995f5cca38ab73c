package accesslog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/stint-dev/stint/internal/keys"
)

var (
	errNoHost    = errors.New("there is no space after the client address; a line begins: host ident user [time] \"request\" status")
	errNoQuote   = errors.New("there is no quoted request; a line reads: host ident user [time] \"request\" status bytes")
	errNoBracket = errors.New("there is no [time] before the request; a line reads: host ident user [time] \"request\" status bytes")
	errNoStatus  = errors.New("no status of three digits follows the request")
	errNoField   = errors.New("the line holds no such field; only Combined Log Format has a referer and a user agent, and X-Forwarded-For where the server is set to write it behind them")

	errTwoAddresses = errors.New("the line begins with two addresses, unlike the lines before it: which is the client's is not known")
	errTwoReadings  = errors.New("the line can be read in more than one way, which a client may have wanted")
)

// clfLayout says what the fields before the time are.
type clfLayout uint8

// The layouts, in the style of nginx's log_format. A client writes the host and the user, so
// none of them is ever taken for its address.
const (
	clientFirst   clfLayout = iota // $remote_addr - $remote_user: Common and Combined Log Format
	clientAndText                  // $remote_addr $host - $remote_user, or with an ident
	hostFirst                      // $host $remote_addr - $remote_user: vhost_combined; the host may be empty
	listFirst                      // $http_x_forwarded_for - $remote_user
)

// layoutLines is how many lines at the beginning show the layout.
const layoutLines = 1000

// detectLayout finds the layout by which all of the lines at the beginning can be read, so that
// no single line, which a client writes a part of, decides. trusts says that there are trusted
// proxies.
func detectLayout(head [][]byte, trusts bool) (clfLayout, error) {
	var lists, dashes, both, second, texts, odd int
	for i, line := range head[:min(len(head), layoutLines)] {
		parts, err := cutCLF(trimEnd(line))
		if err != nil {
			continue
		}
		first, rest, _ := bytes.Cut(parts.before, space)
		next, _, _ := bytes.Cut(rest, space)
		isFirst, isNext := isAddress(first), isAddress(next)
		switch {
		case bytes.HasSuffix(first, comma):
			lists++
		case isFirst && string(next) == "-":
			dashes++
		case isFirst && isNext:
			both++
		case isFirst:
			texts++
		case isNext:
			second++
		case isSet(first) && !bytes.HasPrefix(first, unixSocket) && (i > 0 || !isCutAddress(first)):
			odd++
		}
	}
	switch first := dashes + texts; {
	case lists > 0 && second+both+texts == 0:
		if !trusts {
			return listFirst, &InputError{errors.New("the lines begin with lists of forwarded addresses, of which clients write a part; name your proxies with --trusted-proxies, or take the last address of each by --key-column x_forwarded_for")}
		}
		return listFirst, nil
	case lists+odd > 0:
	case second > 0 && first == 0:
		return hostFirst, nil
	case second > 0:
	case texts > 0:
		return clientAndText, nil
	case dashes > 0, both == 0:
		return clientFirst, nil
	default:
		return clientFirst, unknownClient("each line begins with two addresses, of which one may be the host that the client asked for")
	}
	return clientFirst, unknownClient("the lines do not all begin with the client's address, or with a host and the client's address")
}

// isCutAddress reports whether a text may be the end of an address, in the first line of a log
// that was cut at its top.
func isCutAddress(text []byte) bool {
	return len(bytes.Trim(text, "0123456789abcdef.:")) == 0
}

// unknownClient returns the error of a log whose client's address is in no known field.
func unknownClient(why string) error {
	return &InputError{errors.New(why + "; name the fields with --log-format, for example '$host $remote_addr - $remote_user [$time_local] \"$request\" $status'")}
}

var (
	space      = []byte{' '}
	quoteMark  = []byte{'"'}
	comma      = []byte{','}
	unixSocket = []byte("unix:")
)

// cut finds the client or the list of forwarded addresses, the host and the user in what
// is before the time of a line.
func (l clfLayout) cut(before []byte) (client, host, user []byte, isList bool, err error) {
	first, rest, _ := bytes.Cut(before, space)
	switch {
	case l == listFirst, l == clientFirst && bytes.HasSuffix(first, comma):
		// The list and the user are what clients write.
		at := bytes.Index(before, []byte(" - "))
		if at < 0 || bytes.Contains(before[at+3:], []byte(" - ")) {
			return nil, nil, nil, true, errTwoReadings
		}
		return before[:at], nil, before[at+3:], true, nil
	case l == hostFirst:
		host = first
		first, rest, _ = bytes.Cut(rest, space)
	case l == clientFirst && len(rest) > 0 && rest[0] != '-':
		if next, _, _ := bytes.Cut(rest, space); isAddress(next) {
			return nil, nil, nil, false, errTwoAddresses
		}
	case l == clientAndText:
		if next, after, found := bytes.Cut(rest, space); found && bytes.HasPrefix(after, []byte("- ")) {
			host, rest = next, after
		}
	}
	if len(first) == 0 {
		return nil, nil, nil, false, errNoHost
	}
	if _, user, _ = bytes.Cut(rest, space); !isSet(user) {
		user = nil
	}
	return first, host, user, false, nil
}

// clfField says which part of a line makes the key.
type clfField uint8

const (
	clfHost clfField = iota
	clfUser
	clfReferer
	clfUserAgent
	clfForwardedFor
)

var clfFields = map[string]clfField{
	"host": clfHost, "remote_host": clfHost, "remote_addr": clfHost, "client_ip": clfHost, "ip": clfHost,
	"user": clfUser, "remote_user": clfUser,
	"referer": clfReferer, "http_referer": clfReferer,
	"user_agent": clfUserAgent, "http_user_agent": clfUserAgent,
	"forwarded_for": clfForwardedFor, "x_forwarded_for": clfForwardedFor, "http_x_forwarded_for": clfForwardedFor,
}

// clfParser reads Common and Combined Log Format. It allocates nothing for a
// key that it has seen lately.
type clfParser struct {
	field  clfField
	layout clfLayout
	// account is the field with the account, hasAccount whether there is one.
	account    clfField
	hasAccount bool
	// hasForwarded says that the third quoted text behind the status is X-Forwarded-For, as
	// nginx's own configuration writes it.
	hasForwarded bool
	keys         *clientKeys
	texts        textCache
	columns      Columns
}

func newCLFParser(head [][]byte, o Options) (*clfParser, error) {
	p := &clfParser{}
	var known bool
	if p.field, known = clfFields[o.Key]; !known && o.Key != "" {
		return nil, fmt.Errorf("the field %q is none of Common Log Format; make the key of remote_addr, user, referer, user_agent or x_forwarded_for", clip(o.Key))
	}
	switch {
	case o.Cost != "":
		return nil, fmt.Errorf("the field %q for the cost is none of Common Log Format, whose requests cost 1 each; log JSON or CSV", clip(o.Cost))
	case o.Time != "":
		return nil, fmt.Errorf("the field %q for the time cannot be named in Common Log Format, where the time is in brackets", clip(o.Time))
	}
	if o.Account != "" {
		if p.account, known = clfFields[o.Account]; !known {
			return nil, fmt.Errorf("the field %q is none of Common Log Format; the account is in user, referer, user_agent or x_forwarded_for", clip(o.Account))
		}
		p.hasAccount = true
	}
	var err error
	if p.layout, err = detectLayout(head, len(o.Proxies) > 0); err != nil {
		switch {
		case p.layout == listFirst && p.field == clfForwardedFor:
		case o.Key == "", p.field == clfHost && !isNamed(head):
			return nil, err
		}
	}
	p.hasForwarded = p.field == clfForwardedFor && p.layout != listFirst
	if len(o.Proxies) > 0 && p.field == clfHost && p.layout != listFirst {
		if p.hasForwarded, err = hasForwardedFor(head); err != nil {
			return nil, err
		}
	}
	kind := o.Kind
	if kind == "" {
		kind = []string{"ip", "user", "referer", "user_agent", "ip"}[p.field]
	}
	list := ""
	if p.hasForwarded || p.layout == listFirst {
		list = "x_forwarded_for"
	}
	p.keys = newClientKeys(&o, kind, list, p.field == clfForwardedFor || p.layout == listFirst)
	p.columns = p.findColumns(head, o)
	return p, nil
}

// isNamed reports whether lines begin with a name, as where a server looks up the names of its
// clients, and not with two addresses: the operator says that it is the client's.
func isNamed(head [][]byte) bool {
	return !slices.ContainsFunc(head, func(line []byte) bool {
		parts, err := cutCLF(trimEnd(line))
		if err != nil {
			return false
		}
		_, rest, _ := bytes.Cut(parts.before, space)
		next, _, _ := bytes.Cut(rest, space)
		return isAddress(next)
	})
}

// hasForwardedFor reports whether the third quoted text behind the status is a list of
// forwarded addresses in the lines at the beginning. It is an error if it is something else in
// some of them: it may be the host that the client asked for.
func hasForwardedFor(head [][]byte) (bool, error) {
	found := false
	for _, line := range head[:min(len(head), layoutLines)] {
		parts, err := cutCLF(trimEnd(line))
		if err != nil {
			continue
		}
		value, err := quotedOf(parts.after, 2)
		if errors.Is(err, errNoField) {
			continue
		}
		found = true
		if err != nil {
			continue
		}
		if _, ok := lastAddress(string(value)); !ok {
			return false, unknownClient("the third quoted text behind the status is not X-Forwarded-For in all lines")
		}
	}
	return found, nil
}

// findColumns says what the lines hold.
func (p *clfParser) findColumns(head [][]byte, o Options) Columns {
	c := Columns{Time: "[time]", Client: cmp.Or(o.Key, "the first field"), Method: "request", Path: "request", Status: "status", Account: o.Account}
	switch p.layout {
	case hostFirst:
		c.Host = "the first field"
		if o.Key == "" {
			c.Client = "the second field"
		}
	case clientAndText:
		c.Host = "the second field"
	case listFirst:
		c.Client = "the list of addresses in front"
	}
	if p.hasForwarded && o.Key == "" {
		c.Client += ", behind trusted proxies the third quoted text (x_forwarded_for)"
	}
	for _, line := range head {
		if parts, err := cutCLF(trimEnd(line)); err == nil {
			if bytes.Count(parts.after, []byte{'"'}) >= 4 {
				c.Agent = "user_agent"
			}
			break
		}
	}
	return c
}

func (p *clfParser) parse(line []byte) (Record, error) {
	parts, err := cutCLF(line)
	if err != nil {
		return Record{}, err
	}
	client, host, user, isList, err := p.layout.cut(parts.before)
	if err != nil && p.field != clfReferer && p.field != clfUserAgent {
		return Record{}, err
	}
	key, err := p.key(&parts, client, user, isList)
	if err != nil {
		return Record{}, err
	}
	r := Record{Time: parts.at, Key: key, Cost: 1}
	asked := unescape(parts.request)
	method, target := requestLine(asked)
	r.IsNoRequest = isNoRequest(asked)
	r.Method, r.Path = p.texts.of(method), p.texts.ofPath(target)
	r.Status, _ = digits(parts.after[1:4])
	if agent, err := quotedOf(parts.after, 1); err == nil {
		r.Agent = p.texts.of(unescape(agent))
	}
	if p.layout == hostFirst || p.layout == clientAndText {
		r.Host = p.texts.of(host)
	}
	if p.hasAccount {
		if account, err := p.fieldOf(p.account, &parts, client, user); err == nil {
			r.Account = p.texts.of(unescape(account))
		}
	}
	return r, nil
}

// key returns the key of a line.
func (p *clfParser) key(parts *clfLine, client, user []byte, isList bool) (keys.Key, error) {
	switch p.field {
	case clfHost, clfForwardedFor:
		if isList {
			if p.layout == listFirst {
				return p.keys.key(nil, client)
			}
			return p.keys.key(client, nil)
		}
		if !p.hasForwarded {
			return p.keys.key(client, nil)
		}
		list, err := quotedOf(parts.after, 2)
		if errors.Is(err, errNoField) && p.field == clfForwardedFor {
			return keys.Key{}, err
		}
		return p.keys.key(client, list)
	}
	value, err := p.fieldOf(p.field, parts, client, user)
	if err != nil {
		return keys.Key{}, err
	}
	return p.keys.key(value, nil)
}

// fieldOf returns the text of a field.
func (p *clfParser) fieldOf(field clfField, parts *clfLine, client, user []byte) ([]byte, error) {
	switch field {
	case clfHost:
		return client, nil
	case clfUser:
		if user = bytes.TrimSuffix(user, space); !isSet(user) {
			return nil, errNoKey
		}
		return user, nil
	}
	return quotedOf(parts.after, int(field-clfReferer))
}

// clfLine are the parts of a line.
type clfLine struct {
	before  []byte // what is in front of the time
	at      int64
	request []byte
	after   []byte // from the space before the status on
}

// cutCLF finds the time and the request of a line.
//
// The user may hold spaces and brackets, even a false time, for it is what the
// client sent. Servers escape its quotes, so the true time is the one before
// the first quote that no backslash precedes.
func cutCLF(line []byte) (parts clfLine, err error) {
	first := bytes.IndexByte(line, ' ') // 0 where a host in front is empty
	if first < 0 {
		return parts, errNoHost
	}
	quote := bareQuote(line)
	if quote < 0 {
		return parts, errNoQuote
	}
	open := quote - clfTimeLength - 3 // [time] and a space
	if open <= first || line[open] != '[' || line[quote-2] != ']' || line[quote-1] != ' ' {
		return parts, errNoBracket
	}
	if parts.at, err = parseCLFTime(line[open+1 : quote-2]); err != nil {
		return parts, err
	}
	request := line[quote+1:]
	if parts.after, err = pastRequest(request); err != nil {
		return parts, err
	}
	parts.request = request[:len(request)-len(parts.after)-1]
	parts.before = bytes.TrimSuffix(line[:open], space)
	return parts, nil
}

// bareQuote returns the index of the first quote that no backslash precedes, -1
// where there is none.
func bareQuote(line []byte) int {
	for from := 0; ; {
		quote := bytes.IndexByte(line[from:], '"')
		if quote < 0 {
			return -1
		}
		if at := from + quote; at == 0 || line[at-1] != '\\' {
			return at
		}
		from += quote + 1
	}
}

// pastRequest returns what follows the request's closing quote: a status and
// the rest. Some servers leave quotes within the request bare, so the closing
// one is the first that a status follows.
func pastRequest(rest []byte) ([]byte, error) {
	if end := closingQuote(rest); end >= 0 && isStatus(rest[end+1:]) { // a server that escapes
		return rest[end+1:], nil
	}
	for {
		quote := bytes.IndexByte(rest, '"')
		if quote < 0 {
			return nil, errNoStatus
		}
		rest = rest[quote+1:]
		if isStatus(rest) {
			return rest, nil
		}
	}
}

func isStatus(rest []byte) bool {
	if len(rest) < 4 || rest[0] != ' ' || (len(rest) > 4 && rest[4] != ' ') {
		return false
	}
	_, ok := digits(rest[1:4])
	return ok
}

// quotedOf returns the nth quoted text.
func quotedOf(rest []byte, n int) ([]byte, error) {
	for ; ; n-- {
		open := bytes.IndexByte(rest, '"')
		if open < 0 {
			return nil, errNoField
		}
		rest = rest[open+1:]
		end := closingQuote(rest)
		if end < 0 {
			return nil, errNoField
		}
		if n == 0 {
			if value := rest[:end]; len(value) > 0 && string(value) != "-" {
				return value, nil
			}
			return nil, errNoKey
		}
		rest = rest[end+1:]
	}
}

// closingQuote returns the index of the first quote without a backslash before
// it, -1 where there is none.
func closingQuote(b []byte) int {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}
