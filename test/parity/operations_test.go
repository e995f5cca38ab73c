package parity

import "github.com/stint-dev/stint/internal/cli/console"

func changeKeys(o *operator) {
	key := func(id string) string { return "key" + o.name + ":" + id }
	o.setPolicy(o.name, key("*"), "5/1m")
	reset := func(key, policy string, c change) change {
		c.rest, c.page, c.command = send("DELETE", "/v1/keys?key="+key), submit("/key/reset", "key", key), run("key", "reset", key)
		if policy != "" {
			c.rest.path += "&policy=" + policy
			c.page = submit("/key/reset", "key", key, "policy", policy)
			c.command = run("key", "reset", key, "--policy", policy)
		}
		return c
	}
	o.change("key: reset", reset(key("1"), "", change{}))
	o.change("key: reset under one policy", reset(key("1"), o.name, change{}))
	o.change("key: reset without a key", reset("", "", change{want: fault{"invalid", "key"}}))
	o.change("key: reset a bad key", reset("ip:300.1.1.1", "", change{want: fault{"invalid", "key"}}))
	o.change("key: reset under an unknown policy", reset(key("1"), "none", change{want: fault{"invalid", "policy"}, exit: console.NotFound}))
	erase := func(key string, want fault) change {
		return change{
			want:    want,
			rest:    send("POST", "/v1/keys/erase", object{"key": key, "confirm": key}),
			page:    submit("/key/erase", "key", key, "confirm", key),
			command: run("key", "erase", key, "--yes"),
		}
	}
	o.change("key: erase", erase(key("2"), fault{}))
	o.change("key: erase a bad key", erase("ip:300.1.1.1", fault{"invalid", "key"}))
	o.change("key: erase without a confirmation", change{
		want:    fault{"confirmation_required", "confirm"},
		rest:    send("POST", "/v1/keys/erase", object{"key": key("3")}),
		page:    submit("/key/erase", "key", key("3")),
		command: run("key", "erase", key("3")),
		words:   texts{byCommand: "--yes"},
	})
	changeProfiles(o, key)
	changeOwnLimits(o, key)
	correct := func(path string, want fault) change {
		host := "shop" + o.name + ".example"
		return change{
			want:    want,
			rest:    send("PUT", "/v1/sites", object{"host": host, "own_paths": list{path}}),
			page:    submit("/sites", "host", host, "own_paths", path),
			command: run("site", "set", host, "--own-path", path),
		}
	}
	o.change("site: correct", correct("/pma/*", fault{}))
	o.change("site: correct with every path", correct("/*", fault{"invalid", "own_paths"}))
	o.change("site: correct with an unknown list", correct("@none", fault{"invalid", "own_paths"}))
	addNote := func(key, text string, c change) change {
		c.rest = send("POST", "/v1/keys/notes", object{"key": key, "text": text})
		c.page, c.command = submit("/key/note", "key", key, "text", text), run("key", "note", "add", key, text)
		return c
	}
	o.change("note: add", addNote(key("1"), "a customer", change{result: "/v1/keys/notes?key=" + key("1")}))
	o.change("note: add without a text", addNote(key("1"), "", change{want: fault{"invalid", "text"}}))
	o.change("note: add on a bad key", addNote("ip:300.1.1.1", "x", change{want: fault{"invalid", "key"}}))
	deleteNote := func(id string, c change) change {
		c.rest, c.page, c.command = send("DELETE", "/v1/keys/notes/"+id), submit("/key/note/delete", "id", id), run("key", "note", "delete", id)
		return c
	}
	note := o.setUpID(send("POST", "/v1/keys/notes", object{"key": key("2"), "text": "x"}))
	o.change("note: delete", deleteNote(note, change{result: "/v1/keys/notes?key=" + key("2")}))
	o.change("note: delete an unknown one", deleteNote(unknown, change{want: fault{"not_found", ""}}))
}

