// Package admin contains the use cases of operators. A use case checks its input, asks for a
// confirmation if one is needed, and makes the change. The REST API, the pages and the imports
// call use cases; they decode and encode, and contain no decisions.
//
// The stores write the audit record of a change in the same transaction, and refresh the node's
// own copy before a method returns. Mistakes that a caller can fix are *fault.Error. Their
// fields have the same names in every front end.
package admin

import (
	"net/netip"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/identity"
)

// Caller is the operator who calls a use case.
type Caller struct {
	Actor   audit.Actor
	Address netip.Addr // the client address, invalid for none
	Access  []identity.Access
}

// May reports whether the caller has an access.
func (c Caller) May(need identity.Access) bool {
	return slices.ContainsFunc(c.Access, func(a identity.Access) bool { return a.Grants(need) })
}

// View is the node's copy of the entries, the policies and the settings for parsing keys.
type View interface {
	Blocks() *blocks.Set
	FilterCatalog
}

// day is the span on which the impact of an entry is based.
const day = 24 * time.Hour
