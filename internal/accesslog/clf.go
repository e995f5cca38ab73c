package accesslog

import (
	"bytes"
	"errors"
	"fmt"
)

var (
	errNoHost    = errors.New("there is no space after the client address; a line begins: host ident user [time] \"request\" status")
	errNoQuote   = errors.New("there is no quoted request; a line reads: host ident user [time] \"request\" status bytes")
	errNoBracket = errors.New("there is no [time] before the request; a line reads: host ident user [time] \"request\" status bytes")
	errNoStatus  = errors.New("no status of three digits follows the request")
	errNoField   = errors.New("the line holds no such field; only Combined Log Format has a referer and a user agent, and X-Forwarded-For where the server is set to write it behind them")
)

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
	field clfField
	// account is the field with the account, hasAccount whether there is one.
	account    clfField
	hasAccount bool
	keys       *keyCache
	texts      textCache
}

func newCLFParser(o Options) (*clfParser, error) {
	name := o.Key
	if name == "" {
		name = "host"
	}
	field, known := clfFields[name]
	if !known {
		return nil, fmt.Errorf("the field %q is none of Common Log Format; make the key of host, user, referer, user_agent or x_forwarded_for", clip(name))
	}
	switch {
	case o.Cost != "":
		return nil, fmt.Errorf("the field %q for the cost is none of Common Log Format, whose requests cost 1 each; log JSON or CSV", clip(o.Cost))
	case o.Time != "":
		return nil, fmt.Errorf("the field %q for the time cannot be named in Common Log Format, where the time is in brackets", clip(o.Time))
	}
	var account clfField
	if o.Account != "" {
		if account, known = clfFields[o.Account]; !known {
			return nil, fmt.Errorf("the field %q is none of Common Log Format; the account is in user, referer, user_agent or x_forwarded_for", clip(o.Account))
		}
	}
	kind := o.Kind
	if kind == "" {
		kind = []string{"ip", "user", "referer", "user_agent", "ip"}[field]
	}
	return &clfParser{field: field, account: account, hasAccount: o.Account != "", keys: newKeyCache(o.Keys, kind)}, nil
}

func (p *clfParser) parse(line []byte) (Record, error) {
	fields, at, err := splitCLF(line, p.field)
	if err != nil {
		return Record{}, err
	}
	key, err := p.keys.key(fields)
	if err != nil {
		return Record{}, err
	}
	r := Record{Time: at, Key: key, Cost: 1}
	request := line[bareQuote(line)+1:]
	after, err := pastRequest(request)
	if err != nil {
		return Record{}, err
	}
	method, target := requestLine(request[:len(request)-len(after)-1])
	r.Method, r.Path = p.texts.of(method), p.texts.ofPath(target)
	r.Status, _ = digits(after[1:4])
	if agent, err := quotedOf(after, 1); err == nil {
		r.Agent = p.texts.of(agent)
	}
	if p.hasAccount {
		if account, _, err := splitCLF(line, p.account); err == nil {
			r.Account = p.texts.of(account)
		}
	}
	return r, nil
}

// splitCLF finds the time of a line and the field that makes the key.
//
// The user may hold spaces and brackets, even a false time, for it is what the
// client sent. Servers escape its quotes, so the true time is the one before
// the first quote that no backslash precedes.
func splitCLF(line []byte, field clfField) (value []byte, at int64, err error) {
	space := bytes.IndexByte(line, ' ')
	if space <= 0 {
		return nil, 0, errNoHost
	}
	quote := bareQuote(line)
	if quote < 0 {
		return nil, 0, errNoQuote
	}
	open := quote - clfTimeLength - 3 // [time] and a space
	if open <= space || line[open] != '[' || line[quote-2] != ']' || line[quote-1] != ' ' {
		return nil, 0, errNoBracket
	}
	at, err = parseCLFTime(line[open+1 : quote-2])
	if err != nil {
		return nil, 0, err
	}
	after, err := pastRequest(line[quote+1:])
	if err != nil {
		return nil, 0, err
	}
	switch field {
	case clfHost:
		return line[:space], at, nil
	case clfUser:
		value, err = userOf(line[space+1 : open])
	default:
		value, err = quotedOf(after, int(field-clfReferer))
	}
	return value, at, err
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

// userOf reads the user out of "ident user ".
func userOf(between []byte) ([]byte, error) {
	_, user, found := bytes.Cut(between, []byte{' '})
	if user = bytes.TrimSuffix(user, []byte{' '}); !found || len(user) == 0 || string(user) == "-" {
		return nil, errNoKey
	}
	return user, nil
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
