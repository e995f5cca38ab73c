package offences_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/storetest"
)

var ann = admin.Caller{Actor: storetest.Operator}

func TestProposeSuggestsRangesAndBlocksNone(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", nil)
		s := service(f, n.policy)
		for i := range 9 {
			n.limited(fmt.Sprintf("ip:203.0.113.%d", i), 2+i)
			n.limited(fmt.Sprintf("ip:2001:db8:7:%x::1", i), 2)
			n.limited(fmt.Sprintf("ip:192.0.2.%d", i), 1) // too few offences each
		}
		for i := range 7 { // too few addresses
			n.limited(fmt.Sprintf("ip:198.51.100.%d", i), 50)
		}
		n.allowed("ip:203.0.113.200", 4)
		n.allowed("ip:203.0.113.8", 3)
		f.Clock.Advance(2 * time.Minute)
		n.flush()
		added, err := f.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, blocks.Entry{Kind: blocks.Exemption, Pattern: keytest.Pattern(t, "ip:203.0.113.250")})
		if err != nil {
			t.Fatal(err)
		}
		s.View.Blocks().Apply(added[0].Entry, f.Clock.Now()) // as the catalog follows
		made, err := s.Proposals.Propose(t.Context())
		if err != nil || len(made) != 2 {
			t.Fatalf("Propose() = %+v, %v", made, err)
		}
		p, err := f.Proposals.FindProposalByID(t.Context(), made[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		e := p.Evidence
		if p.Pattern.String() != "ip:203.0.113.0/24" || e.OffendedCount != 9 || e.Offences != 54 || e.SeenCount != 1 || e.Allowed != 4 || e.MinOffences != 2 || e.Refused != 54 || e.Checked != 61 ||
			len(e.Exempt) != 1 || e.Exempt[0] != "ip:203.0.113.250" || e.Offended[0] != (offences.SeenKey{Key: "ip:203.0.113.8", Allowed: 3, Refused: 10}) || e.Size != 256 {
			t.Errorf("got %+v", p)
		}
		if made[1].Pattern.String() != "ip:2001:db8:7::/48" {
			t.Errorf("got %s", made[1].Pattern)
		}
		if again, err := s.Proposals.Propose(t.Context()); err != nil || len(again) != 0 {
			t.Errorf("the second Propose() = %+v, %v, want none", again, err)
		}
		if page, err := f.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block, State: "all"}); err != nil || page.Total != 0 {
			t.Errorf("Propose added %d blocks, %v", page.Total, err)
		}
		accepted, err := s.Proposals.Accept(t.Context(), ann, wire.AcceptProposalRequest{ID: made[0].ID, ExpiresIn: wire.Duration(24 * time.Hour)})
		if err != nil || accepted.Decision != offences.Accepted {
			t.Fatalf("%+v, %v", accepted, err)
		}
		if b, err := f.Entries.ByID(t.Context(), blocks.Block, accepted.BlockID); err != nil || b.Pattern.String() != "ip:203.0.113.0/24" || b.Author != "ann" {
			t.Errorf("%+v, %v", b, err)
		}
		if _, err := s.Proposals.Accept(t.Context(), ann, wire.AcceptProposalRequest{ID: made[0].ID}); !fault.Is(err, fault.Conflict) {
			t.Errorf("accepting a second time: got %v, want Conflict", err)
		}
		if _, err := s.Proposals.Dismiss(t.Context(), ann, made[1].ID, "a university"); err != nil {
			t.Fatal(err)
		}
		if again, err := s.Proposals.Propose(t.Context()); err != nil || len(again) != 1 || again[0].Pattern.String() != "ip:203.0.113.0/24" {
			t.Errorf("Propose() after one was dismissed and one accepted = %+v, %v", again, err)
		}
		impact, err := s.Proposals.Entries.Preview(t.Context(), ann, blocks.Block, "ip:203.0.113.0/24", false)
		if err != nil {
			t.Fatal(err)
		}
		if c := impact.Counted; c.Keys != 10 || c.Offenders != 9 || c.Allowed != 7 || c.AllAllowed != 7 || c.AllKeys != 35 || !c.IsExact {
			t.Errorf("got the impact %+v", c)
		}
	})
}

