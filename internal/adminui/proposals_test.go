package adminui_test

import (
	"context"
	"net/http"
	"net/url"
	"testing"

	"github.com/stint-dev/stint/internal/adminui"
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
