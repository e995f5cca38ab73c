package offences

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/sqlstore/entries"
)

const (
	crowdedIPv4 = `
SELECT network FROM (SELECT substr(place, 1, 15) AS network, place FROM offences
WHERE span = 1 AND start >= $1 AND start < $2 AND kind < 2 AND place >= $3 AND place <= $4
GROUP BY place HAVING sum(offences) >= $6) AS members GROUP BY network HAVING count(*) >= $5 ORDER BY network`
	crowdedIPv6 = `
SELECT network FROM (SELECT substr(substr(place, 1, 8), 1, 6) AS network, substr(place, 1, 8) AS member FROM offences
WHERE span = 1 AND start >= $1 AND start < $2 AND kind < 2 AND NOT (place >= $3 AND place <= $4)
GROUP BY substr(place, 1, 8) HAVING sum(offences) >= $6) AS members GROUP BY network HAVING count(*) >= $5 ORDER BY network`
	derivedNetworks = `
SELECT DISTINCT key FROM offences WHERE span = 1 AND start >= $1 AND start < $2 AND kind < 2 AND key >= 'net:' AND key < 'net;' ORDER BY key`

	proposalColumns = `id, pattern, created_at, updated_at, evidence, decision, decided_at, decided_by, reason, block_id`
	dismissedLately = `SELECT count(*) FROM proposals WHERE pattern = $1 AND decision = 'dismissed' AND decided_at > $2`
	addProposal     = `INSERT INTO proposals (id, pattern, created_at, updated_at, evidence) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (pattern, place) DO UPDATE SET updated_at = excluded.updated_at, evidence = excluded.evidence RETURNING id, created_at`
	findProposal   = `SELECT ` + proposalColumns + ` FROM proposals WHERE id = $1`
	findProposals  = `SELECT ` + proposalColumns + ` FROM proposals WHERE `
	decideProposal = `UPDATE proposals SET decision = $2, decided_at = $3, decided_by = $4, reason = $5, block_id = $6, place = id WHERE id = $1`
)

// Proposals implements admin.ProposalStore.
type Proposals struct{ db *db.DB }

// NewProposals returns the store of the range proposals in a database.
func NewProposals(d *db.DB) *Proposals { return &Proposals{d} }

// CrowdedRanges implements admin.ProposalStore.
func (s *Proposals) CrowdedRanges(ctx context.Context, from, to time.Time, settings offences.ProposalSettings) (all []netip.Prefix, err error) {
	minute := spanMS(minuteSpan)
	low := from.UnixMilli() - from.UnixMilli()%minute
	err = s.db.View(ctx, func(t *db.Tx) error {
		all = nil
		for _, kind := range []struct {
			query string
			bits  int
		}{{crowdedIPv4, 120}, {crowdedIPv6, 48}} {
			found, err := db.Each(t, func(r db.Row) (netip.Prefix, error) {
				var head []byte
				if err := r.Scan(&head); err != nil {
					return netip.Prefix{}, err
				}
				return networkOf(head, kind.bits), nil
			}, kind.query, low, to.UnixMilli(), db.MappedLow, db.MappedHigh, settings.MinMembers, settings.MinOffences)
			if err != nil {
				return err
			}
			all = append(all, found...)
		}
		return nil
	})
	return all, err
}

// OffendingNetworks implements admin.ProposalStore.
func (s *Proposals) OffendingNetworks(ctx context.Context, from, to time.Time) (all []netip.Prefix, err error) {
	low := from.UnixMilli() - from.UnixMilli()%spanMS(minuteSpan)
	err = s.db.View(ctx, func(t *db.Tx) error {
		all = nil
		found, err := db.Each(t, db.ScanText, derivedNetworks, low, to.UnixMilli())
		for _, key := range found {
			network, is := offences.CountedNetwork(key)
			if is && (network.Addr().Is4() && network.Bits() == 24 || network.Addr().Is6() && network.Bits() == 48) {
				all = append(all, network)
			}
		}
		return err
	})
	return all, err
}