func changeProfiles(o *operator, key func(string) string) {
	o.change("profile: set", change{
		rest:    send("PUT", "/v1/keys/"+key("4"), object{"plan": "gold", "labels": list{"a", "b"}, "note": "pays"}),
		page:    submit("/key/profile", "key", key("4"), "plan", "gold", "labels", "b a", "note", "pays"),
		command: run("key", "set", key("4"), "--plan", "gold", "--label", "b", "--label", "a", "--note", "pays"),
		result:  "/v1/keys/" + key("4"),
	})
	o.change("profile: set a bad plan", change{
		want:    fault{"invalid", "plan"},
		rest:    send("PUT", "/v1/keys/"+key("4"), object{"plan": "Gold"}),
		page:    submit("/key/profile", "key", key("4"), "plan", "Gold"),
		command: run("key", "set", key("4"), "--plan", "Gold"),
	})
	o.setUp(send("PUT", "/v1/keys/"+key("5"), object{"plan": "gold"}))
	tag := o.tag("/v1/keys/" + key("5"))
	o.change("profile: delete", change{
		rest:    send("DELETE", "/v1/keys/"+key("5")).ifMatch(tag),
		page:    submit("/key/profile", "key", key("5"), "plan", "", "delete", "1", "expect", tag),
		command: run("key", "delete", key("5")),
		result:  "/v1/keys?key=" + key("5"),
	})
	o.setUp(send("PUT", "/v1/keys/"+key("17"), object{"plan": "gold"}))
	o.change("profile: change one that another user has changed", change{
		want:  fault{"precondition_failed", ""},
		rest:  send("PUT", "/v1/keys/"+key("17"), object{"plan": "silver"}).ifMatch(unknownTag),
		page:  submit("/key/profile", "key", key("17"), "plan", "silver", "expect", unknownTag),
		words: texts{byPage: "changed this key while you were editing it"},
		lacks: texts{byCommand: "it reads what it changes itself"},
	})
	rows := "key,plan\n" + key("9") + ",gold\n"
	o.change("profiles: import", change{
		rest: send("POST", "/v1/profiles/import", csvText(rows)),
		page: func(o *operator) *answer {
			return o.submit("/keys/import/confirm", "file", o.upload("/keys/import", rows).hidden("file"))
		},
		command: run("key", "import", o.file(rows), "--format", "csv"),
		result:  "/v1/keys/" + key("9"),
	})
	bad := "key,plan\n" + key("9") + ",Gold\n"
	o.change("profiles: import a bad row", change{
		want:    fault{"invalid", ""},
		rest:    send("POST", "/v1/profiles/import", csvText(bad)),
		command: run("key", "import", o.file(bad), "--format", "csv"),
		lacks:   texts{byPage: noBadRows},
	})
}

func changeOwnLimits(o *operator, key func(string) string) {
	limit := func(rule, reason string, c change) change {
		c.rest = send("PUT", "/v1/keys/limits/"+key("6"), object{"rules": list{rule}, "reason": reason})
		c.page = submit("/key/limit", "key", key("6"), "rules", rule, "for", "good", "reason", reason)
		c.command = run("key", "limit", key("6"), rule, "--reason", reason, "--permanent")
		return c
	}
	o.change("own limit: set a bad rule", limit("5/x", "launch", change{want: fault{"invalid", "rules"}}))
	o.change("own limit: set", limit("5/s", "launch", change{result: "/v1/keys/" + key("6")}))
	o.change("own limit: set without a reason", limit("5/s", "", change{want: fault{"invalid", "reason"}}))
	o.setUp(send("PUT", "/v1/keys/limits/"+key("7"), object{"rules": list{"5/s"}, "reason": "launch"}))
	o.change("own limit: end", change{
		rest:    send("DELETE", "/v1/keys/limits/"+key("7")+"?reason=over"),
		page:    submit("/key/limit/end", "key", key("7"), "reason", "over"),
		command: run("key", "limit", key("7"), "--end", "--reason", "over"),
		result:  "/v1/keys?key=" + key("7"),
	})
	o.change("own limit: end none", change{
		want:    fault{"not_found", ""},
		rest:    send("DELETE", "/v1/keys/limits/"+key("8")),
		page:    submit("/key/limit/end", "key", key("8")),
		command: run("key", "limit", key("8"), "--end"),
	})
}

