package adminui_test

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/test/keytest"
)

func TestProposalPageAcceptsProposal(t *testing.T) {
	n := newNode(t)
	n.attack(t)
	open, _, err := n.store.Proposals.FindProposals(context.Background(), offences.OpenProposals, "", 10)
	must(t, err)
	if len(open) != 1 {
		t.Fatalf("%d proposals are open, want 1", len(open))
	}
	v := n.as(t, "olu")
	path := "/proposals/" + open[0].ID
	v.get(path).is(http.StatusOK).holds("Block 256 addresses")
	v.post(path+"/accept", url.Values{"for": {"until"}}).is(http.StatusUnprocessableEntity)
	v.post(path+"/accept", url.Values{"for": {"until"}, "until": {"0001-01-01 00:00"}}).is(http.StatusUnprocessableEntity) // Go's zero time, which is permanent
	done := v.post(path+"/accept", url.Values{"for": {"24h"}}).is(http.StatusSeeOther)
	v.get(done.header.Get("Location")).is(http.StatusOK).holds("Blocked").holds("203.0.113.0/24").holds("Undo").holds("Decided")
	if got := n.decisionOn(t, "ip:203.0.113.201"); got != "blocked" {
		t.Errorf("the decision in the accepted range is %s, want blocked", got)
	}
	v.get(path).is(http.StatusOK).holds("olu").holds("blocked")
	v.post(path+"/dismiss", nil).is(http.StatusConflict)
}

func TestProposalPageDismissesProposal(t *testing.T) {
	n := newNode(t)
	n.attack(t)
	open, _, err := n.store.Proposals.FindProposals(context.Background(), offences.OpenProposals, "", 10)
	must(t, err)
	v, path := n.as(t, "olu"), "/proposals/"+open[0].ID
	done := v.post(path+"/dismiss", nil).is(http.StatusSeeOther)
	v.get(done.header.Get("Location")).is(http.StatusOK).holds("Dismissed. The range is not proposed again for a day.")
	if got := n.decisionOn(t, "ip:203.0.113.201"); got == "blocked" {
		t.Error("the dismissed range is blocked")
	}
	v.post(path+"/accept", url.Values{"for": {"24h"}}).is(http.StatusConflict)
}

func TestAcceptingBroadProposalRequiresTypedConfirmation(t *testing.T) {
	n := newNode(t, func(d *adminui.Deps) { d.Entries.Traffic = trafficOf{"ip:203.0.113.2": 0.9, "ip:192.0.2.1": 0.1} })
	n.attack(t)
	open, _, err := n.store.Proposals.FindProposals(context.Background(), offences.OpenProposals, "", 10)
	must(t, err)
	v, path := n.as(t, "olu"), "/proposals/"+open[0].ID
	v.get(path).is(http.StatusOK).holds("Offences it would stop").holds("90%").holds("This is broad:").holds("type ip:203.0.113.0/24").holds(`data-confirms="add-button"`)
	v.post(path+"/accept", url.Values{"for": {"24h"}}).is(http.StatusUnprocessableEntity).holds(`aria-invalid="true"`)
	v.post(path+"/accept", url.Values{"for": {"24h"}, "confirm": {"ip:203.0.113.0/25"}}).is(http.StatusUnprocessableEntity)
	if got := n.decisionOn(t, "ip:203.0.113.201"); got == "blocked" {
		t.Error("an unconfirmed range is blocked")
	}
	v.post(path+"/accept", url.Values{"for": {"24h"}, "confirm": {"ip:203.0.113.0/24"}}).is(http.StatusSeeOther)
	if got := n.decisionOn(t, "ip:203.0.113.201"); got != "blocked" {
		t.Errorf("the decision in the confirmed range is %s, want blocked", got)
	}
}

