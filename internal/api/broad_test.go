package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/wire"
)

// addedPath returns the path of the added block or exemption in a response.
func (n *testNode) addedPath(path string, a answer) string {
	n.Helper()
	var added struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal([]byte(n.must(a, http.StatusCreated).body), &added); err != nil {
		n.Fatal(err)
	}
	return path + "/" + added.ID
}

// wantUnconfirmed checks that a response requires a confirmation by pattern.
func (n *testNode) wantUnconfirmed(a answer, confirm string) {
	n.Helper()
	p := n.wantProblem(a, http.StatusConflict, "confirm")
	if p.Code != "confirmation_required" || string(p.More["confirm"]) != `"`+confirm+`"` || len(p.More["confirm_reason"]) < 3 {
		n.Fatalf("got %+v", p)
	}
}

func TestExtendingBroadEntryRequiresConfirmation(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		const pattern = "ip:10.0.0.0/8"
		for _, path := range []string{wire.PathBlocks, wire.PathExemptions} {
			entry := n.addedPath(path, n.as(operate, post, path, `{"pattern":"`+pattern+`","expires_in":"1h","confirm":"`+pattern+`"}`))
			before := n.as(reader, get, entry, "").body
			for _, longer := range []string{`"expires_in":"2h"`, `"expires_at":null`, `"expires_in":"61m","reason":"later"`} {
				n.wantUnconfirmed(n.as(operate, patch, entry, `{`+longer+`}`), pattern)
				n.wantUnconfirmed(n.as(operate, patch, entry, `{`+longer+`,"confirm":"ip:11.0.0.0/8"}`), pattern)
			}
			n.wantProblem(n.as(operate, patch, entry, `{"expires_in":"2h","confirm":"yes:"}`), http.StatusUnprocessableEntity, "confirm")
			if now := n.as(reader, get, entry, "").body; now != before {
				t.Fatalf("%s was changed without a confirmation: %s", path, now)
			}
			// An earlier end and another reason need no confirmation.
			n.must(n.as(operate, patch, entry, `{"expires_in":"30m"}`), http.StatusOK)
			n.must(n.as(operate, patch, entry, `{"reason":"a scanner"}`), http.StatusOK)
			n.must(n.as(operate, patch, entry, `{"expires_at":null,"confirm":"`+pattern+`"}`), http.StatusOK)
			n.must(n.as(operate, patch, entry, `{"expires_in":"2h"}`), http.StatusOK)
			n.must(n.as(operate, del, entry, ""), http.StatusOK)
			n.wantProblem(n.as(operate, patch, entry, `{"expires_in":"9h"}`), http.StatusConflict, "")
			narrow := n.addedPath(path, n.as(operate, post, path, `{"pattern":"ip:10.0.0.0/16","expires_in":"1h"}`))
			n.must(n.as(operate, patch, narrow, `{"expires_at":null}`), http.StatusOK)
		}
	})
}

func TestExtendingBlockOfMuchTrafficRequiresConfirmation(t *testing.T) {
	n := startNode(t, func(d *nodeParts) { d.Entries.Traffic = halfOfAll{} })
	const pattern = "ip:203.0.113.0/24"
	entry := n.addedPath(wire.PathBlocks, n.as(operate, post, wire.PathBlocks, `{"pattern":"`+pattern+`","expires_in":"1h","confirm":"`+pattern+`"}`))
	n.wantUnconfirmed(n.as(operate, patch, entry, `{"expires_in":"2h"}`), pattern)
	n.must(n.as(operate, patch, entry, `{"expires_in":"2h","confirm":"`+pattern+`"}`), http.StatusOK)
}

