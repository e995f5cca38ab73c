package parity

// The texts of commands about a token or a user that they do not find by its name in the list.
const (
	noToken = "there is no active token"
	noUser  = "there is no user"
)

func changeIdentities(o *operator) {
	changeTokens(o)
	changeUsers(o)
}

// addToken adds a token, and returns its id.
func (o *operator) addToken(name string) string {
	o.t.Helper()
	return o.setUpID(send("POST", "/v1/tokens", object{"name": name, "scopes": list{"check"}, "expires_at": in2099}))
}

func changeTokens(o *operator) {
	t, u, v := "t-"+o.name, "u-"+o.name, "v-"+o.name
	o.change("token: create", change{
		rest:    send("POST", "/v1/tokens", object{"name": t, "scopes": list{"check", "read"}, "expires_at": in2099}),
		page:    submit("/tokens", "name", t, "scopes", "check", "scopes", "read", "for", "until", "until", "2099-01-01 00:00"),
		command: run("token", "add", t, "--scope", "check", "--scope", "read", "--until", in2099),
	})
	o.change("token: create without a name", change{
		want:    fault{"invalid", "name"},
		rest:    send("POST", "/v1/tokens", object{"name": "", "scopes": list{"check"}}),
		page:    submit("/tokens", "name", "", "scopes", "check", "for", "good"),
		command: run("token", "add", "", "--scope", "check"),
	})
	o.change("token: create without a scope", change{
		want:    fault{"invalid", "scopes"},
		rest:    send("POST", "/v1/tokens", object{"name": u, "scopes": list{}}),
		page:    submit("/tokens", "name", u, "for", "good"),
		command: run("token", "add", u),
		words:   texts{byCommand: "scope"},
	})
	o.change("token: create with an unknown scope", change{
		want:    fault{"invalid", "scopes[0]"},
		rest:    send("POST", "/v1/tokens", object{"name": u, "scopes": list{"all"}}),
		page:    submit("/tokens", "name", u, "scopes", "all", "for", "good"),
		command: run("token", "add", u, "--scope", "all"),
	})
	o.change("token: create until a time that has passed", change{
		want:    fault{"invalid", "expires_at"},
		rest:    send("POST", "/v1/tokens", object{"name": u, "scopes": list{"check"}, "expires_at": in2001}),
		page:    submit("/tokens", "name", u, "scopes", "check", "for", "until", "until", "2001-01-01 00:00"),
		command: run("token", "add", u, "--scope", "check", "--until", in2001),
	})
	o.addToken(v)
	o.change("token: create one whose name is taken", change{
		want:    fault{"conflict", "name"},
		rest:    send("POST", "/v1/tokens", object{"name": v, "scopes": list{"check"}}),
		page:    submit("/tokens", "name", v, "scopes", "check", "for", "good"),
		command: run("token", "add", v, "--scope", "check"),
	})
	rotate := func(id string, c change) change {
		c.rest, c.page, c.command = send("POST", "/v1/tokens/"+id+"/rotate"), submit("/tokens/"+id+"/rotate"), run("token", "rotate", id)
		return c
	}
	id := o.addToken("w-" + o.name)
	o.change("token: rotate", rotate(id, change{result: "/v1/tokens/" + id}))
	id = o.addToken("x-" + o.name)
	o.change("token: rotate without an overlap", change{
		rest:    send("POST", "/v1/tokens/"+id+"/rotate", object{"overlap": "0s"}),
		command: run("token", "rotate", id, "--overlap", "0s"),
		result:  "/v1/tokens/" + id,
		lacks:   texts{byPage: "its button says that the old secret works for one more day"},
	})
	id = o.addToken("y-" + o.name)
	o.setUp(send("DELETE", "/v1/tokens/"+id))
	o.change("token: rotate one that was revoked", rotate(id, change{want: fault{"conflict", ""}}))
	o.change("token: rotate an unknown one", rotate(unknown, change{want: fault{"not_found", ""}, words: texts{byCommand: noToken}}))
	id = o.addToken("z-" + o.name)
	const onlyREST = "only REST renames a token or moves its end; elsewhere it is rotated"
	o.change("token: rename", change{
		rest:  send("PATCH", "/v1/tokens/"+id, object{"name": "zz-" + o.name}),
		lacks: texts{byPage: onlyREST, byCommand: onlyREST},
	})
	id = o.addToken("a-" + o.name)
	o.change("token: revoke", change{
		rest: send("DELETE", "/v1/tokens/"+id), page: submit("/tokens/" + id + "/delete"), command: run("token", "delete", "a-"+o.name),
		result: "/v1/tokens/" + id,
	})
	o.change("token: revoke an unknown one", change{
		want: fault{"not_found", ""}, words: texts{byCommand: noToken},
		rest: send("DELETE", "/v1/tokens/"+unknown), page: submit("/tokens/" + unknown + "/delete"), command: run("token", "delete", unknown),
	})
}