// TestProposalPagesListEachProposalOnce adds more open and more decided proposals than a page shows,
// and reads both lists to their ends, one beside the other.
func TestProposalPagesListEachProposalOnce(t *testing.T) {
	n := newNode(t)
	ctx := context.Background()
	var open, decided []string
	for i := range 2*site.RowsPerPage + 3 {
		pattern := fmt.Sprintf("ip:198.51.%d.0/24", i)
		put, err := n.store.Proposals.PutProposal(ctx, offences.Proposal{Pattern: keytest.Pattern(t, pattern), Created: n.clock.Now(), Updated: n.clock.Now()}, n.clock.Now())
		must(t, err)
		if i%2 == 0 {
			open = append(open, pattern)
			continue
		}
		decided = append(decided, pattern)
		_, err = n.store.Proposals.DecideProposal(ctx, audit.SystemActor("test"), put.Proposal.ID, offences.Dismissed, "", "")
		must(t, err)
	}
	slices.Reverse(open)
	slices.Reverse(decided)
	older := regexp.MustCompile(`href="([^"]+)">Older</a>`)
	v := n.as(t, "olu")
	for _, list := range []struct {
		all   []string
		row   *regexp.Regexp
		parts func(page string) string
	}{
		{open, regexp.MustCompile(`<h2>Block <bdi class="key" title="([^"]+)"`), func(page string) string { before, _, _ := strings.Cut(page, "<h2>Decided</h2>"); return before }},
		{decided, regexp.MustCompile(`<a class="plain"[^>]*><bdi class="key" title="([^"]+)"`), func(page string) string { _, after, _ := strings.Cut(page, "<h2>Decided</h2>"); return after }},
	} {
		var got []string
		for path := "/proposals"; path != ""; {
			page := v.get(path).is(http.StatusOK)
			part := list.parts(page.body)
			for _, row := range list.row.FindAllStringSubmatch(part, -1) {
				got = append(got, row[1])
			}
			path = ""
			if next := older.FindStringSubmatch(part); next != nil {
				path = html.UnescapeString(next[1])
			}
		}
		if !slices.Equal(got, list.all) {
			t.Errorf("the pages list %q, want %q", got, list.all)
		}
	}
	v.get("/proposals?cursor=x").is(http.StatusUnprocessableEntity)
}

var (
	toastUndo   = regexp.MustCompile(`(?s)<form method="post" action="([^"]+)">((?:<input type="hidden"[^>]+>\s*)+)<button class="button"><svg.*?Undo</button>`)
	hiddenField = regexp.MustCompile(`name="([^"]+)"\s+value="([^"]*)"`)
)

func TestUndoOfAcceptedProposalRestoresFormerBlock(t *testing.T) {
	for name, was := range map[string]time.Duration{"a shorter block": time.Hour, "a longer block": 48 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.attack(t)
			open, _, err := n.store.Proposals.FindProposals(context.Background(), offences.OpenProposals, "", 10)
			must(t, err)
			older := n.block(t, "ip:203.0.113.0/24", "by hand", "jo", blocks.Manual, was)
			v, path := n.as(t, "olu"), "/proposals/"+open[0].ID
			done := v.post(path+"/accept", url.Values{"for": {"24h"}}).is(http.StatusSeeOther)
			page := v.get(done.header.Get("Location")).is(http.StatusOK)
			if undo := toastUndo.FindStringSubmatch(page.body); undo != nil {
				form := url.Values{}
				for _, field := range hiddenField.FindAllStringSubmatch(undo[2], -1) {
					form.Add(field[1], field[2])
				}
				v.post(undo[1], form).is(http.StatusSeeOther)
			}
			now, err := n.store.Entries.ByID(context.Background(), blocks.Block, older.ID)
			must(t, err)
			if !now.Ended().IsZero() || !now.Expires.Equal(older.Expires) || now.Reason != older.Reason {
				t.Errorf("the former block is %+v after the undo, want %+v", now, older)
			}
			if was < 24*time.Hour && !strings.Contains(page.body, "Extended the block of") || was > 24*time.Hour && !strings.Contains(page.body, "was there before") {
				t.Errorf("the page shows %s", page.shown())
			}
		})
	}
}
