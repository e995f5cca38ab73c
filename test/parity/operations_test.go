package parity

import (
	"fmt"
	"strings"
	"testing"
)

const (
	noBackup  = "a backup is a file of gigabytes; the pages write none"
	noReports = "the pages show the reports that the job wrote"
	noSession = "a token has no session; it is revoked"
)

var keyChanges = []change{
	{
		name: "key: reset", setup: []step{policyStep("key$N:*", "5/1m")}, rest: request{"DELETE", "/v1/keys?key=key$N:1", ""},
		pages: []form{{path: "/key/reset", fields: []string{"key", "key$N:1"}}}, cli: command{args: []string{"key", "reset", "key$N:1"}},
	},
	{
		name: "key: reset under one policy", rest: request{"DELETE", "/v1/keys?key=key$N:1&policy=$N", ""},
		pages: []form{{path: "/key/reset", fields: []string{"key", "key$N:1", "policy", "$N"}}}, cli: command{args: []string{"key", "reset", "key$N:1", "--policy", "$N"}},
	},
	{
		name: "key: erase", rest: request{"POST", "/v1/keys/erase", `{"key":"key$N:2","confirm":"key$N:2"}`},
		pages: []form{{path: "/key/erase", fields: []string{"key", "key$N:2", "confirm", "key$N:2"}}}, cli: command{args: []string{"key", "erase", "key$N:2", "--yes"}},
	},
	{
		name: "key: erase a bad key", want: fault{"invalid", "key"}, rest: request{"POST", "/v1/keys/erase", `{"key":"ip:300.1.1.1","confirm":"ip:300.1.1.1"}`},
		pages: []form{{path: "/key/erase", fields: []string{"key", "ip:300.1.1.1", "confirm", "ip:300.1.1.1"}}}, cli: command{args: []string{"key", "erase", "ip:300.1.1.1", "--yes"}},
	},
	{
		name: "key: erase without a confirmation", want: fault{"confirmation_required", "confirm"}, rest: request{"POST", "/v1/keys/erase", `{"key":"key$N:3"}`},
		pages: []form{{path: "/key/erase", fields: []string{"key", "key$N:3"}}}, cli: command{args: []string{"key", "erase", "key$N:3"}, usage: "--yes"},
	},
	{
		name: "key: reset without a key", want: fault{"invalid", "key"}, rest: request{"DELETE", "/v1/keys?key=", ""},
		pages: []form{{path: "/key/reset", fields: []string{"key", ""}}}, cli: command{args: []string{"key", "reset", ""}},
	},
	{
		name: "key: reset a bad key", want: fault{"invalid", "key"}, rest: request{"DELETE", "/v1/keys?key=ip:300.1.1.1", ""},
		pages: []form{{path: "/key/reset", fields: []string{"key", "ip:300.1.1.1"}}}, cli: command{args: []string{"key", "reset", "ip:300.1.1.1"}},
	},
	{
		name: "key: reset under an unknown policy", want: fault{"invalid", "policy"}, rest: request{"DELETE", "/v1/keys?key=key$N:1&policy=none", ""},
		pages: []form{{path: "/key/reset", fields: []string{"key", "key$N:1", "policy", "none"}}}, cli: command{args: []string{"key", "reset", "key$N:1", "--policy", "none"}, isMissing: true},
	},
	{
		name: "profile: set", rest: request{"PUT", "/v1/keys/key$N:4", `{"plan":"gold","labels":["a","b"],"note":"pays"}`},
		cli:   command{args: []string{"key", "set", "key$N:4", "--plan", "gold", "--label", "b", "--label", "a", "--note", "pays"}},
		pages: []form{{path: "/key/profile", fields: []string{"key", "key$N:4", "plan", "gold", "labels", "b a", "note", "pays"}}}, result: "/v1/keys/key$N:4",
	},
	{
		name: "profile: set a bad plan", want: fault{"invalid", "plan"}, rest: request{"PUT", "/v1/keys/key$N:4", `{"plan":"Gold"}`},
		cli:   command{args: []string{"key", "set", "key$N:4", "--plan", "Gold"}},
		pages: []form{{path: "/key/profile", fields: []string{"key", "key$N:4", "plan", "Gold"}}},
	},
	{
		name: "profile: delete", setup: []step{{request: request{"PUT", "/v1/keys/key$N:5", `{"plan":"gold"}`}}}, rest: request{"DELETE", "/v1/keys/key$N:5 if now", ""},
		cli:   command{args: []string{"key", "delete", "key$N:5"}},
		pages: []form{{path: "/key/profile", fields: []string{"key", "key$N:5", "plan", "", "delete", "1", "expect", "now /v1/keys/key$N:5"}}}, result: "/v1/keys?key=key$N:5",
	},
	{
		name: "profile: change one that another user has changed", want: fault{"precondition_failed", ""},
		setup: []step{{request: request{"PUT", "/v1/keys/key$N:17", `{"plan":"gold"}`}}}, rest: request{"PUT", "/v1/keys/key$N:17 if other", `{"plan":"silver"}`},
		pages: []form{{path: "/key/profile", fields: []string{"key", "key$N:17", "plan", "silver", "expect", "other"}}},
		lacks: map[string]string{cmd: "it reads what it changes itself"}, words: map[string]string{pages: "changed this key while you were editing it"},
	},
	{
		name: "profiles: import", rest: request{"POST", "/v1/profiles/import", "key,plan\nkey$N:9,gold\n"},
		cli: command{args: []string{"key", "import", "{file:key,plan\nkey$N:9,gold\n}", "--format", "csv"}},
		pages: []form{
			{path: "/keys/import", upload: "key,plan\nkey$N:9,gold\n"}, {path: "/keys/import/confirm", fields: []string{"file", "{field:file}"}},
		},
		result: "/v1/keys/key$N:9",
	},
	{
		name: "profiles: import a bad row", want: fault{"invalid", ""}, rest: request{"POST", "/v1/profiles/import", "key,plan\nkey$N:9,Gold\n"},
		cli:   command{args: []string{"key", "import", "{file:key,plan\nkey$N:9,Gold\n}", "--format", "csv"}},
		lacks: map[string]string{pages: noBadRows},
	},
	{
		name: "own limit: set a bad rule", want: fault{"invalid", "rules"}, rest: request{"PUT", "/v1/keys/limits/key$N:6", `{"rules":["5/x"],"reason":"launch"}`},
		cli:   command{args: []string{"key", "limit", "key$N:6", "5/x", "--reason", "launch", "--permanent"}},
		pages: []form{{path: "/key/limit", fields: []string{"key", "key$N:6", "rules", "5/x", "for", "good", "reason", "launch"}}},
	},
	{
		name: "own limit: set", rest: request{"PUT", "/v1/keys/limits/key$N:6", `{"rules":["5/s"],"reason":"launch"}`},
		cli:   command{args: []string{"key", "limit", "key$N:6", "5/s", "--reason", "launch", "--permanent"}},
		pages: []form{{path: "/key/limit", fields: []string{"key", "key$N:6", "rules", "5/s", "for", "good", "reason", "launch"}}}, result: "/v1/keys/key$N:6",
	},
	{
		name: "own limit: set without a reason", want: fault{"invalid", "reason"}, rest: request{"PUT", "/v1/keys/limits/key$N:6", `{"rules":["5/s"],"reason":""}`},
		cli:   command{args: []string{"key", "limit", "key$N:6", "5/s", "--permanent"}},
		pages: []form{{path: "/key/limit", fields: []string{"key", "key$N:6", "rules", "5/s", "for", "good", "reason", ""}}},
	},
	{
		name: "own limit: end", setup: []step{{request: request{"PUT", "/v1/keys/limits/key$N:7", `{"rules":["5/s"],"reason":"launch"}`}}}, rest: request{"DELETE", "/v1/keys/limits/key$N:7?reason=over", ""},
		cli:   command{args: []string{"key", "limit", "key$N:7", "--end", "--reason", "over"}},
		pages: []form{{path: "/key/limit/end", fields: []string{"key", "key$N:7", "reason", "over"}}}, result: "/v1/keys?key=key$N:7",
	},
	{
		name: "own limit: end none", want: fault{"not_found", ""}, rest: request{"DELETE", "/v1/keys/limits/key$N:8", ""},
		cli:   command{args: []string{"key", "limit", "key$N:8", "--end"}},
		pages: []form{{path: "/key/limit/end", fields: []string{"key", "key$N:8"}}},
	},
	{
		name: "site: correct", rest: request{"PUT", "/v1/sites", `{"host":"shop$N.example","own_paths":["/pma/*"]}`}, cli: command{args: []string{"site", "set", "shop$N.example", "--own-path", "/pma/*"}},
		pages: []form{{path: "/sites", fields: []string{"host", "shop$N.example", "own_paths", "/pma/*"}}},
	},
	{
		name: "site: correct with every path", want: fault{"invalid", "own_paths"}, rest: request{"PUT", "/v1/sites", `{"host":"shop$N.example","own_paths":["/*"]}`},
		cli: command{args: []string{"site", "set", "shop$N.example", "--own-path", "/*"}}, pages: []form{{path: "/sites", fields: []string{"host", "shop$N.example", "own_paths", "/*"}}},
	},
	{
		name: "site: correct with an unknown list", want: fault{"invalid", "own_paths"}, rest: request{"PUT", "/v1/sites", `{"host":"shop$N.example","own_paths":["@none"]}`},
		cli: command{args: []string{"site", "set", "shop$N.example", "--own-path", "@none"}}, pages: []form{{path: "/sites", fields: []string{"host", "shop$N.example", "own_paths", "@none"}}},
	},
	{
		name: "note: add", rest: request{"POST", "/v1/keys/notes", `{"key":"key$N:1","text":"a customer"}`}, cli: command{args: []string{"key", "note", "add", "key$N:1", "a customer"}},
		pages: []form{{path: "/key/note", fields: []string{"key", "key$N:1", "text", "a customer"}}}, result: "/v1/keys/notes?key=key$N:1",
	},
	{
		name: "note: add without a text", want: fault{"invalid", "text"}, rest: request{"POST", "/v1/keys/notes", `{"key":"key$N:1","text":""}`}, cli: command{args: []string{"key", "note", "add", "key$N:1", ""}},
		pages: []form{{path: "/key/note", fields: []string{"key", "key$N:1", "text", ""}}},
	},
	{
		name: "note: add on a bad key", want: fault{"invalid", "key"}, rest: request{"POST", "/v1/keys/notes", `{"key":"ip:300.1.1.1","text":"x"}`}, cli: command{args: []string{"key", "note", "add", "ip:300.1.1.1", "x"}},
		pages: []form{{path: "/key/note", fields: []string{"key", "ip:300.1.1.1", "text", "x"}}},
	},
	{
		name: "note: delete", setup: []step{{request: request{"POST", "/v1/keys/notes", `{"key":"key$N:2","text":"x"}`}, keep: "id=id"}}, cli: command{args: []string{"key", "note", "delete", "{id}"}},
		rest: request{"DELETE", "/v1/keys/notes/{id}", ""}, pages: []form{{path: "/key/note/delete", fields: []string{"id", "{id}"}}}, result: "/v1/keys/notes?key=key$N:2",
	},
	{
		name: "note: delete an unknown one", want: fault{"not_found", ""}, cli: command{args: []string{"key", "note", "delete", gone}},
		rest: request{"DELETE", "/v1/keys/notes/" + gone, ""}, pages: []form{{path: "/key/note/delete", fields: []string{"id", gone}}},
	},
}