// addUser adds a user, and returns its id.
func (o *operator) addUser(name string) string {
	o.t.Helper()
	return o.setUpID(send("POST", "/v1/users", object{"name": name, "role": "viewer", "password": password}))
}

func changeUsers(o *operator) {
	create := func(name, role, password string, want fault) change {
		return change{
			want:    want,
			rest:    send("POST", "/v1/users", object{"name": name, "role": role, "password": password}),
			page:    submit("/users", "name", name, "role", role, "password", password),
			command: run("user", "add", name, "--role", role).input(password + "\n"),
		}
	}
	o.change("user: create", create("u-"+o.name, "operator", password, fault{}))
	o.change("user: create without a name", create("", "viewer", password, fault{"invalid", "name"}))
	o.change("user: create with an unknown role", create("v-"+o.name, "root", password, fault{"invalid", "role"}))
	o.change("user: create with a short password", create("v-"+o.name, "viewer", "short", fault{"invalid", "password"}))
	o.addUser("w-" + o.name)
	o.change("user: create one whose name is taken", create("w-"+o.name, "viewer", password, fault{"conflict", "name"}))
	setRole := func(id, name, role string, c change) change {
		c.rest = send("PATCH", "/v1/users/"+id, object{"role": role})
		c.page, c.command = submit("/users/"+id+"/role", "role", role), run("user", "set-role", name, role)
		return c
	}
	id := o.addUser("a-" + o.name)
	o.change("user: change the role", setRole(id, "a-"+o.name, "operator", change{result: "/v1/users/" + id}))
	id = o.addUser("b-" + o.name)
	o.change("user: change to an unknown role", setRole(id, "b-"+o.name, "root", change{want: fault{"invalid", "role"}}))
	o.change("user: change an unknown one", setRole(unknown, unknown, "viewer", change{want: fault{"not_found", ""}, words: texts{byCommand: noUser}}))
	id = o.addUser("c-" + o.name)
	o.change("user: disable", change{
		rest:    send("PATCH", "/v1/users/"+id, object{"disabled": true}),
		page:    submit("/users/" + id + "/disable"),
		command: run("user", "disable", "c-"+o.name),
		result:  "/v1/users/" + id,
	})
	id = o.addUser("d-" + o.name)
	o.setUp(send("PATCH", "/v1/users/"+id, object{"disabled": true}))
	o.change("user: enable", change{
		rest:    send("PATCH", "/v1/users/"+id, object{"disabled": false}),
		page:    submit("/users/" + id + "/enable"),
		command: run("user", "enable", "d-"+o.name),
		result:  "/v1/users/" + id,
	})
	setPassword := func(id, name, password string, c change) change {
		c.rest = send("PUT", "/v1/users/"+id+"/password", object{"password": password})
		c.page, c.command = submit("/users/"+id+"/password", "password", password), run("user", "set-password", name).input(password+"\n")
		return c
	}
	id = o.addUser("e-" + o.name)
	o.change("user: set the password, which ends the sessions", setPassword(id, "e-"+o.name, "another horse battery", change{result: "/v1/users/" + id}))
	id = o.addUser("f-" + o.name)
	o.change("user: set a short password", setPassword(id, "f-"+o.name, "short", change{want: fault{"invalid", "password"}}))
	id = o.addUser("j-" + o.name)
	o.change("user: invite", change{
		rest:    send("POST", "/v1/users/"+id+"/invitation"),
		page:    submit("/users/" + id + "/invitation"),
		command: run("user", "invite", "j-"+o.name),
		result:  "/v1/users/" + id,
	})
	resetTOTP := func(id, name string, c change) change {
		c.rest, c.page, c.command = send("DELETE", "/v1/users/"+id+"/totp"), submit("/users/"+id+"/totp/reset"), run("user", "totp", "reset", name)
		return c
	}
	id = o.addUser("h-" + o.name)
	o.change("user: reset the two-factor authentication of one without it", resetTOTP(id, "h-"+o.name, change{want: fault{"conflict", ""}}))
	id = o.addUser("i-" + o.name)
	o.setUpTOTP("i-" + o.name)
	o.change("user: reset the two-factor authentication", resetTOTP(id, "i-"+o.name, change{result: "/v1/users/" + id}))
	o.change("user: reset the two-factor authentication of an unknown one",
		resetTOTP(unknown, unknown, change{want: fault{"not_found", ""}, words: texts{byCommand: noUser}}))
	id = o.addUser("g-" + o.name)
	o.change("user: delete", change{
		rest: send("DELETE", "/v1/users/"+id), page: submit("/users/" + id + "/delete"), command: run("user", "delete", "g-"+o.name),
	})
	o.change("user: delete an unknown one", change{
		want: fault{"not_found", ""}, words: texts{byCommand: noUser},
		rest: send("DELETE", "/v1/users/"+unknown), page: submit("/users/" + unknown + "/delete"), command: run("user", "delete", unknown),
	})
}