func TestUndoThatRestoresBroadEntryRequiresConfirmation(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		const pattern = "ip:10.0.0.0/8"
		const confirmed = `"confirm":"` + pattern + `"`
		undo := func() string {
			page := read[wire.Page[wire.AuditEntry]](t, n.must(n.as(reader, get, "/v1/audit?limit=1", ""), http.StatusOK))
			return fmt.Sprintf("/v1/audit/%d/undo", page.Items[0].ID)
		}
		for _, path := range []string{wire.PathBlocks, wire.PathExemptions} {
			active := func() (ids []string) {
				var page struct {
					Items []struct {
						ID string `json:"id"`
					} `json:"items"`
				}
				if err := json.Unmarshal([]byte(n.must(n.as(reader, get, path, ""), http.StatusOK).body), &page); err != nil {
					t.Fatal(err)
				}
				for _, e := range page.Items {
					ids = append(ids, e.ID)
				}
				return ids
			}
			wantConfirmation := func(what string) {
				t.Helper()
				before := active()
				at := undo()
				n.wantUnconfirmed(n.as(operate, post, at, ""), pattern)
				n.wantUnconfirmed(n.as(operate, post, at, `{"confirm":"ip:11.0.0.0/8"}`), pattern)
				n.wantProblem(n.as(operate, post, at, `{"confirm":"yes:"}`), http.StatusUnprocessableEntity, "confirm")
				if !slices.Equal(active(), before) || undo() != at {
					t.Fatalf("%s: undoing %s without a confirmation changed something", path, what)
				}
				n.must(n.as(operate, post, at, `{`+confirmed+`}`), http.StatusCreated)
				if len(active()) != 1 {
					t.Fatalf("%s: after undoing %s with a confirmation %d are active, want 1", path, what, len(active()))
				}
			}
			add := `{"pattern":"` + pattern + `","expires_in":"1h",` + confirmed
			entry := n.addedPath(path, n.as(operate, post, path, add+`}`))
			n.must(n.as(operate, patch, entry, `{"expires_in":"2h",`+confirmed+`}`), http.StatusOK)
			n.must(n.as(operate, post, undo(), ""), http.StatusCreated) // the end is earlier again
			wantConfirmation("that undo")
			n.must(n.as(operate, patch, entry, `{"expires_in":"10m"}`), http.StatusOK)
			wantConfirmation("an earlier end")
			n.addedPath(path, n.as(operate, post, path, add+`,"on_conflict":"replace"}`))
			wantConfirmation("a replacement")
			n.must(n.as(operate, del, path+"/"+active()[0], ""), http.StatusOK)
			wantConfirmation("its end")
		}
	})
}

