package parity

import "strings"

const (
	in2098  = "2098-01-01T00:00:00Z"
	in2099  = "2099-01-01T00:00:00Z"
	in2001  = "2001-01-01T00:00:00Z"
	unknown = "01a1fa6c-97b1-7626-ab8f-8f1dbe1f3933" // the id of nothing
)

func changeEntries(o *operator) {
	changeEntriesOf(o, "block", "block", "The pattern already has a block.")
	changeEntriesOf(o, "exemption", "exempt", "The pattern already has an exemption.")
	guesser := o.address("198.18", 95)
	o.change("block: add with a scope", change{
		rest:    send("POST", "/v1/blocks", object{"pattern": "ip:" + guesser, "reason": "guesses", "scope": "login", "expires_in": "24h"}),
		page:    submit("/blocks", "pattern", guesser, "reason", "guesses", "scope", "login", "for", "24h"),
		command: run("block", "add", "ip:"+guesser, "--reason", "guesses", "--scope", "login", "--for", "24h"),
		result:  "/v1/blocks?key=ip:" + guesser,
	})
	o.change("block: add with a bad scope", change{
		want:    fault{"invalid", "scope"},
		rest:    send("POST", "/v1/blocks", object{"pattern": "ip:" + guesser, "reason": "guesses", "scope": "The login"}),
		page:    submit("/blocks", "pattern", guesser, "reason", "guesses", "scope", "The login", "for", "24h"),
		command: run("block", "add", "ip:"+guesser, "--reason", "guesses", "--scope", "The login"),
	})
	ended := o.addEntry("block", "ip:"+o.address("198.18", 90))
	o.endEntry("block", ended)
	o.change("undo the end of a block", undo(o.record(), fault{}, "/v1/blocks/"+ended))
	o.change("undo an unknown record", undo("999999", fault{"not_found", ""}, ""))
	ended = o.addEntry("block", "ip:"+o.address("198.18", 91))
	addition := o.record()
	o.endEntry("block", ended)
	o.change("undo a change of an entry that has changed since", undo(addition, fault{"conflict", ""}, ""))
	o.endEntry("block", o.addBroad("block", "kind"+o.name+":*"))
	o.change("undo the end of a broad block without a confirmation", undo(o.record(), fault{"confirmation_required", "confirm"}, ""))
	ended = o.addBroad("block", "other"+o.name+":*")
	o.endEntry("block", ended)
	end := o.record()
	o.change("undo the end of a broad block", change{
		rest:    send("POST", "/v1/audit/"+end+"/undo", object{"confirm": "other" + o.name + ":*"}),
		page:    submit("/audit/undo", "id", end, "confirm", "other"+o.name+":*"),
		command: run("audit", "undo", end, "--yes"),
		result:  "/v1/blocks/" + ended,
	})
}

// undo is the change that undoes an audit record.
func undo(record string, want fault, result string) change {
	return change{
		rest: send("POST", "/v1/audit/"+record+"/undo"), page: submit("/audit/undo", "id", record), command: run("audit", "undo", record),
		want: want, result: result,
	}
}

// record returns the id of the newest audit record.
func (o *operator) record() string {
	o.t.Helper()
	id := o.get("/v1/audit?limit=1").member("id")
	o.ids = append(o.ids, "entry "+id)
	return id
}

// addEntry adds a block or an exemption, and returns its id.
func (o *operator) addEntry(kind, pattern string) string {
	o.t.Helper()
	return o.setUpID(send("POST", "/v1/"+kind+"s", object{"pattern": pattern, "reason": "scraping", "expires_at": in2098}))
}

func (o *operator) addBroad(kind, pattern string) string {
	o.t.Helper()
	return o.setUpID(send("POST", "/v1/"+kind+"s", object{"literal": true, "pattern": pattern, "reason": "all", "expires_at": in2098, "confirm": pattern}))
}

func (o *operator) endEntry(kind, id string) {
	o.t.Helper()
	o.setUp(send("DELETE", "/v1/"+kind+"s/"+id))
}

