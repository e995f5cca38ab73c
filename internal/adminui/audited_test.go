package adminui_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/test/storetest"
)

// unauditedRoutes are the routes of forms that change nothing that is
// audited: previews of a form, and changes of a user's own session or theme.
// The record of the last one is checked by the tests of package sqlstore, which
// can pause an escalation.
var unauditedRoutes = []string{
	"/login", "/login/code", "/invitation", "/logout", "/theme", "/account/totp/start", "/blocks/new", "/exemptions/new", "/blocks/import", "/exemptions/import", "/keys/import",
	"/new-policy/draft", "/new-policy/try", "/policies/:name/draft", "/policies/:name/try",
	"/escalations/resume",
}

// submission is one form and the audit record that it must write.
type submission struct {
	route, path   string // path is "" where it is the route
	form          url.Values
	action        string // of the newest record after it
	before, after bool   // whether the record has them
}

// audited submits forms as maria and checks the audit record of each.
type audited struct {
	*testing.T
	node *node
	who  *visitor
	seen map[string]bool
}

func (w *audited) newest() *audit.Record {
	w.Helper()
	return w.node.entries(w, audit.Filter{Limit: 1})[0]
}

func (w *audited) submit(p submission) *audit.Record {
	w.Helper()
	if p.path == "" {
		p.path = p.route
	}
	known := w.newest().ID
	if got := w.who.post(p.path, p.form); got.status >= http.StatusBadRequest {
		w.Fatalf("%s: got %d: %s", p.path, got.status, got.shown())
	}
	w.seen[p.route] = true
	e := w.newest()
	holds := func(part []byte) bool { return len(part) > 0 && string(part) != "null" }
	switch {
	case e.ID == known:
		w.Errorf("%s wrote no audit record", p.route)
	case e.Action != p.action:
		w.Errorf("%s wrote an audit record of %q, want %q", p.route, e.Action, p.action)
	case e.Actor.Kind != audit.User || e.Actor.Name != "maria" || e.Actor.Address != "127.0.0.1":
		w.Errorf("%s: got the actor %+v, want maria at 127.0.0.1", p.route, e.Actor)
	case e.At.IsZero() || e.Object == "" || e.Summary == "":
		w.Errorf("%s: the audit record is incomplete: %+v", p.route, e)
	case holds(e.Before) != p.before || holds(e.After) != p.after:
		w.Errorf("%s: the audit record has before %s and after %s, want before %v, after %v", p.route, e.Before, e.After, p.before, p.after)
	}
	return e
}

func TestFormsThatChangeSomethingWriteAuditRecords(t *testing.T) {
	status := &atomic.Int32{}
	status.Store(http.StatusOK)
	n, _ := webhookNode(t, status)
	w := &audited{T: t, node: n, who: n.as(t, "maria"), seen: map[string]bool{}}
	w.entries()
	w.sources()
	w.acts()
	w.decisions()
	w.policies()
	w.identities()
	w.account()
	w.submit(submission{route: "/notifications/test", path: "/notifications/test", form: url.Values{"channel": {"webhook"}}, action: "notification.test"})
	w.notifications()
	w.submit(submission{route: "/jobs/:name/run", path: "/jobs/archive-blocks/run", action: "job.run"})
	own := url.Values{"current_password": {password}, "password": {"another horse battery"}} // which ends the session
	w.submit(submission{route: "/account/password", form: own, action: "user.update", before: true, after: true})
	for _, r := range n.routes {
		if r.Method == http.MethodPost && !w.seen[r.Path] && !slices.Contains(unauditedRoutes, r.Path) {
			t.Errorf("no test checks the audit record of %s", r.Path)
		}
	}
	selectable := map[string]bool{}
	for _, e := range n.entries(t, audit.Filter{Limit: 1000}) {
		if !selectable[e.Object] {
			selectable[e.Object] = true
			n.as(t, "olu").get("/audit?object=" + e.Object).is(http.StatusOK).holds(`<option value="` + e.Object + `" selected>`)
		}
		if text := string(e.Before) + string(e.After); strings.Contains(text, "hash") || strings.Contains(text, "secret") || strings.Contains(text, "argon2") {
			t.Errorf("the audit record of %s contains a secret: %s", e.Action, text)
		}
	}
}

