package adminui_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stint-dev/stint/internal/rules"
)

// "Save in shadow" leaves a policy in force, and its draft is promoted or discarded; each of these
// is undone from its message.
func TestSaveInShadowMakesDraftBesideEnforcingPolicy(t *testing.T) {
	n := newNode(t)
	maria := n.as(t, "maria")
	find := func(name string) *rules.Policy {
		t.Helper()
		p, err := n.store.Policies.FindPolicyByName(t.Context(), name)
		if err != nil {
			return nil
		}
		return p
	}
	shadow := url.Values{"do": {"shadow"}, "limit": {"5", "800"}}
	maria.post("/policies/default", n.editorForm(t, 1, shadow)).is(http.StatusSeeOther)
	if p, d := find("default"), find("default.draft"); p.Mode != rules.Enforce || p.Version != 1 || d == nil || d.Mode != rules.Shadow || d.Rules.String() != "5/1m 800/1d" {
		t.Fatalf("after Save in shadow the policy is %+v, its draft %+v", p, d)
	}
	page := maria.get("/policies/default?done=drafted").is(http.StatusOK).holds("Draft in shadow").holds("Promote the draft").holds("goes on as before")
	maria.post("/audit/undo", page.undoFields()).is(http.StatusSeeOther)
	if find("default.draft") != nil {
		t.Fatal("the draft is there after the undo")
	}
	maria.post("/policies/default", n.editorForm(t, 1, shadow)).is(http.StatusSeeOther)
	tag := func() url.Values {
		return url.Values{"expect": {n.tag(t, "default.draft", find("default.draft").Version)}}
	}
	maria.get("/policies/default.draft").is(http.StatusOK).holds("This is the draft of")
	maria.post("/policies/default/discard", tag()).is(http.StatusSeeOther)
	if find("default.draft") != nil || find("default").Version != 1 {
		t.Fatal("the draft was not discarded, or its policy was changed")
	}
	maria.post("/policies/default", n.editorForm(t, 1, shadow)).is(http.StatusSeeOther)
	maria.post("/policies/default/promote", tag()).is(http.StatusSeeOther)
	if p := find("default"); p.Mode != rules.Enforce || p.Version != 2 || p.Rules.String() != "5/1m 800/1d" || find("default.draft") != nil {
		t.Fatalf("after the promotion the policy is %+v", p)
	}
	page = maria.get("/policies/default?done=promoted").is(http.StatusOK).holds("The draft is in force")
	maria.post("/audit/undo", page.undoFields()).is(http.StatusSeeOther)
	if p := find("default"); p.Mode != rules.Enforce || p.Rules.Strings()[0] != "1/1s" {
		t.Fatalf("after the undo the policy is %+v", p)
	}
	// Switching it off, or to shadow, asks and says what becomes of its keys.
	for _, mode := range []string{"off", "shadow"} {
		maria.post("/policies/default", n.editorForm(t, 3, url.Values{"mode": {mode}})).is(http.StatusUnprocessableEntity).holds("every request").holds("type default")
	}
	maria.get("/policies/default").is(http.StatusOK).holds("falls under no policy")
	maria.post("/policies/default/rename", url.Values{"expect": {n.tag(t, "default", 3)}, "to": {"everybody"}}).is(http.StatusSeeOther)
	page = maria.get("/policies/everybody?done=renamed").is(http.StatusOK).holds("is named everybody now")
	maria.post("/audit/undo", page.undoFields()).is(http.StatusSeeOther)
	if find("default") == nil || find("everybody") != nil {
		t.Fatal("the rename was not undone")
	}
}
