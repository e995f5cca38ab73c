package parity

import (
	"slices"
	"strings"
)

const noFilter = "REST and the commands block the patterns that they name; they have no filter"

var entryChanges = slices.Concat(entriesOf("block"), entriesOf("exemption"), []change{
	{
		name:   "block: add with a scope",
		rest:   request{"POST", "/v1/blocks", `{"pattern":"ip:198.18.$O.95","reason":"guesses","scope":"login","expires_in":"24h"}`},
		pages:  []form{{path: "/blocks", fields: []string{"pattern", "198.18.$O.95", "reason", "guesses", "scope", "login", "for", "24h"}}},
		cli:    command{args: []string{"block", "add", "ip:198.18.$O.95", "--reason", "guesses", "--scope", "login", "--for", "24h"}},
		result: "/v1/blocks?key=ip:198.18.$O.95",
	},
	{
		name: "block: add with a bad scope", want: fault{"invalid", "scope"},
		rest:  request{"POST", "/v1/blocks", `{"pattern":"ip:198.18.$O.96","reason":"guesses","scope":"The login"}`},
		pages: []form{{path: "/blocks", fields: []string{"pattern", "198.18.$O.96", "reason", "guesses", "scope", "The login", "for", "24h"}}},
		cli:   command{args: []string{"block", "add", "ip:198.18.$O.96", "--reason", "guesses", "--scope", "The login"}},
	},
	{
		name: "undo the end of a block", want: fault{},
		setup: []step{
			addStep("blocks", "ip:198.18.$O.90", "id=id"), {request: request{"DELETE", "/v1/blocks/{id}", ""}},
			{request: request{"GET", "/v1/audit?limit=1", ""}, keep: "record=items.0.id"},
		},
		rest: request{"POST", "/v1/audit/{record}/undo", ""}, pages: []form{{path: "/audit/undo", fields: []string{"id", "{record}"}}},
		cli: command{args: []string{"audit", "undo", "{record}"}}, result: "/v1/blocks/{id}",
	},
	{
		name: "undo an unknown record", want: fault{"not_found", ""},
		rest: request{"POST", "/v1/audit/999999/undo", ""}, pages: []form{{path: "/audit/undo", fields: []string{"id", "999999"}}},
		cli: command{args: []string{"audit", "undo", "999999"}},
	},
	{
		name: "undo a change of an entry that has changed since", want: fault{"conflict", ""},
		setup: []step{
			addStep("blocks", "ip:198.18.$O.91", "id=id"), {request: request{"GET", "/v1/audit?limit=1", ""}, keep: "record=items.0.id"},
			{request: request{"DELETE", "/v1/blocks/{id}", ""}},
		},
		rest: request{"POST", "/v1/audit/{record}/undo", ""}, pages: []form{{path: "/audit/undo", fields: []string{"id", "{record}"}}},
		cli: command{args: []string{"audit", "undo", "{record}"}},
	},
	{
		name: "undo the end of a broad block without a confirmation", want: fault{"confirmation_required", "confirm"},
		setup: []step{
			addBroad("blocks", "kind$N:*"), {request: request{"DELETE", "/v1/blocks/{id}", ""}},
			{request: request{"GET", "/v1/audit?limit=1", ""}, keep: "record=items.0.id"},
		},
		rest: request{"POST", "/v1/audit/{record}/undo", ""}, pages: []form{{path: "/audit/undo", fields: []string{"id", "{record}"}}},
		cli: command{args: []string{"audit", "undo", "{record}"}},
	},
	{
		name: "undo the end of a broad block", want: fault{},
		setup: []step{
			addBroad("blocks", "other$N:*"), {request: request{"DELETE", "/v1/blocks/{id}", ""}},
			{request: request{"GET", "/v1/audit?limit=1", ""}, keep: "record=items.0.id"},
		},
		rest:   request{"POST", "/v1/audit/{record}/undo", `{"confirm":"other$N:*"}`},
		pages:  []form{{path: "/audit/undo", fields: []string{"id", "{record}", "confirm", "other$N:*"}}},
		cli:    command{args: []string{"audit", "undo", "{record}", "--yes"}},
		result: "/v1/blocks/{id}",
	},
})

func addStep(collection, pattern, keep string) step {
	return step{request: request{"POST", "/v1/" + collection, `{"pattern":"` + pattern + `","reason":"scraping","expires_at":"2098-01-01T00:00:00Z"}`}, keep: keep}
}

func addBroad(collection, pattern string) step {
	return step{request: request{"POST", "/v1/" + collection, `{"literal":true,"pattern":"` + pattern + `","reason":"all","expires_at":"2098-01-01T00:00:00Z","confirm":"` + pattern + `"}`}, keep: "id=id"}
}

