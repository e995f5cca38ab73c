package adminui_test

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/rules"
)

// undoFields returns the fields of the undo form in the toast of a page.
func (a *answer) undoFields() url.Values {
	a.t.Helper()
	form := regexp.MustCompile(`(?s)data-toast>.*?action="/audit/undo">(.*?)</form>`).FindStringSubmatch(a.body)
	if form == nil {
		a.t.Fatalf("the page has no toast with an undo form: %s", a.shown())
	}
	fields := url.Values{}
	for _, field := range regexp.MustCompile(`name="(id|back)" value="([^"]*)"`).FindAllStringSubmatch(oneLine(form[1]), -1) {
		fields.Set(field[1], field[2])
	}
	return fields
}

func TestToastUndoesPlanAndOwnLimit(t *testing.T) {
	n := newNode(t)
	const key, back = "user:anna", "/key?key=user%3Aanna"
	olu := n.as(t, "olu")
	post := func(path string, fields url.Values) *answer {
		t.Helper()
		fields.Set("key", key)
		fields.Set("back", back)
		at := olu.post(path, fields).is(http.StatusSeeOther).header.Get("Location")
		return olu.get(at).is(http.StatusOK)
	}
	undo := func(page *answer, without string) {
		t.Helper()
		at := olu.post("/audit/undo", page.undoFields()).is(http.StatusSeeOther).header.Get("Location")
		olu.get(at).is(http.StatusOK).holds("Undone.").lacks(without)
	}
	saved := post("/key/profile", url.Values{"plan": {"gold"}, "labels": {"vip"}}).holds("Saved.").holds("<b>gold</b>")
	undo(saved, "<b>gold</b>")
	limited := post("/key/limit", url.Values{"rules": {"7/h"}, "for": {"24h"}, "reason": {"a trial"}}).holds("The key has a limit of its own now.").
		holds("<b>7/h</b>").holds("Allowed</b></span> under a limit of its own")
	olu.get("/audit").is(http.StatusOK).holds(undoButton(n.entries(t, audit.Filter{Object: "profile", Limit: 1})[0].ID))
	undo(limited, "<b>7/h</b>")
	post("/key/limit", url.Values{"rules": {"7/h"}, "for": {"24h"}, "reason": {"a trial"}})
	ended := post("/key/limit/end", url.Values{}).holds("The limit is ended")
	at := olu.post("/audit/undo", ended.undoFields()).is(http.StatusSeeOther).header.Get("Location")
	olu.get(at).is(http.StatusOK).holds("<b>7/h</b>")
	// The toast of an old or forged change has no undo form.
	n.clock.advance(2 * time.Minute)
	if page := olu.get(back + "&done=ownlimit").is(http.StatusOK); regexp.MustCompile(`action="/audit/undo"`).MatchString(page.body) {
		t.Errorf("the toast of an old change has an undo form: %s", page.shown())
	}
}

func TestToastDoesNotUndoOtherChanges(t *testing.T) {
	n := newNode(t)
	const back = "/key?key=user%3Aanna"
	fields := func(more url.Values) url.Values {
		more.Set("key", "user:anna")
		more.Set("back", back)
		return more
	}
	olu := n.as(t, "olu")
	limit := func(rules string) url.Values {
		return fields(url.Values{"rules": {rules}, "for": {"24h"}, "reason": {"a trial"}})
	}
	at := olu.post("/key/limit", limit("7/h")).is(http.StatusSeeOther).header.Get("Location")
	lacksUndo := func(what string) {
		t.Helper()
		if page := olu.get(at).is(http.StatusOK); regexp.MustCompile(`action="/audit/undo"`).MatchString(page.body) {
			t.Errorf("the toast of a limit can undo %s: %s", what, page.shown())
		}
	}
	n.as(t, "maria").post("/key/limit", limit("9/h")).is(http.StatusSeeOther)
	lacksUndo("a later limit by another user")
	olu.post("/key/limit/end", fields(url.Values{})).is(http.StatusSeeOther)
	lacksUndo("the end of the limit")
}

func TestRefusalPageNamesOwnLimit(t *testing.T) {
	n := newNode(t)
	olu := n.as(t, "olu")
	olu.post("/key/limit", url.Values{"key": {"user:anna"}, "rules": {"1/h"}, "for": {"24h"}, "reason": {"a trial"}, "back": {"/"}}).is(http.StatusSeeOther)
	n.send(t, "user:anna", "user:anna", "user:ben", "user:ben")
	n.flush(t)
	olu.get("/key?refusal=" + n.refusalOf(t, "user:anna")).is(http.StatusOK).holds("A limit of the key’s own refused it, 1/h").holds("a trial")
	olu.get("/key?refusal=" + n.refusalOf(t, "user:ben")).is(http.StatusOK).lacks("limit of the key’s own")
	x, err := n.detection.ExplainRefusal(t.Context(), n.refusalOf(t, "user:anna"))
	must(t, err)
	if want := "1 by the rule 1/1h of a limit of the key's own."; !regexp.MustCompile(regexp.QuoteMeta(want)).MatchString(x.Text) {
		t.Errorf("%q does not contain %q", x.Text, want)
	}
}

