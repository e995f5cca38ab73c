package admin

import (
	"context"
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/recorder"
)

// DetectionStore reads what was counted and keeps what follows from it.
type DetectionStore interface {
	recorder.Sink
	RollUp(ctx context.Context, now time.Time) (done int, err error)
	DeleteOlder(ctx context.Context, now time.Time, keep offences.Retention, decays map[int64]time.Duration) (deleted int64, err error)

	Rank(ctx context.Context, q offences.Query) (offences.Ranking, error)
	// EachRanked calls do with every key that Rank would page through, in its order, with
	// Key and Offences only.
	EachRanked(ctx context.Context, q offences.Query, do func(offences.Ranked) error) (offences.Span, error)
	// Details reads up to points parts of a span for a page of keys, and of
	// their offences those that q selects; its span and order do not matter. The answer
	// says how the span was read, of which Reading.Part is the length of a part.
	Details(ctx context.Context, q offences.Query, keys []string, span offences.Span, points int) ([]offences.Detail, offences.Reading, error)
	// KeyTotals reads the traffic of keys under a policy, 0 for all.
	KeyTotals(ctx context.Context, policy int64, keys []string, span offences.Span) ([]offences.KeyTotal, error)
	// Traffic reads a span in steps from from on; a step of 0 is all of it. The answer says
	// which span and steps were read.
	Traffic(ctx context.Context, policy int64, from, to time.Time, step time.Duration) (offences.TrafficSeries, error)
	// TrafficCounts is Traffic without Keys, which take most of its time.
	TrafficCounts(ctx context.Context, policy int64, from, to time.Time, step time.Duration) (offences.TrafficSeries, error)
	RuleTotals(ctx context.Context, span offences.Span) ([]offences.RuleTotal, error)
	// Seen reads the heaviest keys that p selects, at most limit of them, and
	// the sums over all of them.
	Seen(ctx context.Context, p keys.Pattern, from, to time.Time, limit int) (offences.Seen, error)
	// SeenParts reads what the parts of a network did, each of so many bits, in
	// the order of their addresses; those without any traffic are left out.
	SeenParts(ctx context.Context, network netip.Prefix, bits int, from, to time.Time) ([]offences.SeenPart, error)
	DistinctKeys(ctx context.Context, policy int64, from, to time.Time) (int64, error)
	FindOffences(ctx context.Context, id offences.RefusalID) ([]offences.Offence, error)
	// Kept returns from when on minutes are kept, and the minute's row of
	// offences that were aggregated, by policy.
	Kept(ctx context.Context, minute time.Time) (from time.Time, aggregated []offences.Offence, err error)
	// TrafficSamples calls do with every chunk of a span.
	TrafficSamples(ctx context.Context, from, to time.Time, do func(*offences.SampleChunk) error) error

	EscalationStates(ctx context.Context, keys []string) ([]offences.State, error)
	// EscalationCounts returns what counts for keys, by minute, from one on.
	EscalationCounts(ctx context.Context, keys []string, from int64) ([]offences.EscalationCount, error)
	// EscalationEvents returns a page, the newest first, and the cursor of the page after, ""
	// on the last.
	EscalationEvents(ctx context.Context, f offences.EscalationFilter) (page []offences.EscalationEvent, next string, err error)
	EscalationPauses(ctx context.Context) ([]offences.EscalationPause, error)
	// ResumeEscalation lets a paused escalation go on; NotFound where it is not
	// paused.
	ResumeEscalation(ctx context.Context, by audit.Actor, policy int64) error
}

// ProposalStore keeps proposals.
type ProposalStore interface {
	// CrowdedRanges returns the IPv4 /24s in which MinMembers addresses, and the IPv6
	// /48s in which MinMembers /64s, offended in the minutes of a span, MinOffences
	// times each.
	CrowdedRanges(ctx context.Context, from, to time.Time, s offences.ProposalSettings) ([]netip.Prefix, error)
	// OffendingNetworks returns the IPv4 /24s and IPv6 /48s that offended as further keys of
	// policies in the minutes of a span.
	OffendingNetworks(ctx context.Context, from, to time.Time) ([]netip.Prefix, error)
	// PutProposal adds an open proposal, or refreshes the evidence of the one
	// that is open for its pattern. It does nothing, and returns nil, where one
	// was dismissed after quietSince.
	PutProposal(ctx context.Context, p offences.Proposal, quietSince time.Time) (*offences.RefreshedProposal, error)
	// FindProposals returns a page of those in a state, the newest first, after cursor, "" for
	// the first page. next is the cursor of the next page, "" on the last.
	FindProposals(ctx context.Context, state offences.ProposalState, cursor string, limit int) (page []*offences.Proposal, next string, err error)
	// ProposalCursor returns the cursor of the page that begins behind a proposal.
	ProposalCursor(id string) string
	FindProposalByID(ctx context.Context, id string) (*offences.Proposal, error)
	// AcceptProposal closes an open proposal and adds the block of its range, or extends
	// the active one: both or, with Conflict where the proposal is closed, neither. The
	// block's reason is the decision's.
	AcceptProposal(ctx context.Context, by audit.Actor, id string, block blocks.Entry) (*offences.Proposal, blocks.Outcome, error)
	// DecideProposal closes an open proposal; Conflict where it is closed.
	DecideProposal(ctx context.Context, by audit.Actor, id string, d offences.Decision, reason, blockID string) (*offences.Proposal, error)
}