func TestProposeSuggestsCountedNetworksByTheirMembers(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", nil)
		s := service(f, n.policy)
		n.limited("net:203.0.113.0/24", 9)
		n.limited("net:198.51.100.0/24", 9)
		n.limited("net:192.0.2.0/24", 9)
		for i := range 4 {
			n.limited(fmt.Sprintf("ip:203.0.113.%d", i), 1)
			n.limited(fmt.Sprintf("ip:192.0.2.%d", i), 1)
			n.allowed(fmt.Sprintf("ip:192.0.2.%d", i), 10) // nearly all checks are allowed
		}
		n.limited("ip:198.51.100.7", 3)
		f.Clock.Advance(2 * time.Minute)
		n.flush()
		made, err := s.Proposals.Propose(t.Context())
		if err != nil || len(made) != 1 || made[0].Pattern.String() != "ip:203.0.113.0/24" || made[0].Evidence.OffendedCount != 4 {
			t.Fatalf("Propose() = %+v, %v", made, err)
		}
		if got, want := made[0].Evidence.String(), "each at least once; 100% of the checks of the range were refused, reports over a limit included"; !strings.HasSuffix(got, want) {
			t.Errorf("got the evidence %s, want it to end with %s", got, want)
		}
	})
}

func TestExemptRangesAreNotProposed(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", nil)
		s := service(f, n.policy)
		propose := func(want string) {
			t.Helper()
			f.Clock.Advance(2 * time.Minute)
			n.flush()
			if _, err := s.Proposals.Propose(t.Context()); err != nil {
				t.Fatal(err)
			}
			open, _, err := s.Proposals.Find(t.Context(), offences.OpenProposals, "", 0)
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, p := range open {
				found = append(found, p.Pattern.String())
			}
			if got := strings.Join(found, " "); got != want {
				t.Errorf("open proposals: %q, want %q", got, want)
			}
		}
		for i := range 9 {
			n.limited(fmt.Sprintf("ip:203.0.3.%d", i), 2)
		}
		propose("ip:203.0.3.0/24")
		exemption := &blocks.Entry{ID: "a", Kind: blocks.Exemption, Pattern: keytest.Pattern(t, "ip:203.0.0.0/16"), Created: blocks.MomentOf(f.Clock.Now()), Expires: f.Clock.Now().Add(4 * time.Minute)}
		s.View.Blocks().Apply(exemption, f.Clock.Now())
		for i := range 9 {
			n.limited(fmt.Sprintf("ip:203.0.4.%d", i), 2)
		}
		propose("")
		f.Clock.Advance(2 * time.Minute)
		propose("ip:203.0.4.0/24 ip:203.0.3.0/24")
	})
}