func TestPolicyEditorExplainsPlanAndOriginPatterns(t *testing.T) {
	n := newNode(t)
	p := rules.Policy{Name: "gold", Rules: stack(t, "5/s"), Mode: rules.Enforce, OnFailure: rules.FailLocal, Algorithm: algorithms.TimestampLog}
	for _, text := range []string{"plan:gold", "plan:*", "asn:64500", "country:NL"} {
		p.Match = append(p.Match, pattern(t, text))
	}
	_, err := n.store.Policies.PutPolicy(context.Background(), audit.SystemActor("test"), &p, etag.New)
	must(t, err)
	n.as(t, "vic").get("/policies/gold").is(http.StatusOK).holds("every key of the plan gold").holds("every key that has a plan").
		holds("addresses of the network AS64500: 128 IPv4 addresses in 1 range").holds("addresses of the country NL: 128 IPv4 addresses in 1 range")
}

func TestProfileFormDetectsConflictingChange(t *testing.T) {
	n := newNode(t)
	const key, page = "user:anna", "/key?key=user%3Aanna"
	olu, maria := n.as(t, "olu"), n.as(t, "maria")
	form := func(plan, expect string) url.Values {
		return url.Values{"key": {key}, "back": {page}, "plan": {plan}, "labels": {"vip"}, "note": {"a <b>"}, "delete": {"1"}, "expect": {expect}}
	}
	olu.post("/key/profile", form("gold", olu.get(page).expects())).is(http.StatusSeeOther)
	maria.post("/key/profile", form("silver", "")).is(http.StatusPreconditionRequired).holds("olu").holds("changed this key").holds(`value="silver"`)
	seen := maria.get(page).expects()
	olu.post("/key/profile", form("bronze", seen)).is(http.StatusSeeOther)
	conflict := maria.post("/key/profile", form("silver", seen)).is(http.StatusPreconditionFailed).
		holds("<b>bronze</b>").holds(`value="silver"`).holds(`value="vip"`).holds(`value="a &lt;b&gt;"`)
	emptied := url.Values{"key": {key}, "back": {page}, "delete": {"1"}, "expect": {seen}}
	maria.post("/key/profile", emptied).is(http.StatusPreconditionFailed).holds("<b>bronze</b>")
	olu.get(page).holds("<b>bronze</b>")
	maria.post("/key/profile", form("silver", conflict.expects())).is(http.StatusSeeOther)
	olu.get(page).holds("<b>silver</b>")
}

// Errors of the forms on the page of a key keep what was typed.
func TestInvalidFormsOfKeyKeepTypedFields(t *testing.T) {
	olu := newNode(t).as(t, "olu")
	limit := func(rules, until, reason string) url.Values {
		return url.Values{"key": {"token:a"}, "back": {"/key?key=token%3Aa"}, "rules": {rules}, "for": {"until"}, "until": {until}, "reason": {reason}}
	}
	for _, form := range []url.Values{limit("5/x", "2099-01-02T03:04", "a <sale>"), limit("5/s", "2001-01-02T03:04", "a <sale>")} {
		olu.post("/key/limit", form).is(http.StatusUnprocessableEntity).holds("field-error").holds(`value="` + form.Get("rules") + `"`).
			holds(`value="a &lt;sale&gt;"`).holds(`value="` + form.Get("until") + `"`).holds(`value="until" checked`).holds(`href="/key?key=token%3Aa"`)
	}
	valid := limit("5/s", "", "a <sale>")
	valid.Set("for", "24h")
	olu.post("/key/limit", valid).is(http.StatusSeeOther)
	profile := url.Values{"key": {"token:b"}, "back": {"/key?key=token%3Ab"}, "expect": {""}, "plan": {"no plan"}, "labels": {"vip shop"}, "note": {"pays <much>"}}
	olu.post("/key/profile", profile).is(http.StatusUnprocessableEntity).holds("field-error").holds(`value="no plan"`).holds(`value="vip shop"`).
		holds(`value="pays &lt;much&gt;"`)
	profile.Set("key", strings.Repeat("x", 600)) // no field of the form is wrong
	profile.Set("plan", "gold")
	olu.post("/key/profile", profile).is(http.StatusUnprocessableEntity).lacks("field-error")
}
