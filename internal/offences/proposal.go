package offences

import (
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

// ProposalSettings say how many offenders in one range lead to a proposal to
// block the range. A field that is not positive means the one of
// DefaultProposalSettings.
type ProposalSettings struct {
	MinMembers  int // offending addresses of one IPv4 /24, or /64s of one IPv6 /48
	MinOffences int // of each of these
	// MinRefused is the least ratio of the checks of the range that were refused, up to 1. A
	// report that a policy had no room for counts as a refused check.
	MinRefused float64
	Window     time.Duration // in which they offended, at least a minute
}

// DefaultProposalSettings hold where no setting says otherwise.
var DefaultProposalSettings = ProposalSettings{MinMembers: 8, MinOffences: 2, MinRefused: 0.2, Window: 10 * time.Minute}

// MinDerivedMembers is the least number of members with refused checks for which a range
// is proposed that a policy counts as a further key.
const MinDerivedMembers = 4

// WithDefaults replaces fields that are not set.
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

// RangeActivity is what the members of one range did within the window of the settings.
type RangeActivity struct {
	// Frequent are the members with at least MinOffences offences of their own, Refused
	// those with a refused check.
	Frequent, Refused int64
	// HasOffended reports that the range itself offended, as a further key of a policy.
	HasOffended bool
	// Checks are all checks of the range, RefusedChecks those that were refused; a report
	// that a policy had no room for is in both.
	Checks, RefusedChecks int64
}

// Propose reports whether a block of the range is to be proposed.
func (s ProposalSettings) Propose(a RangeActivity) bool {
	isCrowded := a.Frequent >= int64(s.MinMembers) || a.HasOffended && a.Refused >= MinDerivedMembers
	return isCrowded && a.RefusedChecks > 0 && float64(a.RefusedChecks) >= s.MinRefused*float64(a.Checks)
}

// Decision is what became of a proposal.
type Decision string

// The decisions. A proposal is open until one is made.
const (
	Open      Decision = ""
	Accepted  Decision = "accepted"
	Dismissed Decision = "dismissed"
	Covered   Decision = "covered" // a block of its range was added otherwise
)

// ProposalState selects proposals by whether they are decided.
type ProposalState string

// The states.
const (
	OpenProposals    ProposalState = "open"
	DecidedProposals ProposalState = "decided"
	AllProposals     ProposalState = "all"
)

// Proposal asks a person to look at a range. It is never accepted by itself.
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

// Evidence is what a proposal rests on. Lists hold the heaviest, at most
// evidenceKeys; numbers are of all.
type Evidence struct {
	From, To time.Time
	Offended []SeenKey
	Seen     []SeenKey // seen and did not offend, in the last day
	Exempt   []string  // patterns that stay open whatever is blocked
	// OffendedCount and SeenCount are the numbers of keys, Offences of what
	// the first did, and Allowed of what the second were allowed.
	OffendedCount, SeenCount int64
	Offences, Allowed        int64
	// MinOffences is how many offences each of OffendedCount had at least, and Refused the
	// number of Checked, all checks of the range in the time, that were refused; 0 in
	// proposals of earlier versions. A report that a policy had no room for is in both.
	MinOffences, Refused, Checked int64
	// Size is how many addresses, or /64s, the range has.
	Size int64
}

const MaxEvidenceKeys = 256

// String says who offended, in a clause: "8 of its 256 addresses offended
// within 10m".
func (e *Evidence) String() string {
	unit := "addresses"
	if e.Size == NetworksInRange {
		unit = "/64s"
	}
	text := fmt.Sprintf("%d of its %d %s offended within %s", e.OffendedCount, e.Size, unit, rules.FormatDuration(e.To.Sub(e.From)))
	if e.Checked == 0 {
		return text
	}
	return text + ", " + e.Figures()
}

// Figures says how often they offended and what part of the checks of the range was
// refused, "" where that is not known.
func (e *Evidence) Figures() string {
	if e.Checked == 0 {
		return ""
	}
	times := "once"
	if e.MinOffences > 1 {
		times = fmt.Sprintf("%d times", e.MinOffences)
	}
	return fmt.Sprintf("each at least %s; %.0f%% of the checks of the range were refused, reports over a limit included", times, 100*e.RefusedRatio())
}

// RefusedRatio returns the part of the checks of the range that was refused, 0 to 1.
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

// RefreshedProposal is what PutProposal did.
type RefreshedProposal struct {
	Proposal Proposal
	New      bool
}
