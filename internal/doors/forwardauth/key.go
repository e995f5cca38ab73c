package forwardauth

import (
	"bytes"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/doors/occurrences"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// appendChecks appends one check for each key of the request to the checks of k. If the request
// lacks a header or cookie, the key of the address is used instead, so that leaving it out does
// not avoid a limit. If it occurs several times, each value has a key, so that adding another
// does not either. Besides path, method, agent, host and scheme it describes of the request what the
// policies of selector look at.
func (q *Query) appendChecks(k *scratch, r request, parser keys.Parser, selector *rules.Selector) error {
	check := gate.Check{Policy: q.Policy, Cost: max(q.Cost, 1), Detail: true, Source: q.Source, Caller: r.Caller(), ID: q.id(r), Address: parser.AddressKey(r.CountedAddress())}
	k.address, k.host = check.Address, hostOf(r)
	about, err := q.clientRequest(k, r, k.host, k.ja4, selector.AskedNamed())
	switch {
	case err == nil:
		check.Request = about
	case selector.ReadsRequests() || q.Scope != "":
		return err
	}
	by := q.By
	if len(by) == 0 {
		by = onlyIP
	}
	for _, b := range by {
		var err error
		if k.keys, err = b.appendKeys(k.keys[:0], k, r, parser, q.Target); err != nil {
			return err
		}
		for _, key := range k.keys {
			if slices.ContainsFunc(k.checks, func(other gate.Check) bool { return other.Key == key }) {
				continue
			}
			if len(k.checks) == wire.MaxKeys {
				return occurrences.ErrTooMany
			}
			if check.Key, check.Client = key, (keys.Key{}); key.HasClient() {
				check.Client = check.Address
			}
			k.checks = append(k.checks, check)
		}
	}
	return nil
}

var onlyIP = []By{{Kind: ByIP}}

// clientRequest returns the known attributes of the client's request, with the query's scope.
// It ignores the headers of an untrusted proxy. ja4Header is Options.JA4Header.
func (q *Query) clientRequest(k *scratch, r request, host, ja4Header string, named []conditions.Attribute) (*conditions.Request, error) {
	by := By{Kind: ByPath}
	for _, b := range q.By {
		if b.Kind == ByPath {
			by = b
		}
	}
	if err := by.checkDescription(r, q.Target); err != nil {
		return nil, err
	}
	target := by.targetOf(r, q.Target)
	about := conditions.NewRequest(target, methodOf(r), r.Get("User-Agent"), host)
	if len(named) > 0 {
		about = q.sayNamed(about, k, r, target, ja4Header, named)
	}
	if r.Get(signatureInput) != "" {
		about = saySigned(about, r)
	}
	return about.InScope(q.Scope), nil
}

// signatureInput is the header that a signed request has.
const signatureInput = "Signature-Input"

// saySigned adds the signatures of the client's request, if a trusted proxy says what they are about.
func saySigned(about *conditions.Request, r request) *conditions.Request {
	if !r.FromTrustedProxy() {
		return about
	}
	lines := func(name string) (all []string) {
		for _, line := range r.AppendLines(nil, name) {
			all = append(all, string(line))
		}
		return all
	}
	return about.SayingSigned(&conditions.Signed{
		Method: methodOf(r), Scheme: schemeOf(r), Authority: authorityOf(r),
		Input: lines(conditions.SignatureInput), Signature: lines(conditions.SignatureValue), Agent: lines(conditions.SignatureAgent),
	})
}

// schemeOf returns the scheme of the client's request, "" if no trusted proxy says it.
func schemeOf(r request) string {
	if !r.FromTrustedProxy() {
		return ""
	}
	lines := r.LinesOf("X-Forwarded-Proto")
	switch {
	case len(lines) == 0:
	case bytes.EqualFold(lines[0], []byte("http")):
		return "http"
	case bytes.EqualFold(lines[0], []byte("https")):
		return "https"
	}
	return ""
}

// ja4Of returns the JA4 fingerprints that a proxy says: one, unless it hands on what its client sent. A
// name with "_" is the client's, since the proxy has set the other.
func ja4Of(r request, header string) (all []string) {
	for _, line := range r.LinesOf(header) {
		if len(line) > 0 {
			all = append(all, string(line))
		}
	}
	return all
}

// sayNamed adds the headers, parameters and cookies that policies look at. What is not there is missing
// only if the gateway would have sent it.
func (q *Query) sayNamed(about *conditions.Request, k *scratch, r request, target, ja4Header string, named []conditions.Attribute) *conditions.Request {
	switch {
	case target != "":
		about.SayQuery(len(named))
	case about == nil:
		about = about.Saying(conditions.Path) // a request that says nothing yet
	}
	for _, a := range named {
		source, name := a.Source()
		var values []string
		isSent := q.Target == "" // a gateway that appends the target to the query sends chosen headers only
		switch source {
		case "header":
			k.lines = r.AppendLines(k.lines[:0], name)
			for _, line := range k.lines {
				values = append(values, string(line))
			}
		case "cookie":
			k.lines = r.AppendLines(k.lines[:0], "Cookie")
			values, isSent = occurrences.AppendCookies(nil, k.lines, name, q.Target != ""), isSent || len(k.lines) > 0
		default:
			switch {
			case a == conditions.Scheme:
				if scheme := schemeOf(r); scheme != "" {
					about.Say(a, scheme)
				}
			case a == conditions.JA4 && ja4Header != "" && r.FromTrustedProxy():
				about.Say(a, ja4Of(r, ja4Header)...)
			}
			continue
		}
		if q.Sends != nil {
			isSent = slices.Contains(q.Sends, a)
		}
		if len(values) > 0 || isSent {
			about.Say(a, values...)
		}
	}
	return about
}

// id returns the id that the proxy gave the request, "" for none. It hashes an id that is too
// long: cutting it could make two requests share an id.
func (q *Query) id(r request) string {
	if q.IDHeader == "" || !r.FromTrustedProxy() {
		return ""
	}
	id := r.Get(q.IDHeader)
	if id == "" {
		return ""
	}
	return occurrences.Hash(id)
}

// appendKeys appends the keys of one part of the request: one, or one for each value of a
// header or cookie.
func (b By) appendKeys(all []keys.Key, k *scratch, r request, parser keys.Parser, target string) ([]keys.Key, error) {
	prefix, write := "", occurrences.Hash
	switch b.Kind {
	case BySeveral:
		return b.appendTogether(all, k, r, parser, target)
	case ByHeader:
		prefix = "header:" + strings.ToLower(b.Name) + ":"
		b.readHeader(k, r, target)
	case ByPlainHeader:
		prefix, write = "header:"+strings.ToLower(b.Name)+":", occurrences.Plain
		b.readHeader(k, r, target)
	case ByCookie:
		prefix = "cookie:" + b.Name + ":"
		k.lines = r.AppendLines(k.lines[:0], "Cookie")
		k.values = occurrences.AppendCookies(k.values[:0], k.lines, b.Name, target != "")
	default:
		key, err := b.key(k, r, parser, target)
		return append(all, key), err
	}
	if len(k.values) == 0 {
		key, err := By{Kind: ByIP}.key(k, r, parser, target)
		return append(all, key), err
	}
	for _, value := range k.values {
		key, err := parser.Key(prefix + write(value))
		if err != nil {
			return all, err
		}
		all = append(all, key)
	}
	return all, nil
}

// appendTogether appends the keys of several parts together: one for each combination of their values.
func (b By) appendTogether(all []keys.Key, k *scratch, r request, parser keys.Parser, target string) ([]keys.Key, error) {
	var kinds []string
	var parts [][]string
	for part := range strings.SplitSeq(b.Name, partsJoiner) {
		one, err := parseBy(part)
		if err != nil {
			return all, err
		}
		found, err := one.appendKeys(nil, k, r, parser, target)
		if err != nil {
			return all, err
		}
		kinds, parts = append(kinds, strings.TrimPrefix(kindNames[one.Kind], "plain-")), append(parts, occurrences.ValuesOf(found))
	}
	return occurrences.AppendTogether(all, parser, kinds, parts)
}

// readHeader sets the values of k to those of the header. A gateway that appends the target to
// the query, as Envoy does, has joined the lines of a header.
func (b By) readHeader(k *scratch, r request, target string) {
	k.lines, k.values = r.AppendLines(k.lines[:0], b.Name), k.values[:0]
	for _, line := range k.lines {
		if target != "" {
			k.values = occurrences.AppendElements(k.values, b.Name, string(line))
		} else {
			k.values = append(k.values, string(line))
		}
	}
}

// key returns the key of a part that a request has only once.
func (b By) key(k *scratch, r request, parser keys.Parser, target string) (keys.Key, error) {
	if b.Kind == ByHost || b.Kind == ByPath || b.Kind == ByMethod {
		if err := b.checkDescription(r, target); err != nil {
			return keys.Key{}, err
		}
	}
	switch b.Kind {
	case ByHost:
		return parser.Key("host:" + occurrences.Plain(k.host))
	case ByPath:
		return parser.Key("path:" + occurrences.Plain(b.pathOf(r, target)))
	case ByMethod:
		return parser.Key("method:" + occurrences.Plain(methodOf(r)))
	}
	if k.address.IsZero() {
		return k.address, fault.New(fault.Invalid, "The address of the client is not known.")
	}
	return k.address, nil
}
