package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/storetest"
)

// change is a request that changes something, and the audit record that it must write.
type change struct {
	operation          string
	method, path, body string
	action             string // of the newest record after it
	before, after      bool   // whether the record has them
	headers            []string
}

// unauditedOperations are the operations other than GET that change nothing, and those for which
// these tests replace the code that writes the record; the tests of package sqlstore cover them.
var unauditedOperations = []string{"previewBlock", "explainDraft", "planPolicies", "tryPolicy", "backtestPolicy", "testNotification", "restore", "resumeEscalation"}

// audited makes changes and checks the audit record of each.
type audited struct {
	*testNode
	seen map[string]bool
}

func (d *audited) entries() []wire.AuditEntry {
	d.Helper()
	return read[wire.Page[wire.AuditEntry]](d, d.must(d.as(reader, get, wire.PathAudit, ""), http.StatusOK)).Items
}

// isSet reports whether a part of a record is not empty.
func isSet(part []byte) bool { return len(part) > 0 && string(part) != "null" }

func (d *audited) do(c change) answer {
	d.Helper()
	known := d.entries()[0].ID
	a := d.as(administer, c.method, c.path, c.body, c.headers...)
	if a.status >= http.StatusBadRequest {
		d.Fatalf("%s: got %d: %s", c.operation, a.status, a.body)
	}
	d.seen[c.operation] = true
	entry := d.entries()[0]
	switch {
	case entry.ID == known:
		d.Errorf("%s wrote no audit record", c.operation)
	case entry.Action != c.action:
		d.Errorf("%s wrote an audit record of %q, want %q", c.operation, entry.Action, c.action)
	case entry.Actor.Kind != string(audit.Token) || entry.Actor.Name != "test-admin" || entry.Actor.Address != "127.0.0.1":
		d.Errorf("%s: got the actor %+v, want test-admin at 127.0.0.1", c.operation, entry.Actor)
	case entry.At.IsZero() || entry.Object == "" || entry.Summary == "":
		d.Errorf("%s: the audit record is incomplete: %+v", c.operation, entry)
	case isSet(entry.Before) != c.before || isSet(entry.After) != c.after:
		d.Errorf("%s: the audit record has before %s and after %s, want before %v, after %v", c.operation, entry.Before, entry.After, c.before, c.after)
	}
	return a
}

func TestOperationsThatChangeSomethingWriteAuditRecords(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		d := &audited{testNode: n, seen: map[string]bool{}}
		d.changePolicies()
		d.changeBlocks()
		d.changeIdentities()
		d.decideProposals()
		d.do(change{operation: "resetKey", method: del, path: "/v1/keys?key=token:a", action: "key.reset"})
		d.do(change{operation: "eraseKey", method: post, path: "/v1/keys/erase", body: `{"key":"token:a","confirm":"token:a"}`, action: "key.erase", after: true})
		d.do(change{operation: "correctSite", method: put, path: "/v1/sites", body: `{"host":"shop.example.org","own_paths":["/phpmyadmin/*"]}`, action: "site.correct", after: true})
		note := read[wire.Note](t, d.do(change{operation: "addNote", method: post, path: "/v1/keys/notes", body: `{"key":"token:a","text":"ours"}`, action: "note.add", after: true}))
		d.do(change{operation: "deleteNote", method: del, path: "/v1/keys/notes/" + note.ID, action: "note.delete", before: true})
		d.do(change{operation: "putProfile", method: put, path: "/v1/keys/token:a", body: `{"plan":"gold"}`, action: "profile.set", after: true})
		d.do(change{operation: "putLimit", method: put, path: "/v1/keys/limits/token:a", body: `{"rules":["5/s"],"reason":"launch"}`, action: "profile.limit", before: true, after: true})
		d.do(change{operation: "endLimit", method: del, path: "/v1/keys/limits/token:a", action: "profile.end_limit", before: true, after: true})
		d.do(change{operation: "deleteProfile", method: del, path: "/v1/keys/token:a", action: "profile.delete", before: true, headers: []string{"If-Match: *"}})
		d.do(change{operation: "importProfiles", method: post, path: "/v1/profiles/import", body: "key,plan\ntoken:b,gold\n", headers: []string{"Content-Type: text/csv"}, action: "profile.import", after: true})
		d.changeChannels()
		d.changeSources()
		d.do(change{operation: "runJob", method: post, path: "/v1/jobs/good/run", action: "job.run"})
		d.do(change{operation: "writeReport", method: post, path: wire.PathReports, body: `{"kind":"daily"}`, action: "report.write"})
		d.do(change{operation: "backup", method: get, path: wire.PathBackup, action: "backup.read"})
		for _, r := range n.api.routes {
			if r.Listener == httpserver.Admin && r.Method != get && r.Operation != nil &&
				!d.seen[r.Operation.ID] && !slices.Contains(unauditedOperations, r.Operation.ID) {
				t.Errorf("no test checks the audit record of %s", r.Operation.ID)
			}
		}
		for _, e := range d.entries() {
			if text := string(e.Before) + string(e.After); strings.Contains(text, "hash") || strings.Contains(text, "secret") || strings.Contains(text, "argon2") {
				t.Errorf("the audit record of %s contains a secret: %s", e.Action, text)
			}
		}
	}, func(d *nodeParts) { d.Backups.Store = &memoryBackups{held: []byte("data")} })
}

