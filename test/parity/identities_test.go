package parity

const gone = "01a1fa6c-97b1-7626-ab8f-8f1dbe1f3933"

func tokenStep(name string) step {
	return step{request: request{"POST", "/v1/tokens", `{"name":"` + name + `","scopes":["check"],"expires_at":"2099-01-01T00:00:00Z"}`}, keep: "id=id"}
}

func userStep(name string) step {
	return step{request: request{"POST", "/v1/users", `{"name":"` + name + `","role":"viewer","password":"` + password + `"}`}, keep: "id=id"}
}

const (
	onlyREST  = "only REST renames a token or moves its end; elsewhere it is rotated"
	anyRole   = "its form has one field, the role"
	unknownID = "the command finds a user or a token by its name in the list, and says that there is none"
)

var identityChanges = []change{
	{
		name: "token: create", rest: request{"POST", "/v1/tokens", `{"name":"t-$N","scopes":["check","read"],"expires_at":"2099-01-01T00:00:00Z"}`},
		pages: []form{{path: "/tokens", fields: []string{"name", "t-$N", "scopes", "check", "scopes", "read", "for", "until", "until", "2099-01-01 00:00"}}},
		cli:   command{args: []string{"token", "add", "t-$N", "--scope", "check", "--scope", "read", "--until", "2099-01-01T00:00:00Z"}},
	},
	{
		name: "token: create without a name", want: fault{"invalid", "name"}, rest: request{"POST", "/v1/tokens", `{"name":"","scopes":["check"]}`},
		pages: []form{{path: "/tokens", fields: []string{"name", "", "scopes", "check", "for", "good"}}}, cli: command{args: []string{"token", "add", "", "--scope", "check"}},
	},
	{
		name: "token: create without a scope", want: fault{"invalid", "scopes"}, rest: request{"POST", "/v1/tokens", `{"name":"u-$N","scopes":[]}`},
		pages: []form{{path: "/tokens", fields: []string{"name", "u-$N", "for", "good"}}}, cli: command{args: []string{"token", "add", "u-$N"}, usage: "scope"},
	},
	{
		name: "token: create with an unknown scope", want: fault{"invalid", "scopes[0]"}, rest: request{"POST", "/v1/tokens", `{"name":"u-$N","scopes":["all"]}`},
		pages: []form{{path: "/tokens", fields: []string{"name", "u-$N", "scopes", "all", "for", "good"}}}, cli: command{args: []string{"token", "add", "u-$N", "--scope", "all"}},
	},
	{
		name: "token: create until a time that has passed", want: fault{"invalid", "expires_at"},
		rest:  request{"POST", "/v1/tokens", `{"name":"u-$N","scopes":["check"],"expires_at":"2001-01-01T00:00:00Z"}`},
		pages: []form{{path: "/tokens", fields: []string{"name", "u-$N", "scopes", "check", "for", "until", "until", "2001-01-01 00:00"}}},
		cli:   command{args: []string{"token", "add", "u-$N", "--scope", "check", "--until", "2001-01-01T00:00:00Z"}},
	},
	{
		name: "token: create one whose name is taken", want: fault{"conflict", "name"}, setup: []step{tokenStep("v-$N")},
		rest:  request{"POST", "/v1/tokens", `{"name":"v-$N","scopes":["check"]}`},
		pages: []form{{path: "/tokens", fields: []string{"name", "v-$N", "scopes", "check", "for", "good"}}}, cli: command{args: []string{"token", "add", "v-$N", "--scope", "check"}},
	},
	{
		name: "token: rotate", setup: []step{tokenStep("w-$N")}, rest: request{"POST", "/v1/tokens/{id}/rotate", ""},
		pages: []form{{path: "/tokens/{id}/rotate"}}, cli: command{args: []string{"token", "rotate", "{id}"}}, result: "/v1/tokens/{id}",
	},
	{
		name: "token: rotate without an overlap", setup: []step{tokenStep("x-$N")}, rest: request{"POST", "/v1/tokens/{id}/rotate", `{"overlap":"0s"}`},
		cli: command{args: []string{"token", "rotate", "{id}", "--overlap", "0s"}}, result: "/v1/tokens/{id}",
		lacks: map[string]string{pages: "its button says that the old secret works for one more day"},
	},
	{
		name: "token: rotate one that was revoked", want: fault{"conflict", ""},
		setup: []step{tokenStep("y-$N"), {request: request{"DELETE", "/v1/tokens/{id}", ""}}},
		rest:  request{"POST", "/v1/tokens/{id}/rotate", ""}, pages: []form{{path: "/tokens/{id}/rotate"}}, cli: command{args: []string{"token", "rotate", "{id}"}},
	},
	{
		name: "token: rotate an unknown one", want: fault{"not_found", ""}, rest: request{"POST", "/v1/tokens/" + gone + "/rotate", ""},
		pages: []form{{path: "/tokens/" + gone + "/rotate"}}, cli: command{args: []string{"token", "rotate", gone}, usage: "there is no active token"},
	},
	{
		name: "token: rename", setup: []step{tokenStep("z-$N")}, rest: request{"PATCH", "/v1/tokens/{id}", `{"name":"zz-$N"}`},
		lacks: map[string]string{pages: onlyREST, cmd: onlyREST},
	},
	{
		name: "token: revoke", setup: []step{tokenStep("a-$N")}, rest: request{"DELETE", "/v1/tokens/{id}", ""},
		pages: []form{{path: "/tokens/{id}/delete"}}, cli: command{args: []string{"token", "delete", "a-$N"}}, result: "/v1/tokens/{id}",
	},
	{
		name: "token: revoke an unknown one", want: fault{"not_found", ""}, rest: request{"DELETE", "/v1/tokens/" + gone, ""},
		pages: []form{{path: "/tokens/" + gone + "/delete"}}, cli: command{args: []string{"token", "delete", gone}, usage: "there is no active token"},
	},
	{
		name: "user: create", rest: request{"POST", "/v1/users", `{"name":"u-$N","role":"operator","password":"` + password + `"}`},
		pages: []form{{path: "/users", fields: []string{"name", "u-$N", "role", "operator", "password", password}}},
		cli:   command{args: []string{"user", "add", "u-$N", "--role", "operator"}, stdin: password + "\n"},
	},
	{
		name: "user: create without a name", want: fault{"invalid", "name"}, rest: request{"POST", "/v1/users", `{"name":"","role":"viewer","password":"` + password + `"}`},
		pages: []form{{path: "/users", fields: []string{"name", "", "role", "viewer", "password", password}}},
		cli:   command{args: []string{"user", "add", "", "--role", "viewer"}, stdin: password + "\n"},
	},
	{
		name: "user: create with an unknown role", want: fault{"invalid", "role"}, rest: request{"POST", "/v1/users", `{"name":"v-$N","role":"root","password":"` + password + `"}`},
		pages: []form{{path: "/users", fields: []string{"name", "v-$N", "role", "root", "password", password}}},
		cli:   command{args: []string{"user", "add", "v-$N", "--role", "root"}, stdin: password + "\n"},
	},
	{
		name: "user: create with a short password", want: fault{"invalid", "password"}, rest: request{"POST", "/v1/users", `{"name":"v-$N","role":"viewer","password":"short"}`},
		pages: []form{{path: "/users", fields: []string{"name", "v-$N", "role", "viewer", "password", "short"}}},
		cli:   command{args: []string{"user", "add", "v-$N", "--role", "viewer"}, stdin: "short\n"},
	},
	{
		name: "user: create one whose name is taken", want: fault{"conflict", "name"}, setup: []step{userStep("w-$N")},
		rest:  request{"POST", "/v1/users", `{"name":"w-$N","role":"viewer","password":"` + password + `"}`},
		pages: []form{{path: "/users", fields: []string{"name", "w-$N", "role", "viewer", "password", password}}},
		cli:   command{args: []string{"user", "add", "w-$N", "--role", "viewer"}, stdin: password + "\n"},
	},
	{
		name: "user: change the role", setup: []step{userStep("a-$N")}, rest: request{"PATCH", "/v1/users/{id}", `{"role":"operator"}`},
		pages: []form{{path: "/users/{id}/role", fields: []string{"role", "operator"}}}, cli: command{args: []string{"user", "set-role", "a-$N", "operator"}}, result: "/v1/users/{id}",
	},
	{
		name: "user: change to an unknown role", want: fault{"invalid", "role"}, setup: []step{userStep("b-$N")}, rest: request{"PATCH", "/v1/users/{id}", `{"role":"root"}`},
		pages: []form{{path: "/users/{id}/role", fields: []string{"role", "root"}}}, cli: command{args: []string{"user", "set-role", "b-$N", "root"}},
	},
	{
		name: "user: change an unknown one", want: fault{"not_found", ""}, rest: request{"PATCH", "/v1/users/" + gone, `{"role":"viewer"}`},
		pages: []form{{path: "/users/" + gone + "/role", fields: []string{"role", "viewer"}}}, cli: command{args: []string{"user", "set-role", gone, "viewer"}, usage: "there is no user"},
	},
	{
		name: "user: disable", setup: []step{userStep("c-$N")}, rest: request{"PATCH", "/v1/users/{id}", `{"disabled":true}`},
		pages: []form{{path: "/users/{id}/disable"}}, cli: command{args: []string{"user", "disable", "c-$N"}}, result: "/v1/users/{id}",
	},
	{
		name: "user: enable", setup: []step{userStep("d-$N"), {request: request{"PATCH", "/v1/users/{id}", `{"disabled":true}`}}},
		rest: request{"PATCH", "/v1/users/{id}", `{"disabled":false}`}, pages: []form{{path: "/users/{id}/enable"}}, cli: command{args: []string{"user", "enable", "d-$N"}}, result: "/v1/users/{id}",
	},
	{
		name: "user: set the password, which ends the sessions", setup: []step{userStep("e-$N")},
		rest: request{"PUT", "/v1/users/{id}/password", `{"password":"another horse battery"}`}, pages: []form{{path: "/users/{id}/password", fields: []string{"password", "another horse battery"}}},
		cli: command{args: []string{"user", "set-password", "e-$N"}, stdin: "another horse battery\n"}, result: "/v1/users/{id}",
	},
	{
		name: "user: invite", setup: []step{userStep("j-$N")}, rest: request{"POST", "/v1/users/{id}/invitation", ""},
		pages: []form{{path: "/users/{id}/invitation"}}, cli: command{args: []string{"user", "invite", "j-$N"}}, result: "/v1/users/{id}",
	},
	{
		name: "user: set a short password", want: fault{"invalid", "password"}, setup: []step{userStep("f-$N")},
		rest: request{"PUT", "/v1/users/{id}/password", `{"password":"short"}`}, pages: []form{{path: "/users/{id}/password", fields: []string{"password", "short"}}},
		cli: command{args: []string{"user", "set-password", "f-$N"}, stdin: "short\n"},
	},
	{
		name: "user: reset the two-factor authentication of one without it", want: fault{"conflict", ""}, setup: []step{userStep("h-$N")},
		rest: request{"DELETE", "/v1/users/{id}/totp", ""}, pages: []form{{path: "/users/{id}/totp/reset"}}, cli: command{args: []string{"user", "totp", "reset", "h-$N"}},
	},
	{
		name: "user: reset the two-factor authentication", setup: []step{userStep("i-$N"), {request: request{"TOTP", "i-$N", ""}}},
		rest: request{"DELETE", "/v1/users/{id}/totp", ""}, pages: []form{{path: "/users/{id}/totp/reset"}}, cli: command{args: []string{"user", "totp", "reset", "i-$N"}}, result: "/v1/users/{id}",
	},
	{
		name: "user: reset the two-factor authentication of an unknown one", want: fault{"not_found", ""}, rest: request{"DELETE", "/v1/users/" + gone + "/totp", ""},
		pages: []form{{path: "/users/" + gone + "/totp/reset"}}, cli: command{args: []string{"user", "totp", "reset", gone}, usage: "there is no user"},
	},
	{
		name: "user: delete", setup: []step{userStep("g-$N")}, rest: request{"DELETE", "/v1/users/{id}", ""},
		pages: []form{{path: "/users/{id}/delete"}}, cli: command{args: []string{"user", "delete", "g-$N"}},
	},
	{
		name: "user: delete an unknown one", want: fault{"not_found", ""}, rest: request{"DELETE", "/v1/users/" + gone, ""},
		pages: []form{{path: "/users/" + gone + "/delete"}}, cli: command{args: []string{"user", "delete", gone}, usage: "there is no user"},
	},
}
