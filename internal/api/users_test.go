package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

func TestLastAdminTokenCannotBeRevoked(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		var own string
		for _, token := range read[wire.Page[wire.Token]](t, n.as(administer, get, "/v1/tokens", "")).Items {
			if token.Name == "test-admin" {
				own = token.ID
			}
		}
		n.wantProblem(n.as(administer, del, "/v1/tokens/"+own, ""), http.StatusConflict, "")
		n.must(n.as(administer, get, "/v1/tokens/"+own, ""), http.StatusOK)
	})
}

func TestUserIsCreatedUpdatedAndDeleted(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, n *testNode) {
		a := n.must(n.as(administer, post, "/v1/users", `{"name":"ada","role":"viewer","password":"correct horse"}`), http.StatusCreated)
		u := read[wire.User](t, a)
		if strings.Contains(a.body, "argon2") || u.Role != "viewer" || u.Disabled {
			t.Fatalf("got %s", a.body)
		}
		path := "/v1/users/" + u.ID
		n.wantProblem(n.as(administer, post, "/v1/users", `{"name":"ada","role":"viewer","password":"correct horse"}`), http.StatusConflict, "name")
		if u = read[wire.User](t, n.must(n.as(administer, patch, path, `{"role":"operator","disabled":true}`), http.StatusOK)); u.Role != "operator" || !u.Disabled {
			t.Fatalf("got %+v", u)
		}
		n.wantProblem(n.as(administer, patch, path, `{"disabled":null}`), http.StatusUnprocessableEntity, "disabled")
		n.must(n.as(administer, put, path+"/password", `{"password":"battery staple"}`), http.StatusOK)
		stored, err := n.store.Identities.FindUserByID(t.Context(), u.ID)
		if err != nil || !identity.VerifyPassword(stored.PasswordHash, "battery staple") {
			t.Fatalf("the password was not changed: %v", err)
		}
		audited := n.must(n.as(reader, get, "/v1/audit?limit=1000", ""), http.StatusOK).body
		if strings.Contains(audited, "argon2") || strings.Contains(audited, "battery") {
			t.Error("the audit contains a password or its hash")
		}
		n.must(n.as(administer, get, path, ""), http.StatusOK)
		n.must(n.as(administer, del, path, ""), http.StatusNoContent)
		n.wantProblem(n.as(administer, get, path, ""), http.StatusNotFound, "")
	})
}

// callChannels sets up, changes and silences notification channels.
func (d *described) callChannels() {
	const channels, silences = "/v1/notifications/channels", "/v1/notifications/silences"
	const phone = `{"name":"phone","type":"ntfy","url":"ntfy://me:hunter2@ntfy.example.com/topic"}`
	for _, bad := range []string{
		`{"name":"phone","type":"ntfy","url":"ntfy://me:hunter2@host/topic","kinds":["weather"]}`, `{"name":"webhook","type":"ntfy","url":"ntfy://me:hunter2@host/topic"}`,
		`{"name":"No Name","type":"ntfy","url":"ntfy://me:hunter2@host/topic"}`, `{"name":"phone","type":"pigeon","url":"ntfy://me:hunter2@host/topic"}`,
		`{"name":"phone","type":"ntfy","url":"hunter2"}`, `{"name":"phone","type":"ntfy","url":"ntfy://hunter2"}`, `{"name":"phone","type":"gotify","url":"ntfy://me:hunter2@host/topic"}`,
		`{"name":"phone","type":"ntfy"}`, `{"name":"phone","type":"ntfy","url":"ntfy://me:hunter2@host/topic","to":["a@example.com"]}`,
		`{"name":"phone","type":"ntfy","url":"ntfy://me:hunter2@host/topic","signing_secret":"hunter2"}`, `{"name":"phone","type":"webhook","url":"file:///hunter2"}`,
		`{"name":"phone","type":"ntfy","url":"ntfy://me:hunter2@host/topic","urgent_only":true,"kinds":["report"]}`,
		`{"name":"phone","type":"email","url":"smtp://me:hunter2@host","from":"nobody","to":["a@example.com"]}`, `{"name":"phone","type":"email","url":"smtp://me:hunter2@host","from":"a@example.com"}`,
	} {
		if a := d.do("addChannel", post, channels, bad, 422); strings.Contains(a.body, "hunter2") {
			d.Errorf("%s: the response contains the secret: %s", bad, a.body)
		}
	}
	for field, bad := range map[string]string{
		"from": `"from":"a@example.com\nBcc: b@example.com","to":["a@example.com"]`, "to": `"from":"a@example.com","to":["b@example.com","a\nb@example.com"]`,
	} {
		a := d.do("addChannel", post, channels, `{"name":"mail","type":"email","url":"smtp://me:hunter2@host",`+bad+`}`, 422)
		if got := read[wire.Problem](d, a).Field; got != field {
			d.Errorf("%s: the problem is of the field %q, want %q", bad, got, field)
		}
	}
	d.do("addChannel", post, channels, phone, 201)
	d.do("addChannel", post, channels, phone, 409)
	for _, a := range []answer{
		d.do("listChannels", get, channels, "", 200), d.do("getChannel", get, channels+"/phone", "", 200),
		d.do("changeChannel", patch, channels+"/phone", `{"kinds":["outage"],"enabled":false}`, 200, d.ifMatch(channels+"/phone")),
	} {
		if strings.Contains(a.body, "hunter2") {
			d.Errorf("the response contains the secret: %s", a.body)
		}
	}
	d.do("getChannel", get, channels+"/nobody", "", 404, "If-Match: *")
	d.do("changeChannel", patch, channels+"/phone", `{"type":"email"}`, 422, "If-Match: *")
	d.do("changeChannel", patch, channels+"/phone", `{"enabled":true}`, 428)
	d.do("changeChannel", patch, channels+"/phone", `{"enabled":true}`, 412, `If-Match: "0123456789abcdef"`)
	d.do("deleteChannel", del, channels+"/phone", "", 412, `If-Match: "0123456789abcdef"`)
	d.do("changeChannel", patch, channels+"/desk", `{"enabled":false}`, 409, "If-Match: *")
	d.do("deleteChannel", del, channels+"/desk", "", 409, "If-Match: *")
	d.do("deleteChannel", del, channels+"/nobody", "", 404, "If-Match: *")
	for _, bad := range []string{
		`{"reason":"x"}`, `{"reason":"x","expires_in":"31d"}`, `{"expires_in":"1h"}`, `{"reason":"x","expires_in":"1h","kind":"weather"}`,
		`{"reason":"x","expires_in":"1h","channel":"nobody"}`,
	} {
		d.do("addSilence", post, silences, bad, 422)
	}
	made := read[wire.Silence](d, d.do("addSilence", post, silences, `{"reason":"maintenance","expires_in":"1h","channel":"phone"}`, 201))
	d.do("listSilences", get, silences, "", 200)
	d.do("endSilence", del, silences+"/"+made.ID, "", 204)
	d.do("endSilence", del, silences+"/"+made.ID, "", 404)
	d.do("deleteChannel", del, channels+"/phone", "", 204, d.ifMatch(channels+"/phone"))
}