// changeEntriesOf makes the changes of blocks or of exemptions. bulk is what the form for many keys
// calls them, and taken how the pages say that a pattern has one.
func changeEntriesOf(o *operator, kind, bulk, taken string) {
	all, page := "/v1/"+kind+"s", "/"+kind+"s"
	try := func(name string, c change) { o.change(kind+": "+name, c) }
	ip := func(last int) string { return o.address("198.18", last) }
	addOnPage := func(pattern, reason string, more ...string) func(*operator) *answer {
		return submit(page, append([]string{"pattern", pattern, "reason", reason, "for", "until", "until", "2099-01-01 00:00"}, more...)...)
	}
	token, long, everyKey, system := "token:"+o.name, strings.Repeat("x", 1001), o.name+":*", "asn:64"+o.octet
	try("add", change{
		rest:    send("POST", all, object{"pattern": "ip:" + ip(1), "reason": "scraping", "expires_at": in2099}),
		page:    addOnPage(ip(1), "scraping"),
		command: run(kind, "add", "ip:"+ip(1), "--reason", "scraping", "--until", in2099),
		result:  all + "?key=ip:" + ip(1),
	})
	try("add with a duration", change{
		rest:    send("POST", all, object{"pattern": "while:" + o.name, "reason": "scraping", "expires_in": "24h"}),
		page:    submit(page, "pattern", "while:"+o.name, "reason", "scraping", "for", "24h"),
		command: run(kind, "add", "while:"+o.name, "--reason", "scraping", "--for", "24h"),
		result:  all + "?key=while:" + o.name,
	})
	try("add until a time that has passed", change{
		want:    fault{"invalid", "expires_at"},
		rest:    send("POST", all, object{"pattern": token + "-2", "reason": "x", "expires_at": in2001}),
		page:    submit(page, "pattern", token+"-2", "reason", "x", "for", "until", "until", "2001-01-01 00:00"),
		command: run(kind, "add", token+"-2", "--reason", "x", "--until", in2001),
	})
	// permanently adds an entry without an end.
	permanently := func(pattern, reason string, c change) change {
		c.rest, c.page = send("POST", all, object{"pattern": pattern, "reason": reason}), submit(page, "pattern", pattern, "reason", reason, "for", "good")
		c.command = run(kind, "add", pattern, "--reason", reason, "--permanent")
		return c
	}
	try("add permanently", permanently(token, "scraping", change{result: all + "?key=" + token}))
	try("add without a pattern", permanently("", "scraping", change{want: fault{"invalid", "pattern"}}))
	try("add with a bad pattern", permanently("ip:300.1.1.1", "scraping", change{want: fault{"invalid", "pattern"}}))
	try("add with a long reason", permanently(token+"-2", long, change{want: fault{"invalid", "reason"}}))
	try("add a broad one without a confirmation", permanently(everyKey, "all", change{want: fault{"confirmation_required", "confirm"}}))
	try("add of an autonomous system without a confirmation", permanently(system, "hosting", change{want: fault{"confirmation_required", "confirm"}}))
	o.addEntry(kind, "ip:"+ip(2))
	try("add if one is active", permanently("ip:"+ip(2), "again", change{want: fault{"conflict", ""}, words: texts{byPage: taken}}))
	o.addEntry(kind, "ip:"+ip(3))
	try("replace", change{
		rest:    send("POST", all, object{"pattern": "ip:" + ip(3), "reason": "again", "on_conflict": "replace", "expires_at": in2099}),
		page:    addOnPage(ip(3), "again", "replace", "yes"),
		command: run(kind, "add", "ip:"+ip(3), "--reason", "again", "--on-conflict", "replace", "--until", in2099),
		result:  all + "?state=all&key=ip:" + ip(3),
	})
	extended := o.addEntry(kind, "ip:"+ip(4))
	try("extend", change{
		rest: send("POST", all, object{"pattern": "ip:" + ip(4), "reason": "again", "on_conflict": "extend", "expires_at": in2099}),
		page: submit("/bulk/add", "what", bulk, "key", "ip:"+ip(4), "reason", "again",
			"for", "until", "until", "2099-01-01 00:00", "on_conflict", "extend"),
		command: run(kind, "add", "ip:"+ip(4), "--reason", "again", "--on-conflict", "extend", "--until", in2099),
		result:  all + "/" + extended,
	})
	try("add with an unknown on_conflict", change{
		want:    fault{"invalid", "on_conflict"},
		rest:    send("POST", all, object{"pattern": "ip:" + ip(5), "reason": "x", "on_conflict": "merge"}),
		page:    submit("/bulk/add", "what", bulk, "key", "ip:"+ip(5), "reason", "x", "for", "24h", "on_conflict", "merge"),
		command: run(kind, "add", "ip:"+ip(5), "--reason", "x", "--on-conflict", "merge", "--permanent"),
	})
	try("add a broad one", change{
		rest:    send("POST", all, object{"pattern": everyKey, "reason": "all", "expires_at": in2099, "confirm": everyKey}),
		page:    addOnPage(everyKey, "all", "confirm", everyKey),
		command: run(kind, "add", everyKey, "--reason", "all", "--yes", "--until", in2099),
		result:  all + "?key=" + o.name + ":1",
	})
	try("add of an autonomous system", change{
		rest:    send("POST", all, object{"pattern": system, "reason": "hosting", "expires_at": in2099, "confirm": system}),
		page:    addOnPage(system, "hosting", "confirm", system),
		command: run(kind, "add", system, "--reason", "hosting", "--yes", "--until", in2099),
		result:  all + "?search=" + system,
	})
	edit := func(id, revision string, fields ...string) func(*operator) *answer {
		return submit(page+"/"+id, append([]string{"revision", revision}, fields...)...)
	}
	revisionOf := func(id string) string { return o.get(all + "/" + id).member("revision") }
	id := o.addEntry(kind, "ip:"+ip(10))
	try("update", change{
		rest:    send("PATCH", all+"/"+id, object{"reason": "it came back", "expires_at": in2099}),
		page:    edit(id, revisionOf(id), "reason", "it came back", "for", "until", "until", "2099-01-01 00:00"),
		command: run(kind, "edit", id, "--reason", "it came back", "--until", in2099),
		result:  all + "/" + id,
	})
	id = o.addEntry(kind, "ip:"+ip(11))
	try("update with a bad reason", change{
		want:    fault{"invalid", "reason"},
		rest:    send("PATCH", all+"/"+id, object{"reason": long}),
		page:    edit(id, revisionOf(id), "reason", long, "for", "24h"),
		command: run(kind, "edit", id, "--reason", long),
	})
	id = o.addEntry(kind, "ip:"+ip(12))
	revision := revisionOf(id)
	o.setUp(send("PATCH", all+"/"+id, object{"reason": "theirs"}))
	try("update one that was changed since", change{
		want:  fault{"precondition_failed", ""},
		rest:  send("PATCH", all+"/"+id, object{"reason": "mine", "revision": 1}),
		page:  edit(id, revision, "reason", "mine", "for", "24h"),
		lacks: texts{byCommand: "it reads the revision that it changes itself"},
	})
	id = o.addEntry(kind, "ip:"+ip(13))
	o.endEntry(kind, id)
	try("update one that has ended", change{
		want:    fault{"conflict", ""},
		rest:    send("PATCH", all+"/"+id, object{"reason": "mine"}),
		page:    edit(id, revisionOf(id), "reason", "mine", "for", "24h"),
		command: run(kind, "edit", id, "--reason", "mine"),
	})
	try("update an unknown one", change{
		want:    fault{"not_found", ""},
		rest:    send("PATCH", all+"/"+unknown, object{"reason": "mine"}),
		page:    edit(unknown, "1", "reason", "mine", "for", "24h"),
		command: run(kind, "edit", unknown, "--reason", "mine"),
	})
	id = o.addBroad(kind, "e"+everyKey)
	try("extend a broad one without a confirmation", change{
		want:    fault{"confirmation_required", "confirm"},
		rest:    send("PATCH", all+"/"+id, object{"expires_at": in2099}),
		page:    edit(id, revisionOf(id), "reason", "all", "for", "until", "until", "2099-01-01 00:00"),
		command: run(kind, "edit", id, "--until", in2099),
	})
	id = o.addBroad(kind, "f"+everyKey)
	try("extend a broad one", change{
		rest:    send("PATCH", all+"/"+id, object{"expires_at": in2099, "confirm": "f" + everyKey}),
		page:    edit(id, revisionOf(id), "reason", "all", "for", "until", "until", "2099-01-01 00:00", "confirm", "f"+everyKey),
		command: run(kind, "edit", id, "--yes", "--until", in2099),
		result:  all + "/" + id,
	})
	// end and restore are the changes of the entry with an id.
	end := func(id string, want fault, result string) change {
		return change{
			rest: send("DELETE", all+"/"+id), page: submit(page+"/end", "id", id), command: run(kind, "delete", id),
			want: want, result: result,
		}
	}
	restore := func(id string, want fault, result string) change {
		return change{
			rest: send("POST", all+"/"+id+"/restore"), page: submit(page+"/restore", "id", id), command: run(kind, "restore", id),
			want: want, result: result,
		}
	}
	id = o.addEntry(kind, "ip:"+ip(20))
	try("end", end(id, fault{}, all+"/"+id))
	id = o.addEntry(kind, "ip:"+ip(24))
	try("end for a reason", change{
		rest:    send("DELETE", all+"/"+id, object{"reason": "wrong customer"}),
		command: run(kind, "delete", id, "--reason", "wrong customer"),
		result:  all + "/" + id,
		lacks:   texts{byPage: "its button ends at once, with an undo instead of a reason"},
	})
	id = o.addEntry(kind, "ip:"+ip(21))
	o.endEntry(kind, id)
	try("end one that has ended", end(id, fault{"conflict", ""}, ""))
	try("end an unknown one", end(unknown, fault{"not_found", ""}, ""))
	id = o.addEntry(kind, "ip:"+ip(22))
	o.endEntry(kind, id)
	try("restore", restore(id, fault{}, all+"/"+id))
	id = o.addEntry(kind, "ip:"+ip(23))
	o.endEntry(kind, id)
	o.addEntry(kind, "ip:"+ip(23))
	try("restore if another is active", restore(id, fault{"conflict", ""}, ""))
	try("restore an unknown one", restore(unknown, fault{"not_found", ""}, ""))
	id = o.addBroad(kind, "r"+everyKey)
	o.endEntry(kind, id)
	try("restore a broad one without a confirmation", restore(id, fault{"confirmation_required", "confirm"}, ""))
	id = o.addBroad(kind, "s"+everyKey)
	o.endEntry(kind, id)
	try("restore a broad one", change{
		rest:    send("POST", all+"/"+id+"/restore", object{"confirm": "s" + everyKey}),
		command: run(kind, "restore", id, "--yes"),
		result:  all + "/" + id,
		lacks:   texts{byPage: "it leads to the form that adds the pattern again, with its impact"},
	})
}
