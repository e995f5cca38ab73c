package offenders

import (
	"context"
	"net/netip"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
)

// dismissedFor is how long a range is left alone after it was dismissed.
const dismissedFor = 24 * time.Hour

// Blast says whom a pattern would hit, by the traffic of a span. Numbers of
// keys are of those with a row of their own; Untracked allowed checks belong
// to others, so KeyShare and AllowedShare are estimates from below that may be
// short by at most UntrackedShare.
type Blast struct {
	offences.Seen
	AllowedShare   float64 // of all allowed checks, 0 to 1
	RefusedShare   float64 // of all offences
	UntrackedShare float64 // of all allowed checks
	// AllKeys is the estimated number of distinct keys of the span, with a
	// standard error of DistinctError.
	AllKeys int64
	Exempt  []string // patterns of exemptions within or around it
	Exact   bool     // nothing of this is an estimate but AllKeys
}

// BlastRadius returns whom a pattern would hit.
func (s *Service) BlastRadius(ctx context.Context, p keys.Pattern, from, to time.Time) (*Blast, error) {
	seen, err := s.Store.Seen(ctx, p, from, to, offences.MaxEvidenceKeys)
	if err != nil {
		return nil, err
	}
	b := &Blast{Seen: seen, Exact: seen.Untracked == 0}
	b.AllowedShare = share(seen.Allowed, seen.AllAllowed)
	b.RefusedShare = share(seen.Refused, seen.AllRefused)
	b.UntrackedShare = share(seen.Untracked, seen.AllAllowed)
	if b.AllKeys, err = s.Store.DistinctKeys(ctx, 0, from, to); err != nil {
		return nil, err
	}
	b.Exempt, err = s.exemptWithin(ctx, p)
	return b, err
}

func share(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

func (s *Service) exemptWithin(ctx context.Context, p keys.Pattern) ([]string, error) {
	page, err := s.Entries.Find(ctx, blocks.Filter{Kind: blocks.Exemption, Within: p, Limit: offences.MaxEvidenceKeys, At: s.now()})
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
func (s *Service) Propose(ctx context.Context) ([]offences.Proposal, error) {
	w := offences.DefaultProposalSettings
	if s.ProposalSettings != nil {
		w = s.ProposalSettings().WithDefaults()
	}
	now := s.now().UTC()
	from := now.Add(-w.Window)
	ranges, err := s.Proposals.CrowdedRanges(ctx, from, now, w.MinAddresses, w.MinNetworks)
	if err != nil {
		return nil, err
	}
	var fresh []offences.Proposal
	for _, network := range ranges {
		p := keys.NetworkPattern(network)
		if s.blockedWhole(p, network, now) {
			continue
		}
		evidence, err := s.evidence(ctx, p, network, from, now)
		if err != nil {
			return fresh, err
		}
		put, err := s.Proposals.PutProposal(ctx, offences.Proposal{Pattern: p, Created: now, Updated: now, Evidence: *evidence}, now.Add(-dismissedFor))
		if err != nil {
			return fresh, err
		}
		if put != nil && put.New {
			fresh = append(fresh, put.Proposal)
		}
	}
	return fresh, nil
}

// blockedWhole reports whether a block stands that covers the whole range.
func (s *Service) blockedWhole(p keys.Pattern, network netip.Prefix, now time.Time) bool {
	k := (keys.Parser{IPv6Bits: 128}).AddressKey(network.Addr())
	for _, b := range s.View.Blocks().Selecting(blocks.Block, k, now) {
		if b.Pattern.Covers(p) {
			return true
		}
	}
	return false
}

func (s *Service) evidence(ctx context.Context, p keys.Pattern, network netip.Prefix, from, now time.Time) (*offences.Evidence, error) {
	ranking, err := s.Store.Rank(ctx, offences.Query{From: from, To: now, Pattern: p, Limit: offences.MaxEvidenceKeys})
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
	seen, err := s.Store.Seen(ctx, p, now.Add(-24*time.Hour), now, offences.MaxEvidenceKeys)
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
	e.Exempt, err = s.exemptWithin(ctx, p)
	return e, err
}

// AcceptProposal blocks the range of an open proposal until an instant, zero
// for good. A block that stands there is extended.
func (s *Service) AcceptProposal(ctx context.Context, by audit.Actor, id string, expires time.Time, reason string) (*offences.Proposal, error) {
	p, err := s.Proposals.FindProposalByID(ctx, id)
	if err != nil {
		return nil, err
	}
	if p.Decision != offences.Open {
		return s.Proposals.DecideProposal(ctx, by, id, offences.Accepted, reason, "") // says that it is closed
	}
	if reason == "" {
		reason = p.Evidence.String()
	}
	added, err := s.Entries.Add(ctx, by, blocks.Extend, blocks.Entry{Kind: blocks.Block, Pattern: p.Pattern, Reason: reason, Author: by.Name, Source: blocks.Manual, Expires: expires})
	if err != nil {
		return nil, err
	}
	return s.Proposals.DecideProposal(ctx, by, id, offences.Accepted, reason, added[0].Entry.ID)
}

// DismissProposal closes an open proposal. Its range is left alone for a day.
func (s *Service) DismissProposal(ctx context.Context, by audit.Actor, id, reason string) (*offences.Proposal, error) {
	return s.Proposals.DecideProposal(ctx, by, id, offences.Dismissed, reason, "")
}