func changeOperations(o *operator) {
	o.change("job: run", change{rest: send("POST", "/v1/jobs/roll-up/run"), page: submit("/jobs/roll-up/run"), command: run("job", "run", "roll-up")})
	o.change("job: run an unknown one", change{
		want: fault{"not_found", ""},
		rest: send("POST", "/v1/jobs/none/run"), page: submit("/jobs/none/run"), command: run("job", "run", "none"),
	})
	o.change("backup", change{
		rest: send("GET", "/v1/backup"), command: run("backup", o.file("")+".backup"),
		lacks: texts{byPage: "a backup is a file of gigabytes; the pages write none"},
	})
	const noReports = "the pages show the reports that the job wrote"
	o.change("report: write", change{
		rest: send("POST", "/v1/reports", object{"kind": "daily"}), command: run("report", "write", "daily"),
		lacks: texts{byPage: noReports},
	})
	o.change("report: write one of an unknown kind", change{
		want: fault{"invalid", "kind"},
		rest: send("POST", "/v1/reports", object{"kind": "hourly"}), command: run("report", "write", "hourly"),
		lacks: texts{byPage: noReports},
	})
	o.change("notification: test", change{
		rest:    send("POST", "/v1/notifications/test", object{"channel": "webhook"}),
		page:    submit("/notifications/test", "channel", "webhook"),
		command: run("notify", "test", "webhook"),
	})
	o.change("notification: test an unknown channel", change{
		want:    fault{"invalid", "channel"},
		rest:    send("POST", "/v1/notifications/test", object{"channel": "pigeon"}),
		page:    submit("/notifications/test", "channel", "pigeon"),
		command: run("notify", "test", "pigeon"),
		exit:    console.NotFound,
	})
	changeChannels(o)
	silence := func(reason string, c change) change {
		c.rest = send("POST", "/v1/notifications/silences", object{"kind": "report", "reason": reason, "expires_in": "1h"})
		c.page = submit("/notifications/silences", "kind", "report", "reason", reason, "for", "1h")
		c.command = run("notify", "silence", "add", "--kind", "report", "--reason", reason, "--for", "1h")
		return c
	}
	added := silence("a move", change{})
	o.change("silence: add", added)
	o.change("silence: add one without a reason", silence("", change{want: fault{"invalid", "reason"}}))
	id := o.setUpID(added.rest)
	o.change("silence: end", change{
		rest:    send("DELETE", "/v1/notifications/silences/"+id),
		page:    submit("/notifications/silences/" + id + "/end"),
		command: run("notify", "silence", "delete", id),
	})
	const noSession = "a token has no session; it is revoked"
	o.change("log out", change{page: submit("/logout"), lacks: texts{byREST: noSession, byCommand: noSession}})
}

func changeChannels(o *operator) {
	const url, channels = "ntfy://ntfy.example.com/topic", "/v1/notifications/channels"
	add := func(name string, c change) change {
		c.rest = send("POST", channels, object{"name": name, "type": "ntfy", "url": url, "kinds": list{"outage"}})
		c.page = submit("/notifications/channels", "name", name, "type", "ntfy", "url_secret", url, "kinds", "outage", "enabled", "yes")
		c.command = run("notify", "channel", "add", name, "--type", "ntfy", "--kind", "outage").input(url + "\n")
		return c
	}
	o.change("channel: add", add("phone-"+o.name, change{result: channels + "/phone-" + o.name}))
	o.change("channel: add one of a bad name", add("Phone", change{want: fault{"invalid", "name"}}))
	// existing adds a channel, and returns its name.
	existing := func(name string) string {
		o.setUp(add(name, change{}).rest)
		return name
	}
	name := existing("chg-" + o.name)
	tag := o.tag(channels + "/" + name)
	o.change("channel: change", change{
		rest:    send("PATCH", channels+"/"+name, object{"type": "ntfy", "kinds": list{"recovery"}, "urgent_only": false, "enabled": true}).ifMatch(tag),
		page:    submit("/notifications/channels/"+name, "type", "ntfy", "kinds", "recovery", "enabled", "yes", "expect", tag),
		command: run("notify", "channel", "set", name, "--kind", "recovery"),
		result:  channels + "/" + name,
	})
	name = existing("late-" + o.name)
	o.change("channel: change one that another user has changed", change{
		want:  fault{"precondition_failed", ""},
		rest:  send("PATCH", channels+"/"+name, object{"type": "ntfy", "kinds": list{"recovery"}}).ifMatch(unknownTag),
		page:  submit("/notifications/channels/"+name, "type", "ntfy", "kinds", "recovery", "enabled", "yes", "expect", unknownTag),
		words: texts{byPage: "saved this channel while you were editing it"},
		lacks: texts{byCommand: "it reads what it changes itself"},
	})
	// enable and disable are the changes of a channel.
	enable := func(name string) change {
		return change{
			rest:    send("PATCH", channels+"/"+name, object{"enabled": true}).ifMatch("*"),
			page:    submit("/notifications/channels/" + name + "/enable"),
			command: run("notify", "channel", "enable", name),
			result:  channels + "/" + name,
		}
	}
	disable := func(name string, want fault) change {
		return change{
			want:    want,
			rest:    send("PATCH", channels+"/"+name, object{"enabled": false}).ifMatch("*"),
			page:    submit("/notifications/channels/" + name + "/disable"),
			command: run("notify", "channel", "disable", name),
			result:  channels + "/" + name,
		}
	}
	o.change("channel: change one of the settings", disable("webhook", fault{"conflict", ""}))
	o.change("channel: disable", disable(existing("dis-"+o.name), fault{}))
	name = existing("ena-" + o.name)
	o.setUp(disable(name, fault{}).rest)
	o.change("channel: enable", enable(name))
	name = existing("del-" + o.name)
	tag = o.tag(channels + "/" + name)
	o.change("channel: delete", change{
		rest:    send("DELETE", channels+"/"+name).ifMatch(tag),
		page:    submit("/notifications/channels/"+name+"/delete", "expect", tag),
		command: run("notify", "channel", "delete", name),
	})
}
