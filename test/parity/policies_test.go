package parity

const alwaysRules = "the form always sends a list"

const noFile = "a policy file is applied by REST and the command; the editor changes one policy"

// editor are the fields of a policy's form.
func editor(expect, match, limit string, more ...string) []string {
	return append([]string{
		"expect", expect, "mode", "enforce", "limit", limit, "window", "1m", "match", match, "algorithm", "timestamp_log", "on_failure", "local",
	}, more...)
}

func policyStep(match, rule string) step {
	return step{request: request{"PUT", "/v1/policies/$N?confirm=$N if *", policyBody(match, rule)}}
}

func policyBody(match, rule string) string {
	return `{"match":["` + match + `"],"rules":["` + rule + `"]}`
}

var policyChanges = []change{
	{
		name: "policy: create", rest: request{"PUT", "/v1/policies/p-$N", policyBody("pol$N:*", "5/1m")},
		pages:  []form{{path: "/new-policy", fields: editor("0", "pol$N:*", "5", "name", "p-$N")}},
		cli:    command{args: []string{"policy", "set", "p-$N", "--match", "pol$N:*", "--rule", "5/1m"}},
		result: "/v1/policies/p-$N",
	},
	{
		name: "policy: create with a bad name", want: fault{"invalid", "name"}, rest: request{"PUT", "/v1/policies/.x", policyBody("pol$N:x*", "5/1m")},
		pages: []form{{path: "/new-policy", fields: editor("0", "pol$N:x*", "5", "name", ".x")}},
		cli:   command{args: []string{"policy", "set", ".x", "--match", "pol$N:x*", "--rule", "5/1m"}},
	},
	{
		name: "policy: create without rules", rest: request{"PUT", "/v1/policies/r-$N", `{"match":["pol$N:y*"],"rules":[]}`},
		pages:  []form{{path: "/new-policy", fields: editor("0", "pol$N:y*", "", "name", "r-$N")}},
		cli:    command{args: []string{"policy", "set", "r-$N", "--match", "pol$N:y*", "--no-rules"}},
		result: "/v1/policies/r-$N",
	},
	{
		name: "policy: leave the rules out", want: fault{"invalid", "rules"}, rest: request{"PUT", "/v1/policies/q-$N", `{"match":["pol$N:y*"]}`},
		cli:   command{args: []string{"policy", "set", "q-$N", "--match", "pol$N:y*"}, usage: "--no-rules for a policy that allows everything"},
		lacks: map[string]string{pages: alwaysRules},
	},
	{
		name: "policy: create without a pattern", want: fault{"invalid", "match"}, rest: request{"PUT", "/v1/policies/q-$N", `{"rules":["5/1m"]}`},
		pages: []form{{path: "/new-policy", fields: editor("0", "", "5", "name", "q-$N")}},
		cli:   command{args: []string{"policy", "set", "q-$N", "--rule", "5/1m"}, usage: "give its patterns"},
	},
	{
		name: "policy: create with a bad pattern", want: fault{"invalid", "match[0]"}, rest: request{"PUT", "/v1/policies/q-$N", policyBody("ip:300.1.1.1", "5/1m")},
		pages: []form{{path: "/new-policy", fields: editor("0", "ip:300.1.1.1", "5", "name", "q-$N")}},
		cli:   command{args: []string{"policy", "set", "q-$N", "--match", "ip:300.1.1.1", "--rule", "5/1m"}},
	},
	{
		name:   "policy: create with an outcome",
		rest:   request{"PUT", "/v1/policies/o-$N", `{"match":["out$N:*"],"when":{"path":["/login"]},"outcome":"login_failed","rules":["5/1m"]}`},
		pages:  []form{{path: "/new-policy", fields: editor("0", "out$N:*", "5", "name", "o-$N", "when_path", "/login", "outcome", "login_failed")}},
		cli:    command{args: []string{"policy", "set", "o-$N", "--match", "out$N:*", "--when", "path=/login", "--outcome", "login_failed", "--rule", "5/1m"}},
		result: "/v1/policies/o-$N",
	},
	{
		name:   "policy: create one for attacks",
		rest:   request{"PUT", "/v1/policies/at-$N", `{"match":["att$N:*"],"when":{"attack":["on"]},"rules":["5/1m"]}`},
		pages:  []form{{path: "/new-policy", fields: editor("0", "att$N:*", "5", "name", "at-$N", "attack", "on")}},
		cli:    command{args: []string{"policy", "set", "at-$N", "--match", "att$N:*", "--when", "attack", "--rule", "5/1m"}},
		result: "/v1/policies/at-$N",
	},
	{
		name: "policy: create with a bad outcome", want: fault{"invalid", "outcome"},
		rest:  request{"PUT", "/v1/policies/q-$N", `{"match":["out$N:x*"],"outcome":"Login failed","rules":["5/1m"]}`},
		pages: []form{{path: "/new-policy", fields: editor("0", "out$N:x*", "5", "name", "q-$N", "outcome", "Login failed")}},
		cli:   command{args: []string{"policy", "set", "q-$N", "--match", "out$N:x*", "--outcome", "Login failed", "--rule", "5/1m"}},
	},
	{
		name:   "policy: create with a scope",
		rest:   request{"PUT", "/v1/policies/sc-$N", `{"match":["sco$N:*"],"outcome":"login_failed","scope":"login","rules":["5/1m"]}`},
		pages:  []form{{path: "/new-policy", fields: editor("0", "sco$N:*", "5", "name", "sc-$N", "outcome", "login_failed", "scope", "login")}},
		cli:    command{args: []string{"policy", "set", "sc-$N", "--match", "sco$N:*", "--outcome", "login_failed", "--scope", "login", "--rule", "5/1m"}},
		result: "/v1/policies/sc-$N",
	},
	{
		name: "policy: create with a bad scope", want: fault{"invalid", "scope"},
		rest:  request{"PUT", "/v1/policies/q-$N", `{"match":["sco$N:x*"],"outcome":"login_failed","scope":"The login","rules":["5/1m"]}`},
		pages: []form{{path: "/new-policy", fields: editor("0", "sco$N:x*", "5", "name", "q-$N", "outcome", "login_failed", "scope", "The login")}},
		cli:   command{args: []string{"policy", "set", "q-$N", "--match", "sco$N:x*", "--outcome", "login_failed", "--scope", "The login", "--rule", "5/1m"}},
	},
	{
		name: "policy: create with a scope but no outcome", want: fault{"invalid", "scope"},
		rest:  request{"PUT", "/v1/policies/q-$N", `{"match":["sco$N:x*"],"scope":"login","rules":["5/1m"]}`},
		pages: []form{{path: "/new-policy", fields: editor("0", "sco$N:x*", "5", "name", "q-$N", "scope", "login")}},
		cli:   command{args: []string{"policy", "set", "q-$N", "--match", "sco$N:x*", "--scope", "login", "--rule", "5/1m"}},
	},
	{
		name:   "policy: create with further keys",
		rest:   request{"PUT", "/v1/policies/al-$N", `{"match":["also$N:*"],"rules":["5/1m"],"also":["account 10/1h","net:/24"]}`},
		pages:  []form{{path: "/new-policy", fields: editor("0", "also$N:*", "5", "name", "al-$N", "also", "account 10/1h\r\nnet:/24")}},
		cli:    command{args: []string{"policy", "set", "al-$N", "--match", "also$N:*", "--rule", "5/1m", "--also", "account 10/1h", "--also", "net:/24"}},
		result: "/v1/policies/al-$N",
	},
	{
		name: "policy: create with a bad further key", want: fault{"invalid", "also[0]"},
		rest:  request{"PUT", "/v1/policies/q-$N", `{"match":["also$N:x*"],"rules":["5/1m"],"also":["net:/99"]}`},
		pages: []form{{path: "/new-policy", fields: editor("0", "also$N:x*", "5", "name", "q-$N", "also", "net:/99")}},
		cli:   command{args: []string{"policy", "set", "q-$N", "--match", "also$N:x*", "--rule", "5/1m", "--also", "net:/99"}},
	},
	{
		name: "policy: create with a bad rule", want: fault{"invalid", "rules[0]"}, words: map[string]string{pages: `This rule has the count "-5"`}, rest: request{"PUT", "/v1/policies/q-$N", policyBody("pol$N:z*", "-5/1m")},
		pages: []form{{path: "/new-policy", fields: editor("0", "pol$N:z*", "-5", "name", "q-$N")}},
		cli:   command{args: []string{"policy", "set", "q-$N", "--match", "pol$N:z*", "--rule", "-5/1m"}},
	},
	{
		name: "policy: create one whose pattern another has", want: fault{"conflict", "match[0]"}, setup: []step{policyStep("taken$N:*", "5/1m")},
		rest:  request{"PUT", "/v1/policies/q-$N", policyBody("taken$N:*", "5/1m")},
		pages: []form{{path: "/new-policy", fields: editor("0", "taken$N:*", "5", "name", "q-$N")}},
		cli:   command{args: []string{"policy", "set", "q-$N", "--match", "taken$N:*", "--rule", "5/1m"}},
	},
	{
		name: "policy: create one that exists", want: fault{"precondition_required", ""}, words: map[string]string{pages: "There is a policy of this name"}, setup: []step{policyStep("taken$N:*", "5/1m")},
		rest:  request{"PUT", "/v1/policies/$N", policyBody("taken$N:*", "6/1m")},
		pages: []form{{path: "/new-policy", fields: editor("0", "taken$N:*", "6", "name", "$N")}},
		lacks: map[string]string{cmd: "policy set changes a policy that exists"},
	},
	{
		name: "policy: create a broad one without a confirmation", want: fault{"confirmation_required", "confirm"},
		rest:  request{"PUT", "/v1/policies/b-$N", policyBody("all$N:*", "0/1m")},
		pages: []form{{path: "/new-policy", fields: editor("0", "all$N:*", "0", "name", "b-$N")}},
		cli:   command{args: []string{"policy", "set", "b-$N", "--match", "all$N:*", "--rule", "0/1m"}},
	},
	{
		name: "policy: create a broad one", rest: request{"PUT", "/v1/policies/b-$N?confirm=b-$N", policyBody("all$N:*", "0/1m")},
		pages:  []form{{path: "/new-policy", fields: editor("0", "all$N:*", "0", "name", "b-$N", "confirm", "b-$N")}},
		cli:    command{args: []string{"policy", "set", "b-$N", "--match", "all$N:*", "--rule", "0/1m", "--yes"}},
		result: "/v1/policies/b-$N",
	},
	{
		name: "policy: change", rest: request{"PUT", "/v1/policies/p-$N if 1", policyBody("pol$N:*", "7/1m")},
		pages:  []form{{path: "/policies/p-$N", fields: editor("1", "pol$N:*", "7")}},
		cli:    command{args: []string{"policy", "set", "p-$N", "--rule", "7/1m"}},
		result: "/v1/policies/p-$N",
	},
	{
		name: "policy: change a version that was replaced", want: fault{"precondition_failed", ""},
		rest:  request{"PUT", "/v1/policies/p-$N if 1", policyBody("pol$N:*", "8/1m")},
		pages: []form{{path: "/policies/p-$N", fields: editor("1", "pol$N:*", "8")}},
		lacks: map[string]string{cmd: "it reads the version that it changes itself"},
	},
	{
		name: "policy: roll back",
		rest: request{"POST", "/v1/policies/p-$N/rollback if 2", `{"version":1}`}, pages: []form{{path: "/policies/p-$N/return", fields: []string{"expect", "2", "version", "1"}}},
		cli: command{args: []string{"policy", "rollback", "p-$N", "1"}}, result: "/v1/policies/p-$N",
	},
	{
		name: "policy: roll back an unknown one", want: fault{"not_found", ""},
		rest:  request{"POST", "/v1/policies/none-$N/rollback if 2", `{"version":1}`},
		pages: []form{{path: "/policies/none-$N/return", fields: []string{"expect", "2", "version", "1"}}},
		cli:   command{args: []string{"policy", "rollback", "none-$N", "1"}},
	},
	{
		name: "policy: roll back to a broad one without a confirmation", want: fault{"confirmation_required", "confirm"},
		setup: []step{
			{request: request{"PUT", "/v1/policies/c-$N?confirm=c-$N", policyBody("c$N:*", "0/1m")}},
			{request: request{"PUT", "/v1/policies/c-$N if *", policyBody("c$N:*", "1/1m")}},
		},
		rest:  request{"POST", "/v1/policies/c-$N/rollback if 2", `{"version":1}`},
		pages: []form{{path: "/policies/c-$N/return", fields: []string{"expect", "2", "version", "1"}}},
		cli:   command{args: []string{"policy", "rollback", "c-$N", "1"}},
	},
	{
		name: "policy: rename", setup: []step{{request: request{"PUT", "/v1/policies/old-$N", policyBody("old$N:*", "5/1m")}}},
		rest: request{"POST", "/v1/policies/old-$N/rename if 1", `{"name":"new-$N"}`}, pages: []form{{path: "/policies/old-$N/rename", fields: []string{"expect", "1", "to", "new-$N"}}},
		cli: command{args: []string{"policy", "rename", "old-$N", "new-$N"}}, result: "/v1/policies/new-$N",
	},
	{
		name: "policy: rename to the name of another", want: fault{"conflict", "name"}, setup: []step{{request: request{"PUT", "/v1/policies/old-$N", policyBody("other$N:*", "5/1m")}}},
		rest: request{"POST", "/v1/policies/old-$N/rename if 1", `{"name":"p-$N"}`}, pages: []form{{path: "/policies/old-$N/rename", fields: []string{"expect", "1", "to", "p-$N"}}},
		cli: command{args: []string{"policy", "rename", "old-$N", "p-$N"}},
	},
	{
		name: "policy: put the draft in force",
		setup: []step{
			{request: request{"PUT", "/v1/policies/staged-$N", policyBody("staged$N:*", "5/1m")}},
			{request: request{"PUT", "/v1/policies/staged-$N.draft", `{"match":["staged$N:*"],"rules":["4/1m"],"mode":"shadow"}`}},
		},
		rest: request{"POST", "/v1/policies/staged-$N/promote if now /v1/policies/staged-$N.draft", ""}, pages: []form{{path: "/policies/staged-$N/promote", fields: []string{"expect", "now /v1/policies/staged-$N.draft"}}},
		cli: command{args: []string{"policy", "promote", "staged-$N"}}, result: "/v1/policies/staged-$N",
	},
	{
		name: "policy: delete", rest: request{"DELETE", "/v1/policies/p-$N if 3", ""},
		pages: []form{{path: "/policies/p-$N/delete", fields: []string{"expect", "3", "confirm", "p-$N"}}}, cli: command{args: []string{"policy", "delete", "p-$N", "--version", "3"}},
	},
	{
		name: "policy: delete a version that was replaced", want: fault{"precondition_failed", ""},
		rest: request{"DELETE", "/v1/policies/c-$N if 1", ""}, pages: []form{{path: "/policies/c-$N/delete", fields: []string{"expect", "1", "confirm", "c-$N"}}},
		cli: command{args: []string{"policy", "delete", "c-$N", "--version", "1"}, usage: "is at version 2, not 1"},
	},
	{
		name: "policy: delete an unknown one", want: fault{"not_found", ""}, rest: request{"DELETE", "/v1/policies/none-$N if *", ""},
		pages: []form{{path: "/policies/none-$N/delete", fields: []string{"expect", "1", "confirm", "none-$N"}}}, cli: command{args: []string{"policy", "delete", "none-$N"}},
	},
	{
		name: "policy: delete one below a broad one that refuses everything", want: fault{"confirmation_required", "confirm"},
		setup: []step{
			{request: request{"PUT", "/v1/policies/d-$N?confirm=d-$N", policyBody("d$N:*", "0/1m")}},
			{request: request{"PUT", "/v1/policies/e-$N", policyBody("d$N:e*", "5/1m")}},
		},
		rest:  request{"DELETE", "/v1/policies/e-$N if *", ""},
		cli:   command{args: []string{"policy", "delete", "e-$N"}},
		lacks: map[string]string{pages: "its form always asks for the name, which is the confirmation"},
	},
	{
		name: "policy: undo the creation of one above which another refuses everything", want: fault{"confirmation_required", "confirm"},
		setup: []step{
			{request: request{"PUT", "/v1/policies/g1-$N?confirm=g1-$N", policyBody("g1$N:*", "0/1m")}},
			{request: request{"PUT", "/v1/policies/h1-$N", policyBody("g1$N:h*", "5/1m")}},
			{request: request{"GET", "/v1/audit?limit=1", ""}, keep: "record=items.0.id"},
		},
		rest: request{"POST", "/v1/audit/{record}/undo", ""}, pages: []form{{path: "/audit/undo", fields: []string{"id", "{record}"}}},
		cli: command{args: []string{"audit", "undo", "{record}"}},
	},
	{
		name: "policy: undo the change of one above which another refuses everything", want: fault{"confirmation_required", "confirm"},
		setup: []step{
			{request: request{"PUT", "/v1/policies/h2-$N", policyBody("g2$N:other*", "5/1m")}},
			{request: request{"PUT", "/v1/policies/h2-$N if *", policyBody("g2$N:h*", "5/1m")}},
			{request: request{"GET", "/v1/audit?limit=1", ""}, keep: "record=items.0.id"},
			{request: request{"PUT", "/v1/policies/g2-$N?confirm=g2-$N", policyBody("g2$N:*", "0/1m")}},
		},
		rest: request{"POST", "/v1/audit/{record}/undo", ""}, pages: []form{{path: "/audit/undo", fields: []string{"id", "{record}"}}},
		cli: command{args: []string{"audit", "undo", "{record}"}},
	},
	{
		name: "policy: undo a deletion",
		setup: []step{
			{request: request{"PUT", "/v1/policies/i-$N", policyBody("i$N:*", "5/1m")}}, {request: request{"DELETE", "/v1/policies/i-$N if *", ""}},
			{request: request{"GET", "/v1/audit?limit=1", ""}, keep: "record=items.0.id"},
		},
		rest: request{"POST", "/v1/audit/{record}/undo", ""}, pages: []form{{path: "/audit/undo", fields: []string{"id", "{record}"}}},
		cli: command{args: []string{"audit", "undo", "{record}"}}, result: "/v1/policies/i-$N",
	},
	{
		name: "policy set: apply", rest: request{"POST", "/v1/policy-set", `{"policies":[{"name":"s-$N","match":["set$N:*"],"rules":["5/1m"]}]}`},
		cli:    command{args: []string{"apply", "-f", "{file:policies: [{name: s-$N, match: ['set$N:*'], rules: [5/1m]}]}"}},
		result: "/v1/policies/s-$N", lacks: map[string]string{pages: noFile},
	},
	{
		name: "policy set: apply a bad rule", want: fault{"invalid", "policies[0].rules[0]"},
		rest:  request{"POST", "/v1/policy-set", `{"policies":[{"name":"t-$N","match":["t$N:*"],"rules":["x"]}]}`},
		cli:   command{args: []string{"apply", "-f", "{file:policies: [{name: t-$N, match: ['t$N:*'], rules: [x]}]}"}, usage: `rules[0]: the rule "x" has no slash`},
		lacks: map[string]string{pages: noFile},
	},
	{
		name: "policy set: apply a broad one without a confirmation", want: fault{"confirmation_required", "confirm"},
		rest:  request{"POST", "/v1/policy-set", `{"policies":[{"name":"u-$N","match":["u$N:*"],"rules":["0/1m"]}]}`},
		cli:   command{args: []string{"apply", "-f", "{file:policies: [{name: u-$N, match: ['u$N:*'], rules: [0/1m]}]}"}},
		lacks: map[string]string{pages: noFile},
	},
	{
		name: "policy set: apply a broad one", rest: request{"POST", "/v1/policy-set?confirm=u-$N", `{"policies":[{"name":"u-$N","match":["u$N:*"],"rules":["0/1m"]}]}`},
		cli:    command{args: []string{"apply", "--yes", "-f", "{file:policies: [{name: u-$N, match: ['u$N:*'], rules: [0/1m]}]}"}},
		result: "/v1/policies/u-$N", lacks: map[string]string{pages: noFile},
	},
}
