// Package httpsig reads and verifies the signatures of requests by RFC 9421, HTTP Message Signatures, as
// far as bots use them: Ed25519, the parts of a request that do not change on its way, and headers as
// they were sent or one member of them.
package httpsig

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/dunglas/httpsfv"
)

// Bounds of what is read. Bots sign at most six parts (@authority, @method, @path, @query, Signature-Agent
// and one header) with six parameters, in some 350 bytes of Signature-Input, and a proxy may add a signature.
const (
	maxBytes      = 2048 // of a header
	maxSignatures = 4
	maxComponents = 8
)

// Message is what a signature may cover. A part that is "" is not known.
type Message struct {
	Method    string // as it was sent
	Scheme    string // in lower case
	Authority string // the host with its port, as in the header Host
	Target    string // with its query, as it was sent
	// Header returns the lines of a header whose name is in lower case, none if they are not known.
	Header func(name string) []string
}

// Signature is one of the signatures of a request. Of a parameter that was not sent it has the zero value.
type Signature struct {
	Label                  string
	Tag, KeyID, Alg, Nonce string
	Created, Expires       int64 // in Unix seconds
	HasCreated, HasExpires bool
	components             []component
	parameters             string // of the whole signature, as they were signed
	Value                  []byte
}

// component is a part of a message that a signature covers.
type component struct {
	name, key  string
	identifier string // as it was signed, with its parameters
}

// Read returns the signatures that the headers Signature-Input and Signature say, in the order of the
// first. Each header is the lines of it.
func Read(input, signature []string) ([]Signature, error) {
	if lengthOf(input) > maxBytes || lengthOf(signature) > maxBytes {
		return nil, fmt.Errorf("a header is longer than %d bytes", maxBytes)
	}
	inputs, err := httpsfv.UnmarshalDictionary(input)
	if err != nil {
		return nil, errors.New("Signature-Input is not a dictionary of structured fields")
	}
	values, err := httpsfv.UnmarshalDictionary(signature)
	if err != nil {
		return nil, errors.New("Signature is not a dictionary of structured fields")
	}
	labels := inputs.Names()
	if len(labels) > maxSignatures {
		return nil, fmt.Errorf("there are more than %d signatures", maxSignatures)
	}
	var all []Signature
	for _, label := range labels {
		of, _ := inputs.Get(label)
		list, isList := of.(httpsfv.InnerList)
		member, _ := values.Get(label)
		item, _ := member.(httpsfv.Item)
		value, isBytes := item.Value.([]byte)
		if !isList || !isBytes {
			return nil, errors.New("a signature has no parameters or no value")
		}
		s, err := read(list)
		if err != nil {
			return nil, err
		}
		s.Label, s.Value = label, value
		all = append(all, s)
	}
	return all, nil
}

func lengthOf(lines []string) (sum int) {
	for _, line := range lines {
		sum += len(line)
	}
	return sum
}

func read(list httpsfv.InnerList) (s Signature, err error) {
	if len(list.Items) > maxComponents {
		return s, fmt.Errorf("a signature covers more than %d parts", maxComponents)
	}
	if s.parameters, err = httpsfv.Marshal(list); err != nil {
		return s, errors.New("the parameters of a signature cannot be written")
	}
	for _, item := range list.Items {
		c, err := readComponent(item)
		if err != nil {
			return s, err
		}
		for _, other := range s.components {
			if other.identifier == c.identifier {
				return s, errors.New("a signature covers a part twice")
			}
		}
		s.components = append(s.components, c)
	}
	for name, into := range map[string]*string{"tag": &s.Tag, "keyid": &s.KeyID, "alg": &s.Alg, "nonce": &s.Nonce} {
		if value, is := list.Params.Get(name); is {
			if *into, is = value.(string); !is {
				return s, errors.New("the parameter " + name + " of a signature is no string")
			}
		}
	}
	number := func(name string) (n int64, has bool, err error) {
		value, has := list.Params.Get(name)
		if !has {
			return 0, false, nil
		}
		if n, has = value.(int64); !has {
			return 0, false, errors.New("the parameter " + name + " of a signature is no whole number")
		}
		return n, true, nil
	}
	if s.Created, s.HasCreated, err = number("created"); err != nil {
		return s, err
	}
	s.Expires, s.HasExpires, err = number("expires")
	return s, err
}

