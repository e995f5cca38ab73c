package admin

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/proxies"
	"github.com/stint-dev/stint/internal/wire"
)

// dismissedFor is how long a range is not proposed again after it was dismissed.
const dismissedFor = 24 * time.Hour

// Proposals is the use case of proposals to block ranges in which many keys offended. It is
// safe for concurrent use.
type Proposals struct {
	Store    ProposalStore
	Offences DetectionStore
	Entries  *Entries // adds the blocks of accepted proposals
	View     DetectionView
	Settings func() offences.ProposalSettings // nil means DefaultProposalSettings
	Now      func() time.Time                 // nil means time.Now
	// OnRequest is called with each new proposal that a source asked for, nil for none.
	OnRequest func(ctx context.Context, p offences.Proposal)
}

func (p *Proposals) now() time.Time {
	if p.Now == nil {
		return time.Now()
	}
	return p.Now()
}

func (p *Proposals) exemptWithin(ctx context.Context, within keys.Pattern) ([]string, error) {
	page, err := p.Entries.Find(ctx, blocks.Filter{Kind: blocks.Exemption, Within: within, Limit: offences.MaxEvidenceKeys, At: p.now()})
	if err != nil {
		return nil, err
	}
	var exempt []string
	for _, e := range page.Items {
		exempt = append(exempt, e.Pattern.String())
	}
	return exempt, nil
}

// closeCovered closes the open proposals whose whole range is now blocked. After the block has
// ended, the range can be proposed again, and people are notified.
func (p *Proposals) closeCovered(ctx context.Context, now time.Time) error {
	open, _, err := p.Store.FindProposals(ctx, offences.OpenProposals, "", maxRead)
	if err != nil {
		return err
	}
	for _, o := range open {
		covering := p.covering(blocks.Block, o.Pattern, now)
		if covering == nil {
			continue
		}
		reason := "the block of " + covering.Pattern.String() + " covers the range"
		_, err = p.Store.DecideProposal(ctx, audit.SystemActor("propose-ranges"), o.ID, offences.Covered, reason, covering.ID)
		if err != nil && !fault.Is(err, fault.Conflict) { // another caller decided it in between
			return err
		}
	}
	return nil
}

// Propose closes the proposals whose range is now blocked, looks for crowded ranges and
// proposes to block them. It returns the new proposals. Several nodes may run it at the same
// time.
func (p *Proposals) Propose(ctx context.Context) ([]offences.Proposal, error) {
	w := offences.DefaultProposalSettings
	if p.Settings != nil {
		w = p.Settings().WithDefaults()
	}
	now := p.now().UTC()
	if err := p.closeCovered(ctx, now); err != nil {
		return nil, err
	}
	from := now.Add(-w.Window)
	crowded, err := p.Store.CrowdedRanges(ctx, from, now, w)
	if err != nil {
		return nil, err
	}
	derived, err := p.Store.OffendingNetworks(ctx, from, now)
	if err != nil {
		return nil, err
	}
	var fresh []offences.Proposal
	for i, network := range slices.Concat(crowded, derived) {
		pattern := keys.NetworkPattern(network)
		isDerived := i >= len(crowded)
		if proxies.CDN(network.Addr()) != "" || p.isSettled(pattern, now) || isDerived && slices.Contains(crowded, network) {
			continue
		}
		evidence, activity, err := p.evidence(ctx, pattern, network, from, now, w)
		if err != nil {
			return fresh, err
		}
		if activity.HasOffended = isDerived; !isDerived { // the store counts /64s, each of which may be several keys
			activity.Frequent = max(activity.Frequent, int64(w.MinMembers))
		}
		if !w.Propose(activity) {
			continue
		}
		put, err := p.Store.PutProposal(ctx, offences.Proposal{Pattern: pattern, Created: now, Updated: now, Evidence: *evidence}, now.Add(-dismissedFor))
		if err != nil {
			return fresh, err
		}
		if put != nil && put.New {
			fresh = append(fresh, put.Proposal)
		}
	}
	return fresh, nil
}

