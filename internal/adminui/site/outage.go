package site

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/wire"
)

// Outage describes an outage of the database: what the node has in memory, by which it decides
// checks and from which pages are shown.
type Outage struct {
	Head string // what the database does not do
	// InPart means that the database answers other calls of the node, and only the copy cannot be
	// brought up to date. Since is then the time since which it is not; otherwise that of the last
	// answer, zero if there was none since the node started.
	InPart bool
	Since  time.Time
	// AsOf is from when the copy is that was read from a file, because the database has not
	// answered since the node started. It is zero for a copy that was read from the database.
	AsOf time.Time
	// HasCopy means that there is a copy; without one the node answers no check.
	HasCopy                      bool
	Policies, Blocks, Exemptions int
}

// The headlines of outages: the first two if the error says no more, the last for a database that
// takes no connections.
const (
	silentHead      = "The database does not answer"
	inPartHead      = "The database answers in part only"
	unreachableHead = "The database cannot be reached"
)

// Outage returns the present outage of the database, nil for none.
func (s *Site) Outage() *Outage {
	since, err := s.Catalog.Failing()
	last, isSilent := s.StoreLiveness.Since()
	if err == nil && !isSilent {
		return nil
	}
	head := outageHead(err)
	isInPart := s.StoreLiveness.IsKnown() && !isSilent && head != unreachableHead // the last answer may have come just before
	switch {
	case isInPart && head == silentHead:
		head = inPartHead
	case !isInPart && s.StoreLiveness.IsKnown():
		since = last
	}
	set, asOf := s.Catalog.Blocks(), time.Time{}
	if at, unconfirmed := s.Catalog.Unconfirmed(); unconfirmed {
		asOf = at
	}
	return &Outage{
		Head: head, InPart: isInPart, Since: since.UTC(), AsOf: asOf.UTC(), HasCopy: s.Catalog.Loaded(),
		Policies: len(s.Catalog.Selector().Policies()), Blocks: set.Size(blocks.Block), Exemptions: set.Size(blocks.Exemption),
	}
}

// outageHead returns what is wrong with the database according to err: "The database is damaged;
// restore a backup".
func outageHead(err error) string {
	var known *fault.Error
	if !errors.As(err, &known) || known.Code != fault.Unavailable || strings.Contains(known.Message, "in time") {
		return silentHead
	}
	head, _, _ := strings.Cut(known.Message, "; nothing was changed")
	return strings.TrimSuffix(head, ".")
}

// Tolerate returns nil if err is due to an outage of the database, which the page then shows with
// what the node has in memory. It returns any other error unchanged.
func (s *Site) Tolerate(f *Frame, err error) error {
	if !fault.Is(err, fault.Unavailable) {
		return err
	}
	if f.Outage == nil && f.Principal != nil {
		f.Outage = s.Outage()
	}
	if f.Outage == nil || !f.Outage.HasCopy {
		return err
	}
	return nil
}

// Kept describes what the node has in memory: "3 policies, 120 blocks and 2 exemptions".
func (o *Outage) Kept() string {
	policies := phrase.Number(int64(o.Policies)) + " policies"
	if o.Policies == 1 {
		policies = "1 policy"
	}
	return policies + ", " + phrase.Count(o.Blocks, "block") + " and " + phrase.Count(o.Exemptions, "exemption")
}

// withoutLogin returns what of an outage everybody may see, as in /readyz.
func (o *Outage) withoutLogin() *Outage {
	seen := &Outage{Head: silentHead, InPart: o.InPart, Since: o.Since}
	if o.InPart {
		seen.Head = inPartHead
	}
	return seen
}

// checksGoOn reports whether no part fails without which checks are not decided as usual. Others, as
// an eviction in the past, may have failed for long.
func checksGoOn(r wire.Readiness) bool {
	for _, p := range r.Parts {
		if !p.OK && slices.Contains([]string{"policies", "listeners", "log"}, p.Name) {
			return false
		}
	}
	return true
}