func (w *audited) entries() {
	w.Helper()
	for path, object := range map[string]string{"/blocks": "block", "/exemptions": "exemption"} {
		added := w.submit(submission{route: path, form: url.Values{"pattern": {"token:a"}, "for": {"1h"}}, action: object + ".add", after: true})
		id := added.ObjectID
		form := url.Values{"reason": {"other"}, "for": {"1h"}, "revision": {strconv.FormatInt(added.Revision, 10)}}
		w.submit(submission{route: path + "/:id", path: path + "/" + id, form: form, action: object + ".update", before: true, after: true})
		w.submit(submission{route: path + "/end", form: url.Values{"id": {id}}, action: object + ".end", before: true, after: true})
		w.submit(submission{route: path + "/restore", form: url.Values{"id": {id}}, action: object + ".restore", before: true, after: true})
	}
	for path, object := range map[string]string{"/blocks": "block", "/exemptions": "exemption"} {
		held := w.who.upload(path+"/import", "list.txt", "203.0.113.1\n203.0.113.2\n", importFields).held()
		imported := w.submit(submission{route: path + "/import/confirm", form: url.Values{"file": {held}}, action: object + ".import", after: true})
		w.submit(submission{route: "/audit/undo", form: undo(imported.ID), action: object + ".end_import", before: true, after: true})
	}
}

func (w *audited) acts() {
	w.Helper()
	for what, object := range map[string]string{"": "block", "exempt": "exemption"} {
		form := url.Values{"key": {"token:b"}, "for": {"1h"}, "what": {what}}
		id := w.submit(submission{route: "/bulk/add", form: form, action: object + ".add", after: true}).ObjectID
		form = url.Values{"id": {id}, "what": {what}}
		w.submit(submission{route: "/bulk/end", form: form, action: object + ".end", before: true, after: true})
		w.submit(submission{route: "/bulk/restore", form: form, action: object + ".restore", before: true, after: true})
	}
	w.submit(submission{route: "/key/reset", form: url.Values{"key": {"token:b"}}, action: "key.reset"})
	w.submit(submission{route: "/key/erase", form: url.Values{"key": {"token:b"}, "confirm": {"token:b"}}, action: "key.erase", after: true})
	w.submit(submission{route: "/sites", form: url.Values{"host": {"shop.example.org"}, "own_paths": {"/phpmyadmin/*\n/pma/*"}, "forget": {"yes"}}, action: "site.correct", after: true})
	note := w.submit(submission{route: "/key/note", form: url.Values{"key": {"token:b"}, "text": {"ours"}}, action: "note.add", after: true})
	w.submit(submission{route: "/key/profile", form: url.Values{"key": {"token:b"}, "plan": {"gold"}, "labels": {"a b"}}, action: "profile.set", after: true})
	w.submit(submission{route: "/key/limit", form: url.Values{"key": {"token:b"}, "rules": {"5/s"}, "for": {"24h"}, "reason": {"launch"}}, action: "profile.limit", before: true, after: true})
	w.submit(submission{route: "/key/limit/end", form: url.Values{"key": {"token:b"}}, action: "profile.end_limit", before: true, after: true})
	held := w.who.upload("/keys/import", "keys.csv", "key,plan\ntoken:c,gold\n", nil).held()
	imported := w.submit(submission{route: "/keys/import/confirm", form: url.Values{"file": {held}}, action: "profile.import", after: true})
	w.submit(submission{route: "/audit/undo", form: undo(imported.ID), action: "profile.end_import", before: true})
	w.submit(submission{route: "/key/note/delete", form: url.Values{"id": {note.ObjectID}}, action: "note.delete", before: true})
	for range 3 {
		w.node.ask(w, "token:noisy")
	}
	w.node.flush(w)
	now := w.node.clock.Now()
	filter := url.Values{"since": {now.Add(-time.Hour).Format(time.RFC3339)}, "until": {now.Format(time.RFC3339)}}.Encode()
	w.submit(submission{route: "/bulk/add", form: url.Values{"all": {"yes"}, "filter": {filter}, "count": {"1"}, "for": {"1h"}}, action: "block.import", after: true})
}

