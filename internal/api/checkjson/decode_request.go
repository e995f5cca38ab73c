package checkjson

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

// requestField returns the field of r for the attribute of that name, nil if there is none.
func requestField(r *wire.RequestAttributes, name string) *string {
	switch name {
	case "path":
		return &r.Path
	case "method":
		return &r.Method
	case "agent":
		return &r.Agent
	case "host":
		return &r.Host
	case "scheme":
		return &r.Scheme
	case "ja4":
		return &r.JA4
	case "scope":
		return &r.Scope
	}
	return nil
}

// requestFields are the members of the request of a check.
const requestFields = "path, method, agent, host, scheme, ja4, headers, query, cookies, scope"

// readRequest reads the member request of a check.
func readRequest(d *jsontext.Decoder, in *wire.RequestAttributes) error {
	if kind := d.PeekKind(); kind != '{' {
		return fault.Field("request", "must be an object of strings, got %s", httpserver.NameJSONKind(kind))
	}
	text, err := d.ReadValue()
	if err != nil {
		return err
	}
	return readObject(text, "request", func(d *jsontext.Decoder, name string) (err error) {
		field := "request." + escape.Log(name)
		if into := requestField(in, name); into != nil {
			*into, err = readString(d, field)
			return err
		}
		switch name {
		case "headers":
			in.Headers, err = readTexts(d, field, wire.MaxNamed)
		case "query":
			in.Query, err = readTexts(d, field, wire.MaxNamed)
		case "cookies":
			in.Cookies, err = readTexts(d, field, wire.MaxNamed)
		default:
			return fault.Field(field, "is not a field of a request; the fields are %s", requestFields)
		}
		return err
	})
}

// request is readRequest for the fast path.
func (f *fastReader) request(in *wire.RequestAttributes) bool {
	if !f.take('{') {
		return false
	}
	for {
		name, ok := f.plain()
		if !ok || !f.take(':') {
			return false
		}
		into := requestField(in, string(name))
		if into == nil || *into != "" {
			return false
		}
		if *into, ok = f.string(); !ok || *into == "" {
			return false
		}
		if !f.take(',') {
			return f.take('}')
		}
	}
}

// CheckValues checks the names of the values of a check or a report. It accepts all values,
// since clients choose them. The error is a *fault.Error.
func CheckValues(values map[string]string) error {
	if len(values) > wire.MaxValues {
		return fault.Field("values", "has more than %d entries", wire.MaxValues)
	}
	for name := range values {
		if err := conditions.CheckValueName(name); err != nil {
			return fault.Field("values", "has an invalid name: it %s", err)
		}
	}
	return nil
}

// gateRequest validates the attributes and values of a request. It returns nil if there are
// none.
func gateRequest(in *wire.RequestAttributes, values map[string]string) (*conditions.Request, error) {
	for _, a := range conditions.Attributes()[:6] { // those that are said
		if value := requestField(in, a.String()); *value != "" {
			if err := fault.CheckLine("request."+a.String(), *value, a.MaxLength()); err != nil {
				return nil, err
			}
		}
	}
	return RequestOf(in, values)
}

// RequestOf returns the attributes and values of a request, nil if there are none. Clients
// choose the attributes, so it shortens them to what conditions compare and refuses none. The
// error, a *fault.Error, concerns what the caller chooses: the scope and the names of the
// values.
func RequestOf(in *wire.RequestAttributes, values map[string]string) (*conditions.Request, error) {
	if err := CheckValues(values); err != nil {
		return nil, err
	}
	if in.IsZero() {
		return (*conditions.Request)(nil).WithValues(values), nil
	}
	if in.Scope != "" {
		if err := conditions.CheckScope(in.Scope); err != nil {
			return nil, fault.Field("request.scope", "%s", err)
		}
	}
	r := conditions.NewRequest(in.Path, in.Method, in.Agent, in.Host)
	if in.Scheme != "" {
		r = r.Saying(conditions.Scheme, in.Scheme)
	}
	if in.JA4 != "" {
		r = r.Saying(conditions.JA4, in.JA4)
	}
	for source, all := range in.Named() {
		for name, value := range all {
			a, err := conditions.ParseAttribute(source + ":" + name)
			if err != nil {
				return nil, fault.Field("request", "has a %s whose name %s", source, err)
			}
			if value == "" {
				r = r.Saying(a) // it was not sent
			} else {
				r = r.Saying(a, value)
			}
			if a == signatureInput && value != "" {
				signed := &conditions.Signed{Method: in.Method, Scheme: in.Scheme, Authority: in.Host, Input: []string{value}}
				for name, value := range in.Headers {
					switch strings.ToLower(name) {
					case conditions.SignatureValue:
						signed.Signature = []string{value}
					case conditions.SignatureAgent:
						signed.Agent = []string{value}
					}
				}
				r = r.SayingSigned(signed)
			}
		}
	}
	return r.InScope(in.Scope).WithValues(values), nil
}

// signatureInput is the header that a signed request has.
var signatureInput = conditions.Header(conditions.SignatureInput)

// CutMeta shortens the values of meta, which clients choose, to the length that is stored, and
// replaces their control characters.
func CutMeta(meta map[string]string) {
	for name, value := range meta {
		if fault.CheckLine(name, value, wire.MaxMetaValue) == nil {
			continue
		}
		var b strings.Builder
		for _, r := range value {
			if unicode.IsControl(r) {
				r = utf8.RuneError
			}
			if b.Len()+utf8.RuneLen(r) > wire.MaxMetaValue {
				break
			}
			b.WriteRune(r)
		}
		meta[name] = b.String()
	}
}