// Request keeps the request of a source to block a range, which needs a confirmation, as a
// proposal. It returns nil if the range was dismissed lately.
func (p *Proposals) Request(ctx context.Context, block blocks.Entry, confirmReason string) (*offences.Proposal, error) {
	network, is := block.Pattern.Network()
	if !is {
		return nil, nil
	}
	s := offences.DefaultProposalSettings
	if p.Settings != nil {
		s = p.Settings().WithDefaults()
	}
	now := p.now().UTC()
	evidence, _, err := p.evidence(ctx, block.Pattern, network, now.Add(-s.Window), now, s)
	if err != nil {
		return nil, err
	}
	evidence.IsRequested = true
	evidence.Requests = []offences.BlockRequest{{Source: block.HolderOf().Name, Author: block.Author, Reason: block.Reason, ConfirmReason: confirmReason, Expires: block.Expires.UTC()}}
	put, err := p.Store.PutProposal(ctx, offences.Proposal{Pattern: block.Pattern, Created: now, Updated: now, Evidence: *evidence}, now.Add(-dismissedFor))
	if err != nil || put == nil {
		return nil, err
	}
	if put.New && p.OnRequest != nil {
		p.OnRequest(ctx, put.Proposal)
	}
	return &put.Proposal, nil
}

// isSettled reports whether a block of a range would change nothing, because the whole range is
// blocked or exempt.
func (p *Proposals) isSettled(pattern keys.Pattern, now time.Time) bool {
	return p.covering(blocks.Block, pattern, now) != nil || p.covering(blocks.Exemption, pattern, now) != nil
}

// covering returns an active entry of a kind that covers a whole range, nil for none.
func (p *Proposals) covering(kind blocks.Kind, pattern keys.Pattern, now time.Time) *blocks.Entry {
	network, is := pattern.Network()
	if !is {
		return nil
	}
	k := (keys.Parser{IPv6Bits: 128}).AddressKey(network.Addr())
	for _, e := range p.View.Blocks().Selecting(kind, k, now) {
		if e.Pattern.Covers(pattern) {
			return e
		}
	}
	return nil
}

// evidence returns the evidence of a proposal to block a range, and the activity of the range's
// members by which the settings decide, without HasOffended.
func (p *Proposals) evidence(ctx context.Context, pattern keys.Pattern, network netip.Prefix, from, now time.Time, s offences.ProposalSettings) (*offences.Evidence, offences.RangeActivity, error) {
	activity := offences.RangeActivity{}
	ranking, err := p.Offences.Rank(ctx, offences.Query{From: from, To: now, Pattern: pattern, Limit: offences.MaxEvidenceKeys})
	if err != nil {
		return nil, activity, err
	}
	e := &offences.Evidence{From: ranking.From, To: ranking.To, OffendedCount: ranking.Keys, Offences: ranking.Offences, Size: offences.RangeSize(network)}
	e.MinOffences = int64(s.MinOffences)
	for _, r := range ranking.Rows {
		e.Offended = append(e.Offended, offences.SeenKey{Key: r.Key, Refused: r.Offences})
		if r.Offences >= e.MinOffences {
			activity.Frequent++
		}
	}
	lately, err := p.Offences.Seen(ctx, pattern, from, now, offences.MaxEvidenceKeys)
	if err != nil {
		return nil, activity, err
	}
	e.Refused, e.Checked = lately.Refused, lately.Allowed+lately.Refused
	for i, k := range e.Offended {
		if at := slices.IndexFunc(lately.Samples, func(s offences.SeenKey) bool { return s.Key == k.Key }); at >= 0 {
			e.Offended[i].Allowed = lately.Samples[at].Allowed
		}
	}
	activity.RefusedChecks, activity.Checks = e.Refused, e.Checked
	activity.Refused = max(ranking.Keys, lately.Offenders)
	switch isWhole := ranking.Keys <= int64(len(ranking.Rows)); {
	case isWhole && activity.Frequent >= int64(s.MinMembers):
		e.OffendedCount = activity.Frequent
	case isWhole: // the range itself offended as a derived key: its members are the keys with refused checks
		e.OffendedCount, e.MinOffences = activity.Refused, 1
	}
	seen, err := p.Offences.Seen(ctx, pattern, now.Add(-24*time.Hour), now, offences.MaxEvidenceKeys)
	if err != nil {
		return nil, activity, err
	}
	e.SeenCount = seen.Keys - seen.Offenders
	for _, k := range seen.Samples {
		if k.Refused == 0 {
			e.Seen = append(e.Seen, k)
			e.Allowed += k.Allowed
		}
	}
	e.Exempt, err = p.exemptWithin(ctx, pattern)
	return e, activity, err
}

