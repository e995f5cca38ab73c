package adminui_test

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/blocks"
)

func TestAProposalIsAcceptedOrDismissed(t *testing.T) {
	n := newNode(t)
	n.attack(t)
	open, _, err := n.store.Proposals.FindProposals(context.Background(), true, "", 10)
	must(t, err)
	if len(open) != 1 {
		t.Fatalf("%d proposals are open", len(open))
	}
	v := n.as(t, "olu")
	path := "/proposals/" + open[0].ID
	v.get(path).is(http.StatusOK).holds("Block 256 addresses")
	v.post(path+"/accept", url.Values{"for": {"until"}}).is(http.StatusUnprocessableEntity)
	done := v.post(path+"/accept", url.Values{"for": {"24h"}}).is(http.StatusSeeOther)
	v.get(done.header.Get("Location")).is(http.StatusOK).holds("Blocked").holds("203.0.113.0/24").holds("Undo").holds("Decided")
	if got := n.decisionOn(t, "ip:203.0.113.201"); got != "blocked" {
		t.Errorf("an address of the range is %s", got)
	}
	v.get(path).is(http.StatusOK).holds("olu").holds("blocked")
	v.post(path+"/dismiss", nil).is(http.StatusConflict)
}

func TestAProposalNeedsTheConfirmationOfABlockByHand(t *testing.T) {
	n := newNode(t, func(d *adminui.Deps) { d.Entries.Traffic = trafficOf{"ip:203.0.113.2": 0.9, "ip:192.0.2.1": 0.1} })
	n.attack(t)
	open, _, err := n.store.Proposals.FindProposals(context.Background(), true, "", 10)
	must(t, err)
	v, path := n.as(t, "olu"), "/proposals/"+open[0].ID
	v.get(path).is(http.StatusOK).holds("Offences it would stop").holds("90%").holds("This is broad:").holds("type ip:203.0.113.0/24").holds(`data-confirms="add-button"`)
	v.post(path+"/accept", url.Values{"for": {"24h"}}).is(http.StatusUnprocessableEntity).holds(`aria-invalid="true"`)
	v.post(path+"/accept", url.Values{"for": {"24h"}, "confirm": {"ip:203.0.113.0/25"}}).is(http.StatusUnprocessableEntity)
	if got := n.decisionOn(t, "ip:203.0.113.201"); got == "blocked" {
		t.Error("a range that nobody confirmed is blocked")
	}
	v.post(path+"/accept", url.Values{"for": {"24h"}, "confirm": {"ip:203.0.113.0/24"}}).is(http.StatusSeeOther)
	if got := n.decisionOn(t, "ip:203.0.113.201"); got != "blocked" {
		t.Errorf("an address of the confirmed range is %s", got)
	}
}

var (
	toastUndo   = regexp.MustCompile(`(?s)<form method="post" action="([^"]+)">((?:<input type="hidden"[^>]+>\s*)+)<button class="button"><svg.*?Undo</button>`)
	hiddenField = regexp.MustCompile(`name="([^"]+)"\s+value="([^"]*)"`)
)

func TestUndoingAnAcceptedProposalRestoresTheBlockThatWasThereBefore(t *testing.T) {
	for name, was := range map[string]time.Duration{"a shorter block": time.Hour, "a longer block": 48 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.attack(t)
			open, _, err := n.store.Proposals.FindProposals(context.Background(), true, "", 10)
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
			if !now.Ended.IsZero() || !now.Expires.Equal(older.Expires) || now.Reason != older.Reason {
				t.Errorf("the block was %+v and is %+v", older, now)
			}
			if was < 24*time.Hour && !strings.Contains(page.body, "Extended the block of") || was > 24*time.Hour && !strings.Contains(page.body, "was there before") {
				t.Errorf("the page says %s", page.shown())
			}
		})
	}
}
