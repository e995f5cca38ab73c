package admin

import (
	"context"
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/breakdown"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/recorder"
)

// DetectionStore reads counts and stores what is decided from them.
type DetectionStore interface {
	recorder.Sink
	RollUp(ctx context.Context, now time.Time) (done int, err error)
	DeleteOlder(ctx context.Context, now time.Time, keep offences.Retention, decays map[int64]time.Duration) (deleted int64, err error)

	Rank(ctx context.Context, q offences.Query) (offences.Ranking, error)
	// EachRanked calls do with every key on all pages of Rank, in order, with Key and Offences
	// only.
	EachRanked(ctx context.Context, q offences.Query, do func(offences.Ranked) error) (offences.Span, error)
	// EachRankedPage calls do with the keys of EachRanked, in order, a page of Rows at a time, of
	// one state of the database. A Ranking has Span, Rows and Untracked only.
	EachRankedPage(ctx context.Context, q offences.Query, do func(offences.Ranking) error) error
	// Details reads the activity of a page of keys in a span, in up to points parts. Of the
	// offences it reads those that q selects; the span and order of q are ignored. The Reading
	// says how the span was read; Reading.Part is the length of a part.
	Details(ctx context.Context, q offences.Query, keys []string, span offences.Span, points int) ([]offences.Detail, offences.Reading, error)
	// KeyTotals reads the traffic of keys under a policy, 0 for all.
	KeyTotals(ctx context.Context, policy int64, keys []string, span offences.Span) ([]offences.KeyTotal, error)
	// Traffic reads a span in steps, which begin at whole multiples of the step, as by time.Truncate;
	// a step of 0 is the whole span. The result contains the span and the step that were read.
	Traffic(ctx context.Context, policy int64, from, to time.Time, step time.Duration) (offences.TrafficSeries, error)
	// TrafficCounts is Traffic without Keys, which takes much less time.
	TrafficCounts(ctx context.Context, policy int64, from, to time.Time, step time.Duration) (offences.TrafficSeries, error)
	// Breakdowns reads what was requested in a span. It calls begin with the span and the step that
	// are read, and then do with every table and its beginning, nil for one that cannot be read. now is the
	// present time.
	Breakdowns(ctx context.Context, now, from, to time.Time, step time.Duration, begin func(offences.TrafficSeries), do func(start time.Time, t *breakdown.Table) error) error
	RuleTotals(ctx context.Context, span offences.Span) ([]offences.RuleTotal, error)
	// Seen reads up to limit of the keys that p selects, those with the most checks first, and
	// the sums over all of them.
	Seen(ctx context.Context, p keys.Pattern, from, to time.Time, limit int) (offences.Seen, error)
	// ActiveKeys reads a page of the keys that were checked, most checks first. All refused checks
	// are in Limited.
	ActiveKeys(ctx context.Context, q offences.ActiveQuery) (offences.ActiveKeys, error)
	// SeenParts reads the activity of the parts of a network, each with the given number of
	// bits, by address. It omits parts without traffic.
	SeenParts(ctx context.Context, network netip.Prefix, bits int, from, to time.Time) ([]offences.SeenPart, error)
	DistinctKeys(ctx context.Context, policy int64, from, to time.Time) (int64, error)
	FindOffences(ctx context.Context, id offences.RefusalID) ([]offences.Offence, error)
	// Kept returns the time from which minutes are kept, and a minute's rows of aggregated
	// offences, by policy.
	Kept(ctx context.Context, minute time.Time) (from time.Time, aggregated []offences.Offence, err error)
	// TrafficSamples calls do with every chunk of a span.
	TrafficSamples(ctx context.Context, from, to time.Time, do func(*offences.SampleChunk) error) error

	EscalationStates(ctx context.Context, keys []string) ([]offences.State, error)
	// EscalationCounts returns the counts of keys by minute, from a minute on.
	EscalationCounts(ctx context.Context, keys []string, from int64) ([]offences.EscalationCount, error)
	// EscalationEvents returns a page, the newest first. next is the cursor of the next page,
	// "" on the last.
	EscalationEvents(ctx context.Context, f offences.EscalationFilter) (page []offences.EscalationEvent, next string, err error)
	EscalationPauses(ctx context.Context) ([]offences.EscalationPause, error)
	// ResumeEscalation resumes a paused escalation. The error is NotFound if it is not paused.
	ResumeEscalation(ctx context.Context, by audit.Actor, policy int64) error
}

// AttackStore stores the attacks that were announced.
type AttackStore interface {
	// AcquireLease gives the lease of name to holder until an instant, or renews it. It reports
	// false while another holder has it.
	AcquireLease(ctx context.Context, name, holder string, now, until time.Time) (bool, error)
	// OpenAttack returns the attack that goes on, nil if there is none.
	OpenAttack(ctx context.Context) (*offences.AttackCourse, error)
	// SaveAttack stores how an attack goes on. before is the course that it follows from, nil for
	// a new attack, whose ID it sets. Unless news is NoNews, it adds an audit record with
	// summary. It reports false, and stores nothing, if the stored course is another one: then
	// another node was faster.
	SaveAttack(ctx context.Context, before, course *offences.AttackCourse, news offences.News, summary string) (saved bool, err error)
	// FindAttacks returns a page, the newest first. cursor is that of the previous page, "" for
	// the first. next is the cursor of the next page, "" on the last.
	FindAttacks(ctx context.Context, cursor string, limit int) (page []*offences.AttackCourse, next string, err error)
}

// ProposalStore stores proposals.
type ProposalStore interface {
	// CrowdedRanges returns the IPv4 /24s in which MinMembers addresses, and the IPv6 /48s in
	// which MinMembers /64s, had MinOffences offences each in the minutes of a span.
	CrowdedRanges(ctx context.Context, from, to time.Time, s offences.ProposalSettings) ([]netip.Prefix, error)
	// OffendingNetworks returns the IPv4 /24s and IPv6 /48s that offended as derived keys of
	// policies in the minutes of a span.
	OffendingNetworks(ctx context.Context, from, to time.Time) ([]netip.Prefix, error)
	// PutProposal adds an open proposal, or refreshes the evidence of the open proposal for its
	// pattern. It does nothing and returns nil if one was dismissed after quietSince.
	PutProposal(ctx context.Context, p offences.Proposal, quietSince time.Time) (*offences.RefreshedProposal, error)
	// FindProposals returns a page of the proposals in a state, the newest first. cursor is that
	// of the previous page, "" for the first. next is the cursor of the next page, "" on the last.
	FindProposals(ctx context.Context, state offences.ProposalState, cursor string, limit int) (page []*offences.Proposal, next string, err error)
	// ProposalCursor returns the cursor of the page that begins after a proposal.
	ProposalCursor(id string) string
	FindProposalByID(ctx context.Context, id string) (*offences.Proposal, error)
	// AcceptProposal closes an open proposal and adds the block of its range, or extends the
	// active block. It does both or neither. The error is a Conflict if the proposal is already
	// closed. The block's reason becomes the reason of the decision.
	AcceptProposal(ctx context.Context, by audit.Actor, id string, block blocks.Entry) (*offences.Proposal, blocks.Outcome, error)
	// DecideProposal closes an open proposal. The error is a Conflict if it is already closed.
	DecideProposal(ctx context.Context, by audit.Actor, id string, d offences.Decision, reason, blockID string) (*offences.Proposal, error)
}