const (
	defaultFound = 100
	maxRead      = 1000 // the maximum that the store returns at once
)

// Find returns a page of the proposals in a state, the newest first. cursor is that of the
// previous page, "" for the first. A limit of 0 means 100. next is the cursor of the next page,
// "" on the last. A proposal whose whole range is now blocked or exempt is not listed as open,
// although only the next Propose closes it if it is blocked, and nothing does if it is exempt.
func (p *Proposals) Find(ctx context.Context, state offences.ProposalState, cursor string, limit int) (found []*offences.Proposal, next string, err error) {
	if limit == 0 {
		limit = defaultFound
	}
	if state != offences.OpenProposals {
		return p.Store.FindProposals(ctx, state, cursor, limit)
	}
	read, now := limit, p.now()
	if limit > 0 { // the store refuses other limits
		read = max(limit, defaultFound) // many of the rows read may be covered
	}
	for next = cursor; ; {
		var page []*offences.Proposal
		page, next, err = p.Store.FindProposals(ctx, state, next, read)
		if err != nil {
			return nil, "", err
		}
		page = slices.DeleteFunc(page, func(o *offences.Proposal) bool { return o.Evidence.HasLapsed(now) || p.isSettled(o.Pattern, now) })
		found = append(found, page...)
		if len(found) > limit {
			found = found[:limit]
			return found, p.Store.ProposalCursor(found[limit-1].ID), nil
		}
		if next == "" || len(found) == limit {
			return found, next, nil
		}
	}
}

// maxOpenProposals bounds the count that people see.
const maxOpenProposals = 20

// CountOpen returns the number of open proposals, at most maxOpenProposals.
func (p *Proposals) CountOpen(ctx context.Context) (int, error) {
	open, _, err := p.Find(ctx, offences.OpenProposals, "", maxOpenProposals)
	return len(open), err
}

// ByID returns a proposal.
func (p *Proposals) ByID(ctx context.Context, id string) (*offences.Proposal, error) {
	return p.Store.FindProposalByID(ctx, id)
}

// AcceptedProposal is a proposal whose range is blocked, and the result of blocking it. An
// existing block of the range was extended or, if it lasts as long, left unchanged.
type AcceptedProposal struct {
	*offences.Proposal
	Outcome blocks.Outcome
}

// Accept blocks the range of an open proposal. An active block of the range is extended. It
// needs the same confirmation as blocking the range by hand.
func (p *Proposals) Accept(ctx context.Context, c Caller, a wire.AcceptProposalRequest) (*AcceptedProposal, error) {
	found, err := p.Store.FindProposalByID(ctx, a.ID)
	if err != nil {
		return nil, err
	}
	if found.Decision != offences.Open {
		_, err := p.Store.DecideProposal(ctx, c.Actor, a.ID, offences.Accepted, a.Reason, "") // returns the error that it is closed
		return nil, err
	}
	reason := a.Reason
	if reason == "" {
		reason = found.Evidence.String()
	}
	block, err := p.Entries.entriesOf(ctx, c, AddEntries{
		Kind:     blocks.Block,
		AddEntry: wire.AddEntry{Pattern: found.Pattern.String(), Reason: reason, ExpiresIn: a.ExpiresIn, ExpiresAt: a.ExpiresAt, Confirm: a.Confirm},
	})
	if err != nil {
		return nil, err
	}
	accepted, outcome, err := p.Store.AcceptProposal(ctx, c.Actor, a.ID, block[0])
	if err != nil {
		return nil, err
	}
	return &AcceptedProposal{accepted, outcome}, nil
}

// Dismiss closes an open proposal. Its range is not proposed again for a day.
func (p *Proposals) Dismiss(ctx context.Context, c Caller, id, reason string) (*offences.Proposal, error) {
	if err := fault.CheckLine("reason", reason, blocks.MaxReason); err != nil {
		return nil, err
	}
	return p.Store.DecideProposal(ctx, c.Actor, id, offences.Dismissed, reason, "")
}