// networkOf returns the network of the given number of the 128 bits whose first bytes are head.
// A mapped network is IPv4.
func networkOf(head []byte, bits int) netip.Prefix {
	var full [16]byte
	copy(full[:], head)
	addr := netip.AddrFrom16(full)
	if addr.Is4In6() {
		return netip.PrefixFrom(addr.Unmap(), bits-96)
	}
	return netip.PrefixFrom(addr, bits)
}

func scanProposal(r db.Row) (*offences.Proposal, error) {
	p := &offences.Proposal{}
	var pattern, evidence string
	if err := r.Scan(&p.ID, &pattern, db.MS(&p.Created), db.MS(&p.Updated), &evidence, &p.Decision, db.MS(&p.Decided), &p.DecidedBy, &p.Reason, &p.BlockID); err != nil {
		return nil, err
	}
	var err error
	if p.Pattern, err = (keys.Parser{}).Pattern(pattern); err != nil {
		return nil, fmt.Errorf("proposal %s: %w", p.ID, err)
	}
	if err := json.Unmarshal([]byte(evidence), &p.Evidence); err != nil {
		return nil, fmt.Errorf("proposal %s: %w", p.ID, err)
	}
	return p, nil
}

// PutProposal implements admin.ProposalStore.
func (s *Proposals) PutProposal(ctx context.Context, p offences.Proposal, quietSince time.Time) (put *offences.RefreshedProposal, err error) {
	if p.ID, err = db.NewID(); err != nil {
		return nil, err
	}
	err = s.db.Write(ctx, func(t *db.Tx) error {
		put = nil
		var dismissed int
		if _, err := t.One(dismissedLately, []any{p.Pattern.String(), db.ToMS(quietSince)}, &dismissed); err != nil || dismissed > 0 {
			return err
		}
		if err := in(t).mergeOpen(&p); err != nil {
			return err
		}
		evidence, err := json.Marshal(p.Evidence)
		if err != nil {
			return err
		}
		refreshed := offences.RefreshedProposal{Proposal: p}
		var id string
		var created int64
		if _, err := t.One(addProposal, []any{p.ID, p.Pattern.String(), db.ToMS(p.Created), db.ToMS(p.Updated), string(evidence)}, &id, &created); err != nil {
			return err
		}
		refreshed.New = id == p.ID
		refreshed.Proposal.ID, refreshed.Proposal.Created = id, db.FromMS(created)
		put = &refreshed
		return nil
	})
	return put, err
}

// mergeOpen adds to the evidence of a proposal the requests of the open proposal of its pattern.
func (t tx) mergeOpen(p *offences.Proposal) error {
	open, err := db.Each(t.Tx, scanProposal, findProposals+`pattern = $1 AND place = ''`, p.Pattern.String())
	if err != nil || len(open) == 0 {
		return err
	}
	before := open[0].Evidence
	p.Evidence.IsRequested = p.Evidence.IsRequested && before.IsRequested
	for _, r := range before.Requests {
		again := slices.ContainsFunc(p.Evidence.Requests, func(other offences.BlockRequest) bool { return other.Source == r.Source })
		if !again && (r.Expires.IsZero() || t.Now.Before(r.Expires)) {
			p.Evidence.Requests = append(p.Evidence.Requests, r)
		}
	}
	return nil
}

// FindProposals implements admin.ProposalStore.
func (s *Proposals) FindProposals(ctx context.Context, state offences.ProposalState, cursor string, limit int) (page []*offences.Proposal, next string, err error) {
	if limit, err = paging.Limit(limit); err != nil {
		return nil, "", err
	}
	q := &db.Selection{}
	if err := q.AfterID(cursor); err != nil {
		return nil, "", err
	}
	switch state {
	case offences.OpenProposals:
		q.And("place = ''")
	case offences.DecidedProposals:
		q.And("place <> ''")
	}
	err = s.db.View(ctx, func(t *db.Tx) error {
		all, err := db.Each(t, scanProposal, findProposals+q.String()+orderedByNewID+strconv.Itoa(limit+1), q.Args...)
		page, next = db.CutPage(all, limit, func(p *offences.Proposal) string { return s.ProposalCursor(p.ID) })
		return err
	})
	return page, next, err
}

