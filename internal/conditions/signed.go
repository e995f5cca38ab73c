package conditions

import "sync/atomic"

// Signed is what the signatures of a request are about, besides its target: set only if the request has
// some. A caller says it of its own client's request; nobody has verified it.
type Signed struct {
	// Method is as it was sent, Scheme "" if it is not known, and Authority the host with its port.
	Method, Scheme, Authority string
	// Input, Signature and Agent are the lines of the headers Signature-Input, Signature and
	// Signature-Agent.
	Input, Signature, Agent []string
	// Memo is what was found of the signatures, for the package that verifies them: a request is verified
	// once, by however many keys it is checked.
	Memo atomic.Value
}

// The headers that a signed request has, in lower case.
const (
	SignatureInput = "signature-input"
	SignatureValue = "signature"
	SignatureAgent = "signature-agent"
)

// SignatureHeaders returns the headers that a signed request has.
func SignatureHeaders() []Attribute {
	return []Attribute{Header(SignatureValue), Header(SignatureAgent), Header(SignatureInput)}
}

// SayingSigned returns r with its signatures. signed must not be changed afterwards. r may be nil.
func (r *Request) SayingSigned(signed *Signed) *Request {
	with := Request{}
	if r != nil {
		with = *r
	}
	with.signed = signed
	return &with
}

// Signed returns what the signatures of r are about, nil if it has none. r may be nil.
func (r *Request) Signed() *Signed {
	if r == nil {
		return nil
	}
	return r.signed
}

// Target returns the target as it was sent, with its query; "" if it is not known whole.
func (r *Request) Target() string {
	if r == nil || len(r.target) >= MaxPath {
		return ""
	}
	return r.target
}