func TestPolicyThatRefusesBroadPatternRequiresConfirmation(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		const anyVersion = `If-Match: *`
		policy := wire.PathPolicies + "/shut"
		for _, match := range []string{"*", "ip:*", "ip:10.0.0.0/8", "token:*"} {
			if match == "*" {
				policy = wire.PathPolicies + "/default"
			}
			name := policy[len(wire.PathPolicies)+1:]
			document := `{"match":["` + match + `"],"rules":["0/s"]%s}`
			n.must(n.as(administer, put, policy+"?confirm="+name, fmt.Sprintf(document, `,"mode":"shadow"`), anyVersion), map[bool]int{true: http.StatusOK, false: http.StatusCreated}[match == "*"])
			before := n.as(reader, get, policy, "").body
			n.wantUnconfirmed(n.as(administer, put, policy, fmt.Sprintf(document, ""), anyVersion), name)
			n.wantUnconfirmed(n.as(administer, put, policy+"?confirm=other", fmt.Sprintf(document, ""), anyVersion), name)
			file := `{"policies":[{"name":"` + name + `",` + fmt.Sprintf(document, "")[1:] + `]}`
			plan := read[wire.PolicyPlan](t, n.must(n.as(administer, post, wire.PathPolicySet+"/plan", file), http.StatusOK))
			if string(plan.Confirm) != name || !strings.HasPrefix(string(plan.ConfirmReason), name+": ") {
				t.Errorf("%s: the plan has confirm %q and confirm_reason %q", match, plan.Confirm, plan.ConfirmReason)
			}
			n.wantUnconfirmed(n.as(administer, post, wire.PathPolicySet, file), name)
			if now := n.as(reader, get, policy, "").body; now != before {
				t.Fatalf("%s was changed without a confirmation: %s", match, now)
			}
			n.must(n.as(administer, post, wire.PathPolicySet+"?confirm="+name, file), http.StatusOK)
			// It already refuses everything, so more rules need no confirmation.
			n.must(n.as(administer, put, policy, `{"match":["`+match+`"],"rules":["0/s","5/m"]}`, anyVersion), http.StatusOK)
			n.must(n.as(administer, put, policy, `{"match":["`+match+`"],"rules":["5/m"]}`, anyVersion), http.StatusOK)
			page := read[wire.Page[wire.AuditEntry]](t, n.must(n.as(reader, get, "/v1/audit?limit=1", ""), http.StatusOK))
			undo := fmt.Sprintf("/v1/audit/%d/undo", page.Items[0].ID)
			n.wantUnconfirmed(n.as(administer, post, undo, ""), name)
			n.must(n.as(administer, post, undo, `{"confirm":"`+name+`"}`), http.StatusCreated)
			n.must(n.as(administer, put, policy, `{"match":["`+match+`"],"rules":["5/m"]}`, anyVersion), http.StatusOK)
			n.must(n.as(administer, put, policy+"?confirm="+name, fmt.Sprintf(document, ""), anyVersion), http.StatusOK)
			if name == "default" { // without it no policy limits the other keys
				n.wantUnconfirmed(n.as(administer, del, policy, "", anyVersion), name)
			}
			n.must(n.as(administer, del, policy+"?confirm="+name, "", anyVersion), http.StatusNoContent)
		}
		n.must(n.as(administer, put, wire.PathPolicies+"/narrow", `{"match":["ip:10.0.0.0/16","token:a"],"rules":["0/s"]}`), http.StatusCreated)
	})
}

func TestDeletingPolicyAboveRefusingOneRequiresConfirmation(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		const anyVersion = `If-Match: *`
		policy := wire.PathPolicies + "/office"
		n.must(n.as(administer, put, policy, `{"match":["ip:10.0.0.0/16"],"rules":["5/m"]}`), http.StatusCreated)
		n.must(n.as(administer, put, wire.PathPolicies+"/shut", `{"match":["ip:10.0.0.0/8"],"rules":["0/s"],"mode":"shadow"}`), http.StatusCreated)
		n.must(n.as(administer, del, policy, "", anyVersion), http.StatusNoContent) // a shadow policy refuses nothing
		n.must(n.as(administer, put, policy, `{"match":["ip:10.0.0.0/16"],"rules":["5/m"]}`), http.StatusCreated)
		n.must(n.as(administer, put, wire.PathPolicies+"/shut?confirm=shut", `{"match":["ip:10.0.0.0/8"],"rules":["0/s"]}`, anyVersion), http.StatusOK)
		n.wantUnconfirmed(n.as(administer, del, policy, "", anyVersion), "office")
		n.wantUnconfirmed(n.as(administer, del, policy+"?confirm=shut", "", anyVersion), "office")
		n.wantUnconfirmed(n.as(administer, put, policy, `{"match":["token:*"],"rules":["5/m"]}`, anyVersion), "office")
		n.wantUnconfirmed(n.as(administer, put, policy, `{"match":["ip:10.0.0.0/16"],"rules":["5/m"],"mode":"shadow"}`, anyVersion), "office")
		n.wantUnconfirmed(n.as(administer, post, wire.PathPolicySet+"?prune=true", `{"policies":[{"name":"shut","match":["ip:10.0.0.0/8"],"rules":["0/s"]}]}`), "default,office")
		n.must(n.as(administer, put, wire.PathPolicies+"/between", `{"match":["ip:10.0.0.0/12"],"rules":["5/m"]}`), http.StatusCreated)
		n.must(n.as(administer, del, policy, "", anyVersion), http.StatusNoContent) // its keys fall under between
		n.must(n.as(administer, del, wire.PathPolicies+"/between?confirm=between", "", anyVersion), http.StatusNoContent)
	})
}