func (w *audited) decisions() {
	w.Helper()
	for _, does := range []string{"accept", "dismiss"} { // a dismissed proposal is not made again for a while
		now := w.node.clock.Now()
		p, err := w.node.store.Proposals.PutProposal(w.Context(), offences.Proposal{Pattern: pattern(w, "ip:198.51.100.0/24"), Created: now, Updated: now}, now.Add(-time.Hour))
		must(w, err)
		w.submit(submission{
			route: "/proposals/:id/" + does, path: "/proposals/" + p.Proposal.ID + "/" + does, form: url.Values{"for": {"1h"}, "reason": {"scrapers"}},
			action: "proposal." + does, before: true, after: true,
		})
	}
}

func (w *audited) policies() {
	w.Helper()
	form := func(limit, expect string) url.Values {
		return url.Values{
			"name": {"search"}, "mode": {string(rules.Enforce)}, "on_failure": {string(rules.FailLocal)}, "limit": {limit}, "window": {"1m"},
			"match": {"token:*"}, "expect": {expect}, "do": {"save"},
		}
	}
	w.submit(submission{route: "/new-policy", form: form("5", ""), action: "policy.create", after: true})
	w.submit(submission{route: "/policies/:name", path: "/policies/search", form: form("6", w.node.tag(w, "search", 1)), action: "policy.replace", before: true, after: true})
	w.submit(submission{route: "/policies/:name/return", path: "/policies/search/return", form: url.Values{"version": {"1"}, "expect": {w.node.tag(w, "search", 2)}}, action: "policy.replace", before: true, after: true})
	w.submit(submission{route: "/presets/:name", path: "/presets/scraper", form: url.Values{"mode": {"enforce"}}, action: "policy.create", after: true})
	w.submit(submission{route: "/policies/:name/rename", path: "/policies/search/rename", form: url.Values{"to": {"find"}, "expect": {w.node.tag(w, "search", 3)}}, action: "policy.rename", before: true, after: true})
	w.submit(submission{route: "/policies/:name/rename", path: "/policies/find/rename", form: url.Values{"to": {"search"}, "expect": {w.node.tag(w, "find", 4)}}, action: "policy.rename", before: true, after: true})
	for _, route := range []string{"/policies/:name/discard", "/policies/:name/promote"} {
		shadow := form("9", w.node.tag(w, "search", 5))
		shadow.Set("do", "shadow")
		w.submit(submission{route: "/policies/:name", path: "/policies/search", form: shadow, action: "policy.create", after: true})
		draft, err := w.node.store.Policies.FindPolicyByName(w.Context(), "search.draft")
		must(w, err)
		w.submit(submission{route: route, path: strings.Replace(route, ":name", "search", 1), form: url.Values{"expect": {string(rules.TagOf(draft))}}, action: "policy.delete", before: true})
	}
	w.submit(submission{route: "/policies/:name/delete", path: "/policies/search/delete", form: url.Values{"confirm": {"search"}, "expect": {w.node.tag(w, "search", 6)}}, action: "policy.delete", before: true})
}

func (w *audited) sources() {
	w.Helper()
	const list, one = "/blocks/sources", "/blocks/sources/:name"
	w.node.list = "" // which is refused, so that the source is all that there is
	w.submit(submission{route: list, form: url.Values{"name": {"bad"}, "url": {"https://lists.example.com/"}, "as": {"block"}, "every": {"2h"}}, action: "source.add", after: true})
	w.node.list = "198.51.100.41\n198.51.100.42\n"
	w.submit(submission{route: one + "/pull", path: list + "/bad/pull", action: "block.pull", after: true})
	for i := range 250 {
		w.node.list += fmt.Sprintf("192.0.2.%d\n", i)
	}
	if held := w.who.post(list+"/bad/pull", nil); held.status != http.StatusSeeOther {
		w.Fatalf("the pull of a list that has grown: got %d", held.status)
	}
	w.submit(submission{route: one + "/agree", path: list + "/bad/agree", action: "block.pull", after: true})
	w.submit(submission{route: one + "/remove", path: list + "/bad/remove", action: "source.remove", before: true})
}

