package offenders

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
)

// Wider says when many offenders side by side become a proposal to block
// their whole range. Zero fields mean DefaultWider's.
type Wider struct {
	Addresses int // of one IPv4 /24
	Networks  int // distinct /64s of one IPv6 /48
	Within    time.Duration
}

// DefaultWider is what holds where no setting says otherwise.
var DefaultWider = Wider{Addresses: 8, Networks: 8, Within: 10 * time.Minute}

func (w Wider) withDefaults() Wider {
	defaultTo(&w.Addresses, DefaultWider.Addresses)
	defaultTo(&w.Networks, DefaultWider.Networks)
	if w.Within < time.Minute {
		w.Within = DefaultWider.Within
	}
	return w
}

// Decision is what an operator made of a proposal.
type Decision string

// The decisions. A proposal is open until one is made.
const (
	Open      Decision = ""
	Accepted  Decision = "accepted"
	Dismissed Decision = "dismissed"
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
	BlockID   string // of an accepted one
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
	// Size is how many addresses, or /64s, the range has.
	Size int64
}

const evidenceKeys = 256

// String says who offended, in a clause: "8 of its 256 addresses offended
// within 10m".
func (e *Evidence) String() string {
	unit := "addresses"
	if e.Size == networksOfRange {
		unit = "/64s"
	}
	return fmt.Sprintf("%d of its %d %s offended within %s", e.OffendedCount, e.Size, unit, rules.FormatDuration(e.To.Sub(e.From)))
}

// The sizes of ranges: the addresses of an IPv4 /24, the /64s of an IPv6 /48.
const (
	addressesOfRange = 256
	networksOfRange  = 1 << 16
)

// RefreshedProposal is what PutProposal did.
type RefreshedProposal struct {
	Proposal Proposal
	New      bool
}

// ProposalStore keeps proposals.
type ProposalStore interface {
	// CrowdedRanges returns the IPv4 /24s in which so many addresses, and the
	// IPv6 /48s in which so many /64s, offended in the minutes of a span.
	CrowdedRanges(ctx context.Context, from, to time.Time, addresses, networks int) ([]netip.Prefix, error)
	// PutProposal adds an open proposal, or refreshes the evidence of the one
	// that is open for its pattern. It does nothing, and returns nil, where one
	// was dismissed after quietSince.
	PutProposal(ctx context.Context, p Proposal, quietSince time.Time) (*RefreshedProposal, error)
	// FindProposals returns the newest first: the open ones, or all.
	FindProposals(ctx context.Context, openOnly bool, limit int) ([]*Proposal, error)
	FindProposalByID(ctx context.Context, id string) (*Proposal, error)
	// DecideProposal closes an open proposal; Conflict where it is closed.
	DecideProposal(ctx context.Context, by audit.Actor, id string, d Decision, reason, blockID string) (*Proposal, error)
}