// ProposalCursor implements admin.ProposalStore.
func (*Proposals) ProposalCursor(id string) string { return paging.Cursor(id) }

// FindProposalByID implements admin.ProposalStore.
func (s *Proposals) FindProposalByID(ctx context.Context, id string) (*offences.Proposal, error) {
	return db.Read(ctx, s.db, func(t *db.Tx) (*offences.Proposal, error) { return in(t).findProposal(id) })
}

func (t tx) findProposal(id string) (*offences.Proposal, error) {
	none := fault.New(fault.NotFound, "There is no proposal with the id %q.", id)
	if db.CheckText("id", id) != nil {
		return nil, none
	}
	return db.Find(t.Tx, none, scanProposal, findProposal, id)
}

// AcceptProposal implements admin.ProposalStore.
func (s *Proposals) AcceptProposal(ctx context.Context, by audit.Actor, id string, block blocks.Entry) (p *offences.Proposal, outcome blocks.Outcome, err error) {
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		if p, err = openProposal(in(t), id); err != nil {
			return err
		}
		added, err := entries.In(t).Add(block, blocks.Extend)
		if err != nil {
			return err
		}
		outcome = added.Effect()
		return in(t).decide(p, offences.Accepted, block.Reason, added.Entry.ID)
	})
	if err != nil {
		return nil, "", err
	}
	return p, outcome, nil
}

// DecideProposal implements admin.ProposalStore.
func (s *Proposals) DecideProposal(ctx context.Context, by audit.Actor, id string, d offences.Decision, reason, blockID string) (p *offences.Proposal, err error) {
	if err := db.CheckText("reason", reason); err != nil {
		return nil, err
	}
	err = s.db.Change(ctx, by, func(t *db.Tx) error {
		if p, err = openProposal(in(t), id); err != nil {
			return err
		}
		return in(t).decide(p, d, reason, blockID)
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// openProposal reads an open proposal. The error is a Conflict if it is already closed.
func openProposal(t tx, id string) (*offences.Proposal, error) {
	p, err := t.findProposal(id)
	if err == nil && p.Decision != offences.Open {
		err = fault.New(fault.Conflict, "The proposal was %s at %s by %q.", p.Decision, p.Decided.Format(time.RFC3339), p.DecidedBy)
	}
	return p, err
}

// decide closes an open proposal.
func (t tx) decide(p *offences.Proposal, d offences.Decision, reason, blockID string) error {
	before := proposalView(p)
	p.Decision, p.Decided, p.DecidedBy, p.Reason, p.BlockID = d, t.Now, t.By.Name, reason, blockID
	if _, err := t.Exec(decideProposal, p.ID, string(d), db.ToMS(t.Now), t.By.Name, reason, blockID); err != nil {
		return err
	}
	action := map[offences.Decision]string{offences.Accepted: "accept", offences.Dismissed: "dismiss", offences.Covered: "cover"}[d]
	return t.Record("proposal."+action, "proposal", p.ID, fmt.Sprintf("The proposal to block %q was %s.", p.Pattern, d), before, proposalView(p))
}

// proposalView returns a proposal in the form of the audit log.
func proposalView(p *offences.Proposal) any {
	return struct {
		ID       string    `json:"id"`
		Pattern  string    `json:"pattern"`
		Created  time.Time `json:"created_at"`
		Decision string    `json:"decision,omitzero"`
		Decided  time.Time `json:"decided_at,omitzero"`
		By       string    `json:"decided_by,omitzero"`
		Reason   string    `json:"reason,omitzero"`
		BlockID  string    `json:"block_id,omitzero"`
	}{p.ID, p.Pattern.String(), p.Created, string(p.Decision), p.Decided, p.DecidedBy, p.Reason, p.BlockID}
}