func (d *audited) changeChannels() {
	d.Helper()
	const phone, body = wire.PathChannels + "/phone", `{"name":"phone","type":"ntfy","url":"ntfy://ntfy.example.com/topic"}`
	d.do(change{operation: "addChannel", method: post, path: wire.PathChannels, body: body, action: "channel.add", after: true})
	d.do(change{operation: "changeChannel", method: patch, path: phone, body: `{"url":"ntfy://ntfy.example.com/other"}`, action: "channel.update", before: true, after: true, headers: []string{d.ifMatch(phone)}})
	d.do(change{operation: "deleteChannel", method: del, path: phone, action: "channel.delete", before: true, headers: []string{d.ifMatch(phone)}})
	s := read[wire.Silence](d, d.do(change{operation: "addSilence", method: post, path: wire.PathSilences, body: `{"reason":"ours","expires_in":"1h"}`, action: "silence.add", after: true}))
	d.do(change{operation: "endSilence", method: del, path: wire.PathSilences + "/" + s.ID, action: "silence.end", before: true})
}

func (d *audited) changeSources() {
	d.Helper()
	const path = wire.PathBlockSources + "/bad"
	d.publish(0, 50)
	d.do(change{operation: "addBlockSource", method: post, path: wire.PathBlockSources, body: `{"name":"bad","url":"https://lists.example.com/bad.txt"}`, action: "block.pull", after: true})
	d.publish(0, 60)
	d.do(change{operation: "pullBlockSource", method: post, path: path + "/pull", action: "block.pull", after: true})
	d.publish(100, 60)
	d.must(d.as(operate, post, path+"/pull", ""), http.StatusOK)
	d.do(change{operation: "agreeBlockSource", method: post, path: path + "/agree", action: "block.pull", after: true})
	d.do(change{operation: "removeBlockSource", method: del, path: path, action: "source.remove", before: true})
}

func (d *audited) changePolicies() {
	d.Helper()
	const path, body = "/v1/policies/search", `{"match":["token:*"],"rules":["%d/s"]}`
	d.do(change{operation: "putPolicy", method: put, path: path, body: fmt.Sprintf(body, 1), action: "policy.create", after: true})
	d.do(change{operation: "putPolicy", method: put, path: path, body: fmt.Sprintf(body, 2), action: "policy.replace", before: true, after: true, headers: []string{d.ifMatch(path)}})
	undo := fmt.Sprintf("/v1/audit/%d/undo", d.entries()[0].ID)
	d.do(change{operation: "undoEntry", method: post, path: undo, action: "policy.replace", before: true, after: true})
	d.must(d.as(administer, put, path+".draft", `{"match":["host:drafted"],"rules":["7/m"],"mode":"shadow"}`), http.StatusCreated)
	d.do(change{operation: "promotePolicy", method: post, path: path + "/promote?confirm=" + path[len(wire.PathPolicies)+1:], action: "policy.delete", before: true, headers: []string{d.ifMatch(path + ".draft")}})
	d.do(change{operation: "renamePolicy", method: post, path: path + "/rename", body: `{"name":"renamed"}`, action: "policy.rename", before: true, after: true, headers: []string{d.ifMatch(path)}})
	d.do(change{operation: "renamePolicy", method: post, path: wire.PathPolicies + "/renamed/rename", body: `{"name":"` + path[len(wire.PathPolicies)+1:] + `"}`, action: "policy.rename", before: true, after: true, headers: []string{"If-Match: *"}})
	d.do(change{operation: "rollBackPolicy", method: post, path: path + "/rollback", body: `{"version":2}`, action: "policy.replace", before: true, after: true, headers: []string{d.ifMatch(path)}})
	d.do(change{operation: "deletePolicy", method: del, path: path, action: "policy.delete", before: true, headers: []string{d.ifMatch(path)}})
	file := `{"policies":[{"name":"login","match":["token:*"],"rules":["5/m"]}]}`
	d.do(change{operation: "applyPolicies", method: post, path: wire.PathPolicySet, body: file, action: "policy.create", after: true})
}

