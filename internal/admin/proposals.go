package admin

import (
	"context"
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
)

// dismissedFor is how long a range is not proposed again after it was dismissed.
const dismissedFor = 24 * time.Hour

func (d *Detection) exemptWithin(ctx context.Context, p keys.Pattern) ([]string, error) {
	page, err := d.Entries.Find(ctx, blocks.Filter{Kind: blocks.Exemption, Within: p, Limit: offences.MaxEvidenceKeys, At: d.now()})
	if err != nil {
		return nil, err
	}
	var exempt []string
	for _, e := range page.Items {
		exempt = append(exempt, e.Pattern.String())
	}
	return exempt, nil
}

// Propose looks for crowded ranges and proposes to block them. It returns the
// proposals that are new. It may run on several nodes at once.
func (d *Detection) Propose(ctx context.Context) ([]offences.Proposal, error) {
	w := offences.DefaultProposalSettings
	if d.ProposalSettings != nil {
		w = d.ProposalSettings().WithDefaults()
	}
	now := d.now().UTC()
	from := now.Add(-w.Window)
	ranges, err := d.Proposals.CrowdedRanges(ctx, from, now, w.MinAddresses, w.MinNetworks)
	if err != nil {
		return nil, err
	}
	var fresh []offences.Proposal
	for _, network := range ranges {
		p := keys.NetworkPattern(network)
		if d.blockedWhole(p, network, now) {
			continue
		}
		evidence, err := d.evidence(ctx, p, network, from, now)
		if err != nil {
			return fresh, err
		}
		put, err := d.Proposals.PutProposal(ctx, offences.Proposal{Pattern: p, Created: now, Updated: now, Evidence: *evidence}, now.Add(-dismissedFor))
		if err != nil {
			return fresh, err
		}
		if put != nil && put.New {
			fresh = append(fresh, put.Proposal)
		}
	}
	return fresh, nil
}

// blockedWhole reports whether an active block covers the whole range.
func (d *Detection) blockedWhole(p keys.Pattern, network netip.Prefix, now time.Time) bool {
	k := (keys.Parser{IPv6Bits: 128}).AddressKey(network.Addr())
	for _, b := range d.View.Blocks().Selecting(blocks.Block, k, now) {
		if b.Pattern.Covers(p) {
			return true
		}
	}
	return false
}

func (d *Detection) evidence(ctx context.Context, p keys.Pattern, network netip.Prefix, from, now time.Time) (*offences.Evidence, error) {
	ranking, err := d.Store.Rank(ctx, offences.Query{From: from, To: now, Pattern: p, Limit: offences.MaxEvidenceKeys})
	if err != nil {
		return nil, err
	}
	e := &offences.Evidence{From: ranking.From, To: ranking.To, OffendedCount: ranking.Keys, Offences: ranking.Offences, Size: offences.AddressesInRange}
	if network.Addr().Is6() {
		e.Size = offences.NetworksInRange
	}
	for _, r := range ranking.Rows {
		e.Offended = append(e.Offended, offences.SeenKey{Key: r.Key, Refused: r.Offences})
	}
	seen, err := d.Store.Seen(ctx, p, now.Add(-24*time.Hour), now, offences.MaxEvidenceKeys)
	if err != nil {
		return nil, err
	}
	e.SeenCount = seen.Keys - seen.Offenders
	for _, k := range seen.Samples {
		if k.Refused == 0 {
			e.Seen = append(e.Seen, k)
			e.Allowed += k.Allowed
		}
	}
	e.Exempt, err = d.exemptWithin(ctx, p)
	return e, err
}

// FindProposals returns the newest first: the open ones, or all.
func (d *Detection) FindProposals(ctx context.Context, openOnly bool, limit int) ([]*offences.Proposal, error) {
	return d.Proposals.FindProposals(ctx, openOnly, limit)
}

// AcceptProposal asks to block the range of a proposal.
type AcceptProposal struct {
	Reason string // "" means the evidence
	Expiry blocks.Expiry
}

// AcceptProposal blocks the range of an open proposal. An active block of the range
// is extended. Accepting confirms the range, so that it needs no other confirmation.
func (d *Detection) AcceptProposal(ctx context.Context, c Caller, id string, a AcceptProposal) (*offences.Proposal, error) {
	p, err := d.Proposals.FindProposalByID(ctx, id)
	if err != nil {
		return nil, err
	}
	if p.Decision != offences.Open {
		return d.Proposals.DecideProposal(ctx, c.Actor, id, offences.Accepted, a.Reason, "") // says that it is closed
	}
	reason := a.Reason
	if reason == "" {
		reason = p.Evidence.String()
	}
	pattern := p.Pattern.String()
	added, err := d.Entries.Add(ctx, c, AddEntries{
		Kind: blocks.Block, Patterns: []string{pattern}, Reason: reason, Expiry: a.Expiry, OnConflict: blocks.Extend, Confirm: pattern,
	})
	if err != nil {
		return nil, err
	}
	return d.Proposals.DecideProposal(ctx, c.Actor, id, offences.Accepted, reason, added[0].Entry.ID)
}

// DismissProposal closes an open proposal. Its range is not proposed again for a day.
func (d *Detection) DismissProposal(ctx context.Context, c Caller, id, reason string) (*offences.Proposal, error) {
	if err := fault.CheckLine("reason", reason, blocks.MaxReason); err != nil {
		return nil, err
	}
	return d.Proposals.DecideProposal(ctx, c.Actor, id, offences.Dismissed, reason, "")
}