// proposed makes the range of a front end a proposal.
func proposed(network string) []step {
	var all []step
	for _, host := range []string{"1", "2", "3"} {
		all = append(all, checks("ip:"+network+"."+host, 3)...)
	}
	all = append(all,
		step{request: request{"GET", "/v1/offenders?pattern=" + "ip:" + network + ".3", ""}, keep: "key=items.0.key"},
		// The job is refused while it runs by its schedule.
		step{request: request{"POST", "/v1/jobs/propose-ranges/run", ""}, until: "new proposals"},
		step{request: request{"GET", "/v1/proposals?limit=1", ""}, keep: "id=items.0.id"})
	return all
}

func checks(key string, count int) (all []step) {
	for range count {
		all = append(all, step{request: request{"CHECK", key, ""}})
	}
	return all
}

// paused pauses the escalation of the policy with the name of the front end.
func paused() []step {
	all := []step{{request: request{"PUT", "/v1/policies/esc-$N", `{"match":["esc$N:*"],"rules":["1/1h"],` +
		`"escalation":{"threshold":2,"window":"10m","duration":"1h","factor":2,"max_duration":"1d","decay_after":"7d"}}`}}}
	for _, key := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
		all = append(all, checks("esc$N:"+key, 4)...)
	}
	return append(all,
		// Offences that are flushed after the escalation was resumed would pause it again.
		step{request: request{"GET", "/v1/offenders?pattern=esc$N:z", ""}, until: `"offences":3`},
		step{request: request{"GET", "/v1/escalations/paused", ""}, until: `"esc-$N"`})
}