func (d *audited) changeBlocks() {
	d.Helper()
	b := read[wire.AddedEntry](d, d.do(change{operation: "addBlock", method: post, path: wire.PathBlocks, body: `{"pattern":"token:a"}`, action: "block.add", after: true}))
	d.do(change{operation: "changeBlock", method: patch, path: "/v1/blocks/" + b.ID, body: `{"reason":"other"}`, action: "block.update", before: true, after: true})
	d.do(change{operation: "endBlock", method: del, path: "/v1/blocks/" + b.ID, action: "block.end", before: true, after: true})
	d.do(change{operation: "restoreBlock", method: post, path: "/v1/blocks/" + b.ID + "/restore", action: "block.restore", before: true, after: true})
	d.do(change{operation: "importBlocks", method: post, path: "/v1/blocks/import", body: "token:b\n", action: "block.import", after: true, headers: []string{plainBody}})
	d.do(change{operation: "importExemptions", method: post, path: "/v1/exemptions/import", body: "token:d\n", action: "exemption.import", after: true, headers: []string{plainBody}})
	e := read[wire.AddedEntry](d, d.do(change{operation: "addExemption", method: post, path: wire.PathExemptions, body: `{"pattern":"token:c"}`, action: "exemption.add", after: true}))
	d.do(change{operation: "changeExemption", method: patch, path: "/v1/exemptions/" + e.ID, body: `{"reason":"other"}`, action: "exemption.update", before: true, after: true})
	d.do(change{operation: "endExemption", method: del, path: "/v1/exemptions/" + e.ID, action: "exemption.end", before: true, after: true})
	d.do(change{operation: "restoreExemption", method: post, path: "/v1/exemptions/" + e.ID + "/restore", action: "exemption.restore", before: true, after: true})
}

func (d *audited) changeIdentities() {
	d.Helper()
	token := read[wire.CreatedToken](d, d.do(change{operation: "addToken", method: post, path: wire.PathTokens, body: `{"name":"ci","scopes":["read"]}`, action: "token.add", after: true}))
	path := "/v1/tokens/" + token.ID
	d.do(change{operation: "changeToken", method: patch, path: path, body: `{"name":"ci-prod"}`, action: "token.update", before: true, after: true})
	d.do(change{operation: "rotateToken", method: post, path: path + "/rotate", body: `{"overlap":"1h"}`, action: "token.update", before: true, after: true})
	d.do(change{operation: "addGatewayToken", method: post, path: wire.PathConnect + "/nginx/token", action: "token.add", after: true})
	d.do(change{operation: "revokeToken", method: del, path: path, action: "token.revoke", before: true, after: true})
	user := read[wire.User](d, d.do(change{operation: "addUser", method: post, path: wire.PathUsers, body: `{"name":"ada","role":"viewer","password":"correct horse"}`, action: "user.add", after: true}))
	path = "/v1/users/" + user.ID
	d.do(change{operation: "inviteUser", method: post, path: path + "/invitation", action: "user.invite"})
	d.do(change{operation: "changeUser", method: patch, path: path, body: `{"disabled":true}`, action: "user.update", before: true, after: true})
	d.do(change{operation: "setPassword", method: put, path: path + "/password", body: `{"password":"battery staple"}`, action: "user.update", before: true, after: true})
	d.setUpTOTP(user.ID)
	d.do(change{operation: "resetTOTP", method: del, path: path + "/totp", action: "user.reset_totp", before: true, after: true})
	d.do(change{operation: "deleteUser", method: del, path: path, action: "user.delete", before: true})
}

// setUpTOTP gives a user a second factor, which only the user can do, on the pages.
func (d *audited) setUpTOTP(user string) {
	d.Helper()
	storetest.SetUpTOTP(d, d.store.Factors, user)
}

func (d *audited) decideProposals() {
	d.Helper()
	// In this order: a dismissed proposal is not made again for a while.
	for _, c := range []change{
		{operation: "acceptProposal", path: "accept", body: `{"reason":"scrapers","expires_in":"1h"}`, action: "proposal.accept"},
		{operation: "dismissProposal", path: "dismiss", body: `{"reason":"ours"}`, action: "proposal.dismiss"},
	} {
		pattern, err := (keys.Parser{}).Pattern("ip:198.51.100.0/24")
		if err != nil {
			d.Fatal(err)
		}
		p, err := d.store.Proposals.PutProposal(d.Context(), offences.Proposal{Pattern: pattern, Created: start, Updated: start}, start.Add(-time.Hour))
		if err != nil || p == nil {
			d.Fatal(p, err)
		}
		c.method, c.before, c.after = post, true, true
		c.path = wire.PathProposals + "/" + p.Proposal.ID + "/" + c.path
		d.do(c)
	}
}
