package admin_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/storetest"
)

// A program cannot confirm a range with much of a small site's traffic: it learns that the range
// is not blocked, and an operator gets a proposal.
func TestBroadBlockOfASourceBecomesAProposal(t *testing.T) {
	storetest.OnBothURLs(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		f.Traffic = recorded{"ip:203.0.113.7": 5, "ip:198.51.100.1": 95}
		var announced []string
		proposals := &admin.Proposals{Store: f.store.Proposals, Offences: f.store.Offences, Entries: f.Entries, View: f.catalog, Now: func() time.Time { return f.now },
			OnRequest: func(_ context.Context, p offences.Proposal) { announced = append(announced, p.Pattern.String()) }}
		f.Propose = proposals.Request
		ask := func(source string) *fault.Error {
			t.Helper()
			_, err := f.Add(t.Context(), ann, admin.AddEntries{Kind: blocks.Block, Patterns: []string{"ip:203.0.113.0/24"}, AddEntry: wire.AddEntry{Reason: "guessing", Source: source, ExpiresIn: wire.Duration(time.Hour), OnConflict: wire.ConflictExtend}})
			var mistake *fault.Error
			if !errors.As(err, &mistake) {
				t.Fatalf("got %v", err)
			}
			return mistake
		}
		if e := ask(""); e.Code != fault.NeedConfirm {
			t.Errorf("by hand: got %v", e)
		}
		first := ask("fail2ban/sshd")
		if again := ask("fail2ban/sshd"); first.Code != fault.Proposed || again.Detail["proposal"] != first.Detail["proposal"] {
			t.Errorf("by a source: got %v, again %v", first, again)
		}
		ask("crowdsec")
		if len(f.active(t, blocks.Block)) != 0 || len(announced) != 1 {
			t.Errorf("active: %q, announced: %q", f.active(t, blocks.Block), announced)
		}
		open, _, err := proposals.Find(t.Context(), offences.OpenProposals, "", 0)
		if err != nil || len(open) != 1 || len(open[0].Evidence.Requests) != 2 || open[0].Evidence.Requests[1].Source != "fail2ban/sshd" {
			t.Fatalf("got %+v, %v", open, err)
		}
		// It lapses with the requests; until then an operator accepts it as any other.
		f.now = f.now.Add(2 * time.Hour)
		if late, _, err := proposals.Find(t.Context(), offences.OpenProposals, "", 0); err != nil || len(late) != 0 {
			t.Errorf("after the requests: got %+v, %v", late, err)
		}
		f.now = f.now.Add(-2 * time.Hour)
		if _, err := proposals.Accept(t.Context(), ann, wire.AcceptProposalRequest{ID: open[0].ID, ExpiresIn: wire.Duration(time.Hour), Confirm: "ip:203.0.113.0/24"}); err != nil {
			t.Fatal(err)
		}
		if got := f.active(t, blocks.Block); len(got) != 1 || got[0] != "ip:203.0.113.0/24" {
			t.Errorf("accepted: %q", got)
		}
		// What an operator dismissed is not proposed again at once.
		f.Traffic = recorded{"ip:192.0.2.7": 5, "ip:198.51.100.1": 95}
		put := func() *fault.Error {
			_, err := f.Add(t.Context(), ann, admin.AddEntries{Kind: blocks.Block, Patterns: []string{"ip:192.0.2.0/24"}, AddEntry: wire.AddEntry{Source: "crowdsec"}})
			var mistake *fault.Error
			errors.As(err, &mistake)
			return mistake
		}
		id, _ := put().Detail["proposal"].(string)
		if _, err := proposals.Dismiss(t.Context(), ann, id, "customers"); err != nil {
			t.Fatal(err)
		}
		if e := put(); e.Code != fault.NeedConfirm {
			t.Errorf("after it was dismissed: got %v", e)
		}
	})
}