// broadRange is the beginning of the ranges that have much of the traffic.
const broadRange = "198.55."

// checkMembers checks a number of members of a /24 once.
func (n *node) checkMembers(t *testing.T, network string, count int) {
	for i := range count {
		n.check(t, fmt.Sprintf("ip:%s.%d", network, 100+i))
	}
}

// lateChanges are the changes that need traffic of a past minute.
var lateChanges = []change{
	{
		name: "proposal: accept a broad one without a confirmation", want: fault{"confirmation_required", "confirm"},
		setup: append(proposed(broadRange+"$O"), step{request: request{"POST", "/v1/blocks/preview", `{"pattern":"ip:` + broadRange + `$O.0/24"}`}, until: "of the last day's checks"}),
		rest:  request{"POST", "/v1/proposals/{id}/accept", `{"reason":"a botnet"}`},
		pages: []form{{path: "/proposals/{id}/accept", fields: []string{"reason", "a botnet", "for", "good"}}},
		cli:   command{args: []string{"proposal", "accept", "{id}", "--reason", "a botnet"}},
		words: map[string]string{pages: broadShare, cmd: broadShare},
	},
}

// broadShare is the text of all front ends for a broad range; each range has its own share.
const broadShare = "of the last day's checks"

var detectionChanges = []change{
	{
		name: "proposal: accept", setup: append([]step{limitAddresses}, proposed("198.51.$O")...),
		// Its range may be broad by now: it is, once the minute of its checks is over.
		rest:  request{"POST", "/v1/proposals/{id}/accept", `{"reason":"a botnet","expires_at":"2099-01-01T00:00:00Z","confirm":"ip:198.51.$O.0/24"}`},
		pages: []form{{path: "/proposals/{id}/accept", fields: []string{"reason", "a botnet", "for", "until", "until", "2099-01-01 00:00", "confirm", "ip:198.51.$O.0/24"}}},
		cli:   command{args: []string{"proposal", "accept", "{id}", "--reason", "a botnet", "--until", "2099-01-01T00:00:00Z", "--yes"}}, result: "/v1/blocks?key=ip:198.51.$O.9",
	},
	{
		name: "proposal: accept with a bad reason", want: fault{"invalid", "reason"}, setup: proposed("198.52.$O"),
		rest:  request{"POST", "/v1/proposals/{id}/accept", `{"reason":"` + strings.Repeat("x", 1001) + `"}`},
		pages: []form{{path: "/proposals/{id}/accept", fields: []string{"reason", strings.Repeat("x", 1001), "for", "good"}}},
		cli:   command{args: []string{"proposal", "accept", "{id}", "--reason", strings.Repeat("x", 1001)}},
	},
	{
		name: "proposal: accept an unknown one", want: fault{"not_found", ""}, rest: request{"POST", "/v1/proposals/" + gone + "/accept", ""},
		pages: []form{{path: "/proposals/" + gone + "/accept", fields: []string{"for", "good"}}}, cli: command{args: []string{"proposal", "accept", gone}},
	},
	{
		name: "proposal: dismiss", setup: proposed("198.53.$O"), rest: request{"POST", "/v1/proposals/{id}/dismiss", `{"reason":"a university"}`},
		pages: []form{{path: "/proposals/{id}/dismiss", fields: []string{"reason", "a university"}}}, cli: command{args: []string{"proposal", "dismiss", "{id}", "--reason", "a university"}},
	},
	{
		name: "proposal: dismiss one that is closed", want: fault{"conflict", ""},
		setup: append(proposed("198.54.$O"), step{request: request{"POST", "/v1/proposals/{id}/dismiss", ""}}),
		rest:  request{"POST", "/v1/proposals/{id}/dismiss", ""}, pages: []form{{path: "/proposals/{id}/dismiss"}}, cli: command{args: []string{"proposal", "dismiss", "{id}"}},
	},
	{
		name: "escalation: resume", setup: paused(), rest: request{"POST", "/v1/escalations/esc-$N/resume", ""},
		pages: []form{{path: "/escalations/resume", fields: []string{"policy", "esc-$N"}}}, cli: command{args: []string{"escalation", "resume", "esc-$N"}},
	},
	{
		name: "escalation: resume one that is not paused", want: fault{"not_found", ""}, rest: request{"POST", "/v1/escalations/esc-$N/resume", ""},
		pages: []form{{path: "/escalations/resume", fields: []string{"policy", "esc-$N"}}}, cli: command{args: []string{"escalation", "resume", "esc-$N"}},
	},
	{
		name: "escalation: resume one of an unknown policy", want: fault{"not_found", ""}, rest: request{"POST", "/v1/escalations/none/resume", ""},
		pages: []form{{path: "/escalations/resume", fields: []string{"policy", "none"}}}, cli: command{args: []string{"escalation", "resume", "none"}},
	},
}