func TestProposalsCoveredByBlockAreClosed(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", nil)
		s := service(f, n.policy)
		put := func(pattern string) {
			t.Helper()
			now := f.Clock.Now()
			if _, err := f.Proposals.PutProposal(t.Context(), offences.Proposal{Pattern: keytest.Pattern(t, pattern), Created: now, Updated: now}, now); err != nil {
				t.Fatal(err)
			}
		}
		put("ip:198.51.100.0/24")
		for i := range 8 {
			f.Clock.Advance(time.Second)
			put(fmt.Sprintf("ip:203.0.%d.0/24", i))
		}
		block := &blocks.Entry{ID: "a", Kind: blocks.Block, Pattern: keytest.Pattern(t, "ip:203.0.0.0/16"), Created: blocks.MomentOf(f.Clock.Now()), Expires: f.Clock.Now().Add(time.Hour)}
		s.View.Blocks().Apply(block, f.Clock.Now())
		wantOpen := func(want int) {
			t.Helper()
			open, _, err := s.Proposals.Find(t.Context(), offences.OpenProposals, "", 2)
			if err != nil || len(open) != want || open[want-1].Pattern.String() != "ip:198.51.100.0/24" {
				t.Errorf("%d proposals are open, want %d: %+v, %v", len(open), want, open, err)
			}
		}
		wantOpen(1)
		for i := range 9 {
			n.limited(fmt.Sprintf("ip:203.0.3.%d", i), 2)
		}
		f.Clock.Advance(2 * time.Minute)
		n.flush()
		if fresh, err := s.Proposals.Propose(t.Context()); err != nil || len(fresh) != 0 {
			t.Errorf("Propose() = %+v, %v, want none in a blocked range", fresh, err)
		}
		wantOpen(1)
		all, _, err := s.Proposals.Find(t.Context(), offences.AllProposals, "", 0)
		if err != nil || len(all) != 9 {
			t.Fatalf("found %d proposals, want 9; %v", len(all), err)
		}
		decided, next, err := s.Proposals.Find(t.Context(), offences.DecidedProposals, "", 5)
		if err != nil || len(decided) != 5 || next == "" || decided[0].ID != all[0].ID {
			t.Fatalf("the first page of decided proposals has %d, want 5; %v", len(decided), err)
		}
		if rest, next, err := s.Proposals.Find(t.Context(), offences.DecidedProposals, next, 5); err != nil || len(rest) != 3 || next != "" || rest[2].ID != all[7].ID {
			t.Fatalf("the second page of decided proposals has %d, want 3; %v", len(rest), err)
		}
		for _, p := range all[:8] {
			if p.Decision != offences.Covered || p.BlockID != "a" || p.DecidedBy != "propose-ranges" {
				t.Errorf("%s is %+v", p.Pattern, p)
			}
		}
		// An attack after the end of the block is a new proposal, so that people are notified.
		f.Clock.Advance(time.Hour)
		for i := range 9 {
			n.limited(fmt.Sprintf("ip:203.0.3.%d", i), 2)
		}
		f.Clock.Advance(2 * time.Minute)
		n.flush()
		if fresh, err := s.Proposals.Propose(t.Context()); err != nil || len(fresh) != 1 || fresh[0].Pattern.String() != "ip:203.0.3.0/24" {
			t.Errorf("Propose() after the block = %+v, %v", fresh, err)
		}
		wantOpen(2)
		s.Proposals.Now = nil // the clock of the system
		wantOpen(2)
	})
}

// decidedConcurrently is a store in which another user decides a proposal after it was read.
type decidedConcurrently struct {
	admin.ProposalStore
	decide func(id string)
}

func (d *decidedConcurrently) FindProposalByID(ctx context.Context, id string) (*offences.Proposal, error) {
	p, err := d.ProposalStore.FindProposalByID(ctx, id)
	if err == nil {
		d.decide(id)
	}
	return p, err
}

