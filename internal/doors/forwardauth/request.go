package forwardauth

import (
	"net/netip"

	"github.com/stint-dev/stint/internal/httpserver"
)

// request is a gateway's request: a plainRequest or, on the fast path, a httpserver.FastCall.
// Results of its methods must not be kept after the handler returns.
type request interface {
	// Get returns the first line of a header, "" if there is none.
	Get(header string) string
	// AppendLines appends all non-empty lines of a header, whose name may be written with "-"
	// or "_".
	AppendLines(lines [][]byte, name string) [][]byte
	// LinesOf returns all lines of a header of exactly this name, until its next call.
	LinesOf(name string) [][]byte
	// Path returns the path as it was sent, escaped.
	Path() string
	Host() string
	OriginalMethod() string
	CountedAddress() netip.Addr
	FromTrustedProxy() bool
	Caller() string // the name of its token, "" for none
}

// plainRequest is the request of a call.
type plainRequest struct{ *httpserver.Call }

// Get implements request.
func (r plainRequest) Get(header string) string { return r.Call.Get(header) }

// Path implements request.
func (r plainRequest) Path() string { return string(r.Request().URI().PathOriginal()) }

// Host implements request.
func (r plainRequest) Host() string { return string(r.Request().Host()) }