var limitAddresses = step{request: request{"PUT", "/v1/policies/addresses?confirm=addresses if *", policyBody("ip:198.48.0.0/12", "1/1h")}}

var operationChanges = []change{
	{
		name: "job: run", rest: request{"POST", "/v1/jobs/roll-up/run", ""}, pages: []form{{path: "/jobs/roll-up/run"}}, cli: command{args: []string{"job", "run", "roll-up"}},
	},
	{
		name: "job: run an unknown one", want: fault{"not_found", ""}, rest: request{"POST", "/v1/jobs/none/run", ""}, pages: []form{{path: "/jobs/none/run"}},
		cli: command{args: []string{"job", "run", "none"}},
	},
	{
		name: "backup", rest: request{"GET", "/v1/backup", ""}, cli: command{args: []string{"backup", "{file:}.backup"}}, lacks: map[string]string{pages: noBackup},
	},
	{
		name: "report: write", rest: request{"POST", "/v1/reports", `{"kind":"daily"}`}, cli: command{args: []string{"report", "write", "daily"}}, lacks: map[string]string{pages: noReports},
	},
	{
		name: "report: write one of an unknown kind", want: fault{"invalid", "kind"}, rest: request{"POST", "/v1/reports", `{"kind":"hourly"}`},
		cli: command{args: []string{"report", "write", "hourly"}}, lacks: map[string]string{pages: noReports},
	},
	{
		name: "notification: test", rest: request{"POST", "/v1/notifications/test", `{"channel":"webhook"}`}, cli: command{args: []string{"notify", "test", "webhook"}},
		pages: []form{{path: "/notifications/test", fields: []string{"channel", "webhook"}}},
	},
	{
		name: "notification: test an unknown channel", want: fault{"invalid", "channel"}, rest: request{"POST", "/v1/notifications/test", `{"channel":"pigeon"}`},
		cli: command{args: []string{"notify", "test", "pigeon"}, isMissing: true}, pages: []form{{path: "/notifications/test", fields: []string{"channel", "pigeon"}}},
	},
	{
		name: "channel: add", rest: request{"POST", "/v1/notifications/channels", phone("phone-$N")}, cli: command{args: append([]string{"notify", "channel", "add", "phone-$N"}, phoneFlags...), stdin: phoneURL + "\n"},
		pages: []form{{path: "/notifications/channels", fields: append([]string{"name", "phone-$N"}, phoneFields...)}}, result: "/v1/notifications/channels/phone-$N",
	},
	{
		name: "channel: add one of a bad name", want: fault{"invalid", "name"}, rest: request{"POST", "/v1/notifications/channels", `{"name":"Phone","type":"ntfy","url":"` + phoneURL + `"}`},
		cli:   command{args: append([]string{"notify", "channel", "add", "Phone"}, phoneFlags...), stdin: phoneURL + "\n"},
		pages: []form{{path: "/notifications/channels", fields: append([]string{"name", "Phone"}, phoneFields...)}},
	},
	{
		name: "channel: change", setup: withPhone("chg-$N"), rest: request{"PATCH", "/v1/notifications/channels/chg-$N if now", `{"type":"ntfy","kinds":["recovery"],"urgent_only":false,"enabled":true}`},
		cli:    command{args: []string{"notify", "channel", "set", "chg-$N", "--kind", "recovery"}},
		pages:  []form{{path: "/notifications/channels/chg-$N", fields: []string{"type", "ntfy", "kinds", "recovery", "enabled", "yes", "expect", "now /v1/notifications/channels/chg-$N"}}},
		result: "/v1/notifications/channels/chg-$N",
	},
	{
		name: "channel: change one that another user has changed", want: fault{"precondition_failed", ""}, setup: withPhone("late-$N"),
		rest:  request{"PATCH", "/v1/notifications/channels/late-$N if other", `{"type":"ntfy","kinds":["recovery"]}`},
		pages: []form{{path: "/notifications/channels/late-$N", fields: []string{"type", "ntfy", "kinds", "recovery", "enabled", "yes", "expect", "other"}}},
		lacks: map[string]string{cmd: "it reads what it changes itself"}, words: map[string]string{pages: "saved this channel while you were editing it"},
	},
	{
		name: "channel: change one of the settings", want: fault{"conflict", ""}, rest: request{"PATCH", "/v1/notifications/channels/webhook if *", `{"enabled":false}`},
		cli: command{args: []string{"notify", "channel", "disable", "webhook"}}, pages: []form{{path: "/notifications/channels/webhook/disable"}},
	},
	{
		name: "channel: disable", setup: withPhone("dis-$N"), rest: request{"PATCH", "/v1/notifications/channels/dis-$N if *", `{"enabled":false}`},
		cli: command{args: []string{"notify", "channel", "disable", "dis-$N"}}, pages: []form{{path: "/notifications/channels/dis-$N/disable"}},
		result: "/v1/notifications/channels/dis-$N",
	},
	{
		name: "channel: enable", setup: append(withPhone("ena-$N"), step{request: request{"PATCH", "/v1/notifications/channels/ena-$N if *", `{"enabled":false}`}}),
		rest: request{"PATCH", "/v1/notifications/channels/ena-$N if *", `{"enabled":true}`}, cli: command{args: []string{"notify", "channel", "enable", "ena-$N"}},
		pages: []form{{path: "/notifications/channels/ena-$N/enable"}}, result: "/v1/notifications/channels/ena-$N",
	},
	{
		name: "channel: delete", setup: withPhone("del-$N"), rest: request{"DELETE", "/v1/notifications/channels/del-$N if now", ""},
		cli: command{args: []string{"notify", "channel", "delete", "del-$N"}}, pages: []form{{path: "/notifications/channels/del-$N/delete", fields: []string{"expect", "now /v1/notifications/channels/del-$N"}}},
	},
	{
		name: "silence: add", rest: request{"POST", "/v1/notifications/silences", `{"kind":"report","reason":"a move","expires_in":"1h"}`},
		cli:   command{args: []string{"notify", "silence", "add", "--kind", "report", "--reason", "a move", "--for", "1h"}},
		pages: []form{{path: "/notifications/silences", fields: []string{"kind", "report", "reason", "a move", "for", "1h"}}},
	},
	{
		name: "silence: add one without a reason", want: fault{"invalid", "reason"}, rest: request{"POST", "/v1/notifications/silences", `{"reason":"","expires_in":"1h"}`},
		cli:   command{args: []string{"notify", "silence", "add", "--reason", "", "--for", "1h"}},
		pages: []form{{path: "/notifications/silences", fields: []string{"reason", "", "for", "1h"}}},
	},
	{
		name: "silence: end", setup: []step{{request: request{"POST", "/v1/notifications/silences", `{"kind":"report","reason":"a move","expires_in":"1h"}`}, keep: "silence=id"}},
		rest: request{"DELETE", "/v1/notifications/silences/{silence}", ""}, cli: command{args: []string{"notify", "silence", "delete", "{silence}"}},
		pages: []form{{path: "/notifications/silences/{silence}/end"}},
	},
	{
		name: "log out", pages: []form{{path: "/logout"}}, lacks: map[string]string{rest: noSession, cmd: noSession},
	},
}

// phoneURL is where a channel sends that every front end sets up alike.
const phoneURL = "ntfy://ntfy.example.com/topic"

var (
	phoneFlags  = []string{"--type", "ntfy", "--kind", "outage"}
	phoneFields = []string{"type", "ntfy", "url_secret", phoneURL, "kinds", "outage", "enabled", "yes"}
)

func phone(name string) string {
	return `{"name":"` + name + `","type":"ntfy","url":"` + phoneURL + `","kinds":["outage"]}`
}

func withPhone(name string) []step {
	return []step{{request: request{"POST", "/v1/notifications/channels", phone(name)}}}
}