func TestAcceptOfDecidedProposalAddsNoBlock(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		s := service(f)
		accept := func(id string, length time.Duration) (*admin.AcceptedProposal, error) {
			return s.Proposals.Accept(t.Context(), ann, wire.AcceptProposalRequest{ID: id, ExpiresIn: wire.Duration(length), Confirm: "ip:198.51.100.0/24"})
		}
		for name, c := range map[string]struct {
			decide func(id string) error
			blocks int // added by the first decision
		}{
			"dismissed": {func(id string) error {
				_, err := f.Proposals.DecideProposal(t.Context(), storetest.Operator, id, offences.Dismissed, "customers", "")
				return err
			}, 0},
			"accepted for a shorter time": {func(id string) error { _, err := accept(id, time.Hour); return err }, 1},
		} {
			now := f.Clock.Now()
			put, err := f.Proposals.PutProposal(t.Context(), offences.Proposal{Pattern: keytest.Pattern(t, "ip:198.51.100.0/24"), Created: now, Updated: now}, now)
			if err != nil || put == nil {
				t.Fatalf("%s: %+v, %v", name, put, err)
			}
			s.Proposals.Store = &decidedConcurrently{f.Proposals, func(id string) {
				s.Proposals.Store = f.Proposals
				if err := c.decide(id); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}}
			_, err = accept(put.Proposal.ID, 30*24*time.Hour)
			storetest.WantFault(t, err, fault.Conflict)
			page, err := f.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block, At: now})
			if err != nil || len(page.Items) != c.blocks {
				t.Fatalf("%s: the blocks are %+v, %v", name, page.Items, err)
			}
			for _, b := range page.Items {
				if !b.Expires.Equal(now.Add(time.Hour)) {
					t.Errorf("%s: the block lasts until %s, want an hour", name, b.Expires)
				}
				if _, err := f.Entries.End(t.Context(), storetest.Operator, blocks.Block, "", b.ID); err != nil {
					t.Fatal(err)
				}
			}
			f.Clock.Advance(time.Second)
		}
	})
}

// pageCounter counts how many pages of proposals are read.
type pageCounter struct {
	admin.ProposalStore
	pages int
}

func (c *pageCounter) FindProposals(ctx context.Context, state offences.ProposalState, cursor string, limit int) ([]*offences.Proposal, string, error) {
	c.pages++
	return c.ProposalStore.FindProposals(ctx, state, cursor, limit)
}

func TestFindOpenProposalsReadsFewPages(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		s := service(f)
		now := f.Clock.Now()
		put := func(pattern string) string {
			put, err := f.Proposals.PutProposal(t.Context(), offences.Proposal{Pattern: keytest.Pattern(t, pattern), Created: now, Updated: now}, now)
			if err != nil {
				t.Fatal(err)
			}
			return put.Proposal.ID
		}
		const covered = 300
		open := []string{put("ip:192.0.2.0/24")} // the oldest: after all covered ones
		for i := range covered {
			put(fmt.Sprintf("ip:10.%d.%d.0/24", i/256, i%256))
		}
		for i := range 19 {
			open = append(open, put(fmt.Sprintf("ip:172.16.%d.0/24", i)))
		}
		slices.Reverse(open)
		s.Proposals.View.Blocks().Apply(&blocks.Entry{ID: "b", Kind: blocks.Block, Pattern: keytest.Pattern(t, "ip:10.0.0.0/8")}, now)
		counter := &pageCounter{ProposalStore: f.Proposals}
		s.Proposals.Store = counter
		if n, err := s.Proposals.CountOpen(t.Context()); err != nil || n != 20 || counter.pages > 4 {
			t.Errorf("counted %d open proposals in %d pages, want 20 in at most 4; %v", n, counter.pages, err)
		}
		for _, limit := range []int{1, 7, 20, 100} {
			var got []string
			cursor := ""
			for {
				page, next, err := s.Proposals.Find(t.Context(), offences.OpenProposals, cursor, limit)
				if err != nil || len(page) > limit {
					t.Fatalf("a page with the limit %d has %d proposals, %v", limit, len(page), err)
				}
				for _, p := range page {
					got = append(got, p.ID)
				}
				if cursor = next; cursor == "" {
					break
				}
			}
			if !slices.Equal(got, open) {
				t.Errorf("pages of %d are %q, want %q", limit, got, open)
			}
		}
		if all, _, err := s.Proposals.Find(t.Context(), offences.AllProposals, "", 1000); err != nil || len(all) != covered+len(open) {
			t.Errorf("found %d proposals in total, want %d; %v", len(all), covered+len(open), err)
		}
		for _, limit := range []int{-1, 1001} {
			if _, _, err := s.Proposals.Find(t.Context(), offences.OpenProposals, "", limit); !fault.Is(err, fault.Invalid) {
				t.Errorf("a limit of %d: got %v, want Invalid", limit, err)
			}
		}
	})
}