// entriesOf are the changes of one kind of entries.
func entriesOf(kind string) []change {
	all := "/v1/" + kind + "s"
	one := all + "/{id}"
	page := "/" + kind + "s"
	long := strings.Repeat("x", 1001)
	gone := "01a1fa6c-97b1-7626-ab8f-8f1dbe1f3933"
	add := func(pattern, reason string, more ...string) []form {
		return []form{{path: page, fields: append([]string{"pattern", pattern, "reason", reason, "for", "until", "until", "2099-01-01 00:00"}, more...)}}
	}
	until := []string{"--until", "2099-01-01T00:00:00Z"}
	command := func(args ...string) command {
		if args[0] == "add" && !slices.Contains(args, "--for") && !slices.Contains(args, "--until") {
			args = append(args, "--permanent") // REST's default, where the row does not choose
		}
		return command{args: append([]string{kind}, args...)}
	}
	existing := func(pattern string) []step { return []step{addStep(kind+"s", pattern, "id=id")} }
	ended := func(s step) []step { return []step{s, {request: request{"DELETE", one, ""}}} }
	edit := func(fields ...string) []form {
		return []form{{path: page + "/{id}", fields: append([]string{"revision", "{revision}"}, fields...)}}
	}
	withRevision := func(s step) []step { return []step{s, {request: request{"GET", one, ""}, keep: "revision=revision"}} }
	rows := []change{
		{
			name: "add", rest: request{"POST", all, `{"pattern":"ip:198.18.$O.1","reason":"scraping","expires_at":"2099-01-01T00:00:00Z"}`},
			pages: add("198.18.$O.1", "scraping"), cli: command(append([]string{"add", "ip:198.18.$O.1", "--reason", "scraping"}, until...)...),
			result: all + "?key=ip:198.18.$O.1",
		},
		{
			name: "add permanently", rest: request{"POST", all, `{"pattern":"token:$N","reason":"scraping"}`},
			pages: []form{{path: page, fields: []string{"pattern", "token:$N", "reason", "scraping", "for", "good"}}},
			cli:   command("add", "token:$N", "--reason", "scraping"), result: all + "?key=token:$N",
		},
		{
			name: "add with a duration", rest: request{"POST", all, `{"pattern":"while:$N","reason":"scraping","expires_in":"24h"}`},
			pages: []form{{path: page, fields: []string{"pattern", "while:$N", "reason", "scraping", "for", "24h"}}},
			cli:   command("add", "while:$N", "--reason", "scraping", "--for", "24h"), result: all + "?key=while:$N",
		},
		{
			name: "add without a pattern", want: fault{"invalid", "pattern"}, rest: request{"POST", all, `{"pattern":"","reason":"scraping"}`},
			pages: add("", "scraping"), cli: command("add", "", "--reason", "scraping"),
		},
		{
			name: "add with a bad pattern", want: fault{"invalid", "pattern"}, rest: request{"POST", all, `{"pattern":"ip:300.1.1.1","reason":"scraping"}`},
			pages: add("ip:300.1.1.1", "scraping"), cli: command("add", "ip:300.1.1.1", "--reason", "scraping"),
		},
		{
			name: "add with a long reason", want: fault{"invalid", "reason"}, rest: request{"POST", all, `{"pattern":"token:$N-2","reason":"` + long + `"}`},
			pages: add("token:$N-2", long), cli: command("add", "token:$N-2", "--reason", long),
		},
		{
			name: "add until a time that has passed", want: fault{"invalid", "expires_at"},
			rest:  request{"POST", all, `{"pattern":"token:$N-2","reason":"x","expires_at":"2001-01-01T00:00:00Z"}`},
			pages: []form{{path: page, fields: []string{"pattern", "token:$N-2", "reason", "x", "for", "until", "until", "2001-01-01 00:00"}}},
			cli:   command("add", "token:$N-2", "--reason", "x", "--until", "2001-01-01T00:00:00Z"),
		},
		{
			name: "add if one is active", want: fault{"conflict", ""}, setup: existing("ip:198.18.$O.2"),
			words: map[string]string{pages: "The pattern already has " + map[string]string{"block": "a block", "exemption": "an exemption"}[kind] + "."},
			rest:  request{"POST", all, `{"pattern":"ip:198.18.$O.2","reason":"again"}`},
			pages: add("198.18.$O.2", "again"), cli: command("add", "ip:198.18.$O.2", "--reason", "again"),
		},
		{
			name: "replace", setup: existing("ip:198.18.$O.3"),
			rest:   request{"POST", all, `{"pattern":"ip:198.18.$O.3","reason":"again","on_conflict":"replace","expires_at":"2099-01-01T00:00:00Z"}`},
			pages:  add("198.18.$O.3", "again", "replace", "yes"),
			cli:    command(append([]string{"add", "ip:198.18.$O.3", "--reason", "again", "--on-conflict", "replace"}, until...)...),
			result: all + "?state=all&key=ip:198.18.$O.3",
		},
		{
			name: "extend", setup: existing("ip:198.18.$O.4"),
			rest: request{"POST", all, `{"pattern":"ip:198.18.$O.4","reason":"again","on_conflict":"extend","expires_at":"2099-01-01T00:00:00Z"}`},
			pages: []form{{path: "/bulk/add", fields: []string{
				"what", map[string]string{"block": "block", "exemption": "exempt"}[kind], "key", "ip:198.18.$O.4", "reason", "again",
				"for", "until", "until", "2099-01-01 00:00", "on_conflict", "extend",
			}}},
			cli:    command(append([]string{"add", "ip:198.18.$O.4", "--reason", "again", "--on-conflict", "extend"}, until...)...),
			result: one,
		},
		{
			name: "add with an unknown on_conflict", want: fault{"invalid", "on_conflict"},
			rest:  request{"POST", all, `{"pattern":"ip:198.18.$O.5","reason":"x","on_conflict":"merge"}`},
			pages: []form{{path: "/bulk/add", fields: []string{"what", map[string]string{"block": "block", "exemption": "exempt"}[kind], "key", "ip:198.18.$O.5", "reason", "x", "for", "24h", "on_conflict", "merge"}}},
			cli:   command("add", "ip:198.18.$O.5", "--reason", "x", "--on-conflict", "merge"),
		},
		{
			name: "add a broad one without a confirmation", want: fault{"confirmation_required", "confirm"},
			rest:  request{"POST", all, `{"pattern":"$N:*","reason":"all"}`},
			pages: add("$N:*", "all"), cli: command("add", "$N:*", "--reason", "all"),
		},
		{
			name: "add a broad one", rest: request{"POST", all, `{"pattern":"$N:*","reason":"all","expires_at":"2099-01-01T00:00:00Z","confirm":"$N:*"}`},
			pages: add("$N:*", "all", "confirm", "$N:*"), cli: command(append([]string{"add", "$N:*", "--reason", "all", "--yes"}, until...)...),
			result: all + "?key=$N:1",
		},
		{
			name: "add of an autonomous system without a confirmation", want: fault{"confirmation_required", "confirm"},
			rest:  request{"POST", all, `{"pattern":"asn:64$O","reason":"hosting"}`},
			pages: add("asn:64$O", "hosting"), cli: command("add", "asn:64$O", "--reason", "hosting"),
		},
		{
			name: "add of an autonomous system", rest: request{"POST", all, `{"pattern":"asn:64$O","reason":"hosting","expires_at":"2099-01-01T00:00:00Z","confirm":"asn:64$O"}`},
			pages: add("asn:64$O", "hosting", "confirm", "asn:64$O"), cli: command(append([]string{"add", "asn:64$O", "--reason", "hosting", "--yes"}, until...)...),
			result: all + "?search=asn:64$O",
		},
		{
			name: "update", setup: withRevision(addStep(kind+"s", "ip:198.18.$O.10", "id=id")),
			rest:   request{"PATCH", one, `{"reason":"it came back","expires_at":"2099-01-01T00:00:00Z"}`},
			pages:  edit("reason", "it came back", "for", "until", "until", "2099-01-01 00:00"),
			cli:    command(append([]string{"edit", "{id}", "--reason", "it came back"}, until...)...),
			result: one,
		},
		{
			name: "update with a bad reason", want: fault{"invalid", "reason"}, setup: withRevision(addStep(kind+"s", "ip:198.18.$O.11", "id=id")),
			rest: request{"PATCH", one, `{"reason":"` + long + `"}`}, pages: edit("reason", long, "for", "24h"), cli: command("edit", "{id}", "--reason", long),
		},
		{
			name: "update one that was changed since", want: fault{"precondition_failed", ""},
			setup: append(withRevision(addStep(kind+"s", "ip:198.18.$O.12", "id=id")), step{request: request{"PATCH", one, `{"reason":"theirs"}`}}),
			rest:  request{"PATCH", one, `{"reason":"mine","revision":1}`}, pages: edit("reason", "mine", "for", "24h"),
			lacks: map[string]string{cmd: "it reads the revision that it changes itself"},
		},
		{
			name: "update one that has ended", want: fault{"conflict", ""},
			setup: append(withRevision(addStep(kind+"s", "ip:198.18.$O.13", "id=id")), step{request: request{"DELETE", one, ""}},
				step{request: request{"GET", one, ""}, keep: "revision=revision"}),
			rest: request{"PATCH", one, `{"reason":"mine"}`}, pages: edit("reason", "mine", "for", "24h"), cli: command("edit", "{id}", "--reason", "mine"),
		},
		{
			name: "update an unknown one", want: fault{"not_found", ""}, rest: request{"PATCH", all + "/" + gone, `{"reason":"mine"}`},
			pages: []form{{path: page + "/" + gone, fields: []string{"reason", "mine", "for", "24h", "revision", "1"}}}, cli: command("edit", gone, "--reason", "mine"),
		},
		{
			name: "extend a broad one without a confirmation", want: fault{"confirmation_required", "confirm"}, setup: withRevision(addBroad(kind+"s", "e$N:*")),
			rest: request{"PATCH", one, `{"expires_at":"2099-01-01T00:00:00Z"}`}, pages: edit("reason", "all", "for", "until", "until", "2099-01-01 00:00"),
			cli: command(append([]string{"edit", "{id}"}, until...)...),
		},
		{
			name: "extend a broad one", setup: withRevision(addBroad(kind+"s", "f$N:*")),
			rest:  request{"PATCH", one, `{"expires_at":"2099-01-01T00:00:00Z","confirm":"f$N:*"}`},
			pages: edit("reason", "all", "for", "until", "until", "2099-01-01 00:00", "confirm", "f$N:*"),
			cli:   command(append([]string{"edit", "{id}", "--yes"}, until...)...), result: one,
		},
		{
			name: "end", setup: existing("ip:198.18.$O.20"), rest: request{"DELETE", one, ""},
			pages: []form{{path: page + "/end", fields: []string{"id", "{id}"}}}, cli: command("delete", "{id}"), result: one,
		},
		{
			name: "end for a reason", setup: existing("ip:198.18.$O.24"), rest: request{"DELETE", one, `{"reason":"wrong customer"}`},
			cli: command("delete", "{id}", "--reason", "wrong customer"), result: one,
			lacks: map[string]string{pages: "its button ends at once, with an undo instead of a reason"},
		},
		{
			name: "end one that has ended", want: fault{"conflict", ""}, setup: ended(addStep(kind+"s", "ip:198.18.$O.21", "id=id")),
			rest: request{"DELETE", one, ""}, pages: []form{{path: page + "/end", fields: []string{"id", "{id}"}}}, cli: command("delete", "{id}"),
		},
		{
			name: "end an unknown one", want: fault{"not_found", ""}, rest: request{"DELETE", all + "/" + gone, ""},
			pages: []form{{path: page + "/end", fields: []string{"id", gone}}}, cli: command("delete", gone),
		},
		{
			name: "restore", setup: ended(addStep(kind+"s", "ip:198.18.$O.22", "id=id")), rest: request{"POST", one + "/restore", ""},
			pages: []form{{path: page + "/restore", fields: []string{"id", "{id}"}}}, cli: command("restore", "{id}"), result: one,
		},
		{
			name: "restore if another is active", want: fault{"conflict", ""},
			setup: append(ended(addStep(kind+"s", "ip:198.18.$O.23", "id=id")), addStep(kind+"s", "ip:198.18.$O.23", "other=id")),
			rest:  request{"POST", one + "/restore", ""}, pages: []form{{path: page + "/restore", fields: []string{"id", "{id}"}}}, cli: command("restore", "{id}"),
		},
		{
			name: "restore an unknown one", want: fault{"not_found", ""}, rest: request{"POST", all + "/" + gone + "/restore", ""},
			pages: []form{{path: page + "/restore", fields: []string{"id", gone}}}, cli: command("restore", gone),
		},
		{
			name: "restore a broad one without a confirmation", want: fault{"confirmation_required", "confirm"}, setup: ended(addBroad(kind+"s", "r$N:*")),
			rest: request{"POST", one + "/restore", ""}, pages: []form{{path: page + "/restore", fields: []string{"id", "{id}"}}}, cli: command("restore", "{id}"),
		},
		{
			name: "restore a broad one", setup: ended(addBroad(kind+"s", "s$N:*")), rest: request{"POST", one + "/restore", `{"confirm":"s$N:*"}`},
			cli: command("restore", "{id}", "--yes"), result: one,
			lacks: map[string]string{pages: "it leads to the form that adds the pattern again, with its impact"},
		},
	}
	for i := range rows {
		rows[i].name = kind + ": " + rows[i].name
	}
	return rows
}