func readComponent(item httpsfv.Item) (c component, err error) {
	name, is := item.Value.(string)
	if !is {
		return c, errors.New("a signature covers something that is no string")
	}
	c.name = name
	for _, parameter := range item.Params.Names() {
		value, _ := item.Params.Get(parameter)
		if c.key, is = value.(string); !is || parameter != "key" || strings.HasPrefix(name, "@") {
			return c, errors.New("a signature covers a part with a parameter that is not read")
		}
	}
	c.identifier, err = httpsfv.Marshal(item)
	return c, err
}

// Covers reports whether the signature covers a part of the message, such as "@authority".
func (s *Signature) Covers(name string) bool {
	for _, c := range s.components {
		if c.name == name && c.key == "" {
			return true
		}
	}
	return false
}

// CoveredKeys returns the members of a header that the signature covers by themselves.
func (s *Signature) CoveredKeys(header string) (all []string) {
	for _, c := range s.components {
		if c.name == header && c.key != "" {
			all = append(all, c.key)
		}
	}
	return all
}

// Base returns what is signed. The error says which part of the message is not known.
func (s *Signature) Base(m *Message) (string, error) {
	var b strings.Builder
	for _, c := range s.components {
		value, err := c.valueIn(m)
		if err != nil {
			return "", err
		}
		b.WriteString(c.identifier + ": " + value + "\n")
	}
	b.WriteString(`"@signature-params": ` + s.parameters)
	return b.String(), nil
}

// Verify reports whether the owner of an Ed25519 key signed the message. It looks at no time, tag or
// nonce.
func (s *Signature) Verify(key ed25519.PublicKey, m *Message) bool {
	if len(key) != ed25519.PublicKeySize || s.Alg != "" && s.Alg != "ed25519" {
		return false
	}
	base, err := s.Base(m)
	return err == nil && ed25519.Verify(key, []byte(base), s.Value)
}

func (c *component) valueIn(m *Message) (string, error) {
	if !strings.HasPrefix(c.name, "@") {
		return c.headerIn(m)
	}
	value := ""
	path, query, _ := strings.Cut(m.pathAndQuery(), "?")
	switch c.name {
	case "@method":
		value = m.Method
	case "@scheme":
		value = m.Scheme
	case "@authority":
		value = m.authority()
	case "@request-target":
		value = m.Target
	case "@target-uri":
		if m.Scheme != "" && m.Authority != "" && path != "" {
			value = m.Scheme + "://" + m.authority() + m.pathAndQuery()
		}
	case "@path":
		value = path
	case "@query":
		if path != "" {
			value = "?" + query
		}
	default:
		return "", errors.New("a signature covers a part of the message that is not read")
	}
	if value == "" || strings.ContainsAny(value, "\r\n") {
		return "", errors.New("what a signature covers is not known: " + strconv.Quote(c.name))
	}
	return value, nil
}

// pathAndQuery returns the target without scheme, host and fragment.
func (m *Message) pathAndQuery() string {
	target, _, _ := strings.Cut(m.Target, "#")
	if _, rest, isAbsolute := strings.Cut(target, "://"); isAbsolute && !strings.HasPrefix(target, "/") {
		at := strings.IndexAny(rest, "/?")
		if at < 0 {
			return "/"
		}
		if target = rest[at:]; target[0] == '?' {
			target = "/" + target
		}
	}
	return target
}

// authority returns the authority in lower case and without the port that is usual for the scheme, that
// of https if the scheme is not known.
func (m *Message) authority() string {
	usual := ":443"
	if m.Scheme == "http" {
		usual = ":80"
	}
	return strings.TrimSuffix(strings.ToLower(m.Authority), usual)
}

func (c *component) headerIn(m *Message) (string, error) {
	var lines []string
	if m.Header != nil {
		lines = m.Header(c.name)
	}
	if len(lines) == 0 {
		return "", errors.New("what a signature covers is not known: " + strconv.Quote(c.name))
	}
	if c.key != "" {
		dictionary, err := httpsfv.UnmarshalDictionary(lines)
		if err != nil {
			return "", errors.New("a signature covers a member of a header that is no dictionary")
		}
		member, is := dictionary.Get(c.key)
		value, can := member.(httpsfv.StructuredFieldValue)
		if !is || !can {
			return "", errors.New("a signature covers a member that the header does not have")
		}
		return httpsfv.Marshal(value)
	}
	trimmed := make([]string, len(lines))
	for i, line := range lines {
		if strings.ContainsAny(line, "\r\n") {
			return "", errors.New("a signature covers a header with several lines in one")
		}
		trimmed[i] = strings.Trim(line, " \t")
	}
	return strings.Join(trimmed, ", "), nil
}
