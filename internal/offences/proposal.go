package offences

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/phrase"
)

// ProposalSettings are the thresholds at which Stint proposes to block a range. A field that is
// not positive has its value in DefaultProposalSettings.
type ProposalSettings struct {
	MinMembers  int // offending addresses of one IPv4 /24, or /64s of one IPv6 /48
	MinOffences int // offences of each member
	// MinRefused is the minimum ratio of refused checks in the range, up to 1. A report that a
	// policy had no room for counts as a refused check.
	MinRefused float64
	Window     time.Duration // in which the members offended, at least a minute
}

// DefaultProposalSettings are the defaults of ProposalSettings.
var DefaultProposalSettings = ProposalSettings{MinMembers: 8, MinOffences: 2, MinRefused: 0.2, Window: 10 * time.Minute}

// MinDerivedMembers is the minimum number of members with refused checks at which a range that a
// policy counts as a further key is proposed.
const MinDerivedMembers = 4

// WithDefaults replaces fields that are not set by their defaults.
func (s ProposalSettings) WithDefaults() ProposalSettings {
	if s.MinMembers <= 0 {
		s.MinMembers = DefaultProposalSettings.MinMembers
	}
	if s.MinOffences <= 0 {
		s.MinOffences = DefaultProposalSettings.MinOffences
	}
	if s.MinRefused <= 0 {
		s.MinRefused = DefaultProposalSettings.MinRefused
	}
	if s.Window < time.Minute {
		s.Window = DefaultProposalSettings.Window
	}
	return s
}

// RangeActivity is the activity of the members of one range within ProposalSettings.Window.
type RangeActivity struct {
	// Frequent is the number of members with at least MinOffences offences of their own, Refused
	// the number of members with a refused check.
	Frequent, Refused int64
	// HasOffended reports that the range itself offended, as a further key of a policy.
	HasOffended bool
	// Checks is the number of checks from the range, RefusedChecks the number of refused ones. A
	// report that a policy had no room for is in both.
	Checks, RefusedChecks int64
}

// Propose reports whether to propose a block of the range.
func (s ProposalSettings) Propose(a RangeActivity) bool {
	isCrowded := a.Frequent >= int64(s.MinMembers) || a.HasOffended && a.Refused >= MinDerivedMembers
	return isCrowded && a.RefusedChecks > 0 && float64(a.RefusedChecks) >= s.MinRefused*float64(a.Checks)
}

// Decision is the decision about a proposal.
type Decision string

// The decisions. A proposal is open until a decision is made.
const (
	Open      Decision = ""
	Accepted  Decision = "accepted"
	Dismissed Decision = "dismissed"
	Covered   Decision = "covered" // a block of its range was added in another way
)

// ProposalState selects proposals by whether they are decided.
type ProposalState string

// The states.
const (
	OpenProposals    ProposalState = "open"
	DecidedProposals ProposalState = "decided"
	AllProposals     ProposalState = "all"
)

// Proposal proposes to block a range. It is never accepted automatically.
type Proposal struct {
	ID        string // UUIDv7
	Pattern   keys.Pattern
	Created   time.Time
	Updated   time.Time
	Evidence  Evidence
	Decision  Decision
	Decided   time.Time
	DecidedBy string
	Reason    string
	BlockID   string // of an accepted or covered one
}

// Evidence is the evidence for a proposal. Lists have only the heaviest keys, at most
// MaxEvidenceKeys; numbers are of all keys.
type Evidence struct {
	From, To time.Time
	Offended []SeenKey
	Seen     []SeenKey // keys with checks but no offence in the last day
	Exempt   []string  // exempt patterns, which stay allowed even if the range is blocked
	// OffendedCount is the number of keys that offended, and Offences that of their offences.
	// SeenCount is the number of keys that did not, and Allowed that of their allowed checks.
	OffendedCount, SeenCount int64
	Offences, Allowed        int64
	// MinOffences is the minimum number of offences of each of the OffendedCount keys. Checked is
	// the number of checks of the range in that time, and Refused the number of refused ones. All
	// are 0 in proposals of earlier versions. A report that a policy had no room for is in both.
	MinOffences, Refused, Checked int64
	// Size is the number of addresses, or of /64s, in the range.
	Size int64
	// Requests are those of sources that asked to block the range and could not confirm it.
	Requests []BlockRequest
	// IsRequested means that only the requests led to the proposal: it ends with the last of them.
	IsRequested bool
}

// BlockRequest is a request of a source to block a range.
type BlockRequest struct {
	Source, Author, Reason string
	ConfirmReason          string    // why it needs a confirmation
	Expires                time.Time // zero: permanent
}

// HasLapsed reports whether the proposal has outlived all requests that led to it.
func (e *Evidence) HasLapsed(now time.Time) bool {
	return e.IsRequested && !slices.ContainsFunc(e.Requests, func(r BlockRequest) bool { return r.Expires.IsZero() || now.Before(r.Expires) })
}

// Asked returns a clause about the sources that asked for the block, "" for none.
func (e *Evidence) Asked() string {
	var all []string
	for _, r := range e.Requests {
		all = append(all, fmt.Sprintf("%s asked to block it (%s), which needs a confirmation: %s", r.Source, r.Reason, r.ConfirmReason))
	}
	return strings.Join(all, "; ")
}

const MaxEvidenceKeys = 256

// String returns a clause about the offenders: "8 of its 256 addresses offended within 10 min".
func (e *Evidence) String() string {
	if e.IsRequested {
		return e.Asked()
	}
	unit := "addresses"
	if e.Size == NetworksInRange {
		unit = "/64s"
	}
	text := fmt.Sprintf("%d of its %d %s offended within %s", e.OffendedCount, e.Size, unit, phrase.Duration(e.To.Sub(e.From)))
	if e.Checked == 0 {
		return text
	}
	return text + ", " + e.Figures()
}

// Figures returns a clause about how often they offended and which part of the checks of the
// range was refused, "" if that is not known.
func (e *Evidence) Figures() string {
	if e.Checked == 0 {
		return ""
	}
	return fmt.Sprintf("each at least %s; %.0f%% of the checks of the range were refused, reports over a limit included", phrase.Times(max(1, e.MinOffences)), 100*e.RefusedRatio())
}

// RefusedRatio returns the refused part of the checks of the range, 0 to 1.
func (e *Evidence) RefusedRatio() float64 {
	if e.Checked == 0 {
		return 0
	}
	return float64(e.Refused) / float64(e.Checked)
}

// The sizes of ranges: the addresses of an IPv4 /24, the /64s of an IPv6 /48.
const (
	AddressesInRange = 256
	NetworksInRange  = 1 << 16
)

// RangeSize returns the number of the addresses of an IPv4 network, or of the /64s of an IPv6
// network.
func RangeSize(network netip.Prefix) int64 {
	bits := 32
	if network.Addr().Is6() {
		bits = 64
	}
	return 1 << min(62, max(0, bits-network.Bits()))
}

// RefreshedProposal is the result of PutProposal.
type RefreshedProposal struct {
	Proposal Proposal
	New      bool
}