func (w *audited) identities() {
	w.Helper()
	token := w.submit(submission{route: "/tokens", form: url.Values{"name": {"ci"}, "scopes": {string(identity.Read)}, "for": {"30d"}}, action: "token.add", after: true}).ObjectID
	w.submit(submission{route: "/tokens/:id/rotate", path: "/tokens/" + token + "/rotate", action: "token.update", before: true, after: true})
	w.submit(submission{route: "/connect/:name/token", path: "/connect/nginx/token", action: "token.add", after: true})
	w.submit(submission{route: "/tokens/:id/delete", path: "/tokens/" + token + "/delete", action: "token.revoke", before: true, after: true})
	user := w.submit(submission{route: "/users", form: url.Values{"name": {"ada"}, "role": {string(identity.Viewer)}, "password": {password}}, action: "user.add", after: true}).ObjectID
	w.submit(submission{route: "/users/:id/invitation", path: "/users/" + user + "/invitation", action: "user.invite"})
	for does, form := range map[string]url.Values{"role": {"role": {string(identity.Operator)}}, "password": {"password": {"another " + password}}} {
		w.submit(submission{route: "/users/:id/" + does, path: "/users/" + user + "/" + does, form: form, action: "user.update", before: true, after: true})
	}
	for _, does := range []string{"disable", "enable"} {
		w.submit(submission{route: "/users/:id/" + does, path: "/users/" + user + "/" + does, action: "user.update", before: true, after: true})
	}
	storetest.SetUpTOTP(w, w.node.store.Factors, user)
	w.submit(submission{route: "/users/:id/totp/reset", path: "/users/" + user + "/totp/reset", action: "user.reset_totp", before: true, after: true})
	w.submit(submission{route: "/users/:id/delete", path: "/users/" + user + "/delete", action: "user.delete", before: true})
}

func (w *audited) notifications() {
	w.Helper()
	const list, one = "/notifications/channels", "/notifications/channels/:name"
	fields := url.Values{"name": {"phone"}, "type": {"ntfy"}, "url_secret": {"ntfy://ntfy.example.com/topic"}, "enabled": {"yes"}}
	w.submit(submission{route: list, form: fields, action: "channel.add", after: true})
	w.submit(submission{route: one, path: list + "/phone", form: url.Values{"type": {"ntfy"}, "kinds": {"outage"}, "enabled": {"yes"}, "expect": {w.who.get(list + "/phone").expects()}}, action: "channel.update", before: true, after: true})
	for _, verb := range []string{"disable", "enable"} {
		w.submit(submission{route: one + "/" + verb, path: list + "/phone/" + verb, action: "channel.update", before: true, after: true})
	}
	w.submit(submission{route: one + "/delete", path: list + "/phone/delete", form: url.Values{"expect": {w.who.get(list + "/phone").expects()}}, action: "channel.delete", before: true})
	const silences = "/notifications/silences"
	id := w.submit(submission{route: silences, form: url.Values{"for": {"1h"}, "reason": {"maintenance"}}, action: "silence.add", after: true}).ObjectID
	w.submit(submission{route: silences + "/:id/end", path: silences + "/" + id + "/end", action: "silence.end", before: true})
}

// account has maria set up her own second factor and disable it.
func (w *audited) account() {
	w.Helper()
	secret := w.who.startTOTP()
	confirm := url.Values{"code": {w.node.code(w, secret)}, "password": {password}}
	w.submit(submission{route: "/account/totp", form: confirm, action: "user.enable_totp", before: true, after: true})
	w.node.clock.advance(time.Minute) // no code is accepted twice
	renew := url.Values{"code": {w.node.code(w, secret)}}
	w.submit(submission{route: "/account/totp/recovery", form: renew, action: "user.renew_recovery_codes", before: true, after: true})
	w.node.clock.advance(time.Minute)
	disable := url.Values{"password": {password}, "code": {w.node.code(w, secret)}}
	w.submit(submission{route: "/account/totp/disable", form: disable, action: "user.disable_totp", before: true, after: true})
}
