package parity

// editPolicy submits the form of a policy, to a version of which the ETag is expected, "" for a new one.
func editPolicy(path, expect, match, limit string, more ...string) func(*operator) *answer {
	return submit(path, append([]string{
		"expect", expect, "mode", "enforce", "limit", limit, "window", "1m", "match", match, "algorithm", "timestamp_log", "on_failure", "local",
	}, more...)...)
}

func policy(match, rule string) object { return object{"match": list{match}, "rules": list{rule}} }

// setPolicy creates or replaces a policy.
func (o *operator) setPolicy(name, match, rule string) {
	o.t.Helper()
	o.setUp(send("PUT", "/v1/policies/"+name+"?confirm="+name, policy(match, rule)).ifMatch("*"))
}

func changePolicies(o *operator) {
	// A change that is refused is of the policy q.
	p, q := "p-"+o.name, "q-"+o.name
	// create creates a policy of one rule in each minute.
	create := func(name, match, limit string, c change) change {
		c.rest, c.page = send("PUT", "/v1/policies/"+name, policy(match, limit+"/1m")), editPolicy("/new-policy", "", match, limit, "name", name)
		c.command = run("policy", "set", name, "--match", match, "--rule", limit+"/1m")
		return c
	}
	pol, out, sco, also := "pol"+o.name+":", "out"+o.name+":", "sco"+o.name+":", "also"+o.name+":"
	o.change("policy: create", create(p, pol+"*", "5", change{result: "/v1/policies/" + p}))
	o.change("policy: create with a bad name", create(".x", pol+"x*", "5", change{want: fault{"invalid", "name"}}))
	o.change("policy: create without rules", change{
		rest:    send("PUT", "/v1/policies/r-"+o.name, object{"match": list{pol + "y*"}, "rules": list{}}),
		page:    editPolicy("/new-policy", "", pol+"y*", "", "name", "r-"+o.name),
		command: run("policy", "set", "r-"+o.name, "--match", pol+"y*", "--no-rules"),
		result:  "/v1/policies/r-" + o.name,
	})
	o.change("policy: leave the rules out", change{
		want:    fault{"invalid", "rules"},
		rest:    send("PUT", "/v1/policies/"+q, object{"match": list{pol + "y*"}}),
		command: run("policy", "set", q, "--match", pol+"y*"),
		words:   texts{byCommand: "--no-rules for a policy that allows everything"},
		lacks:   texts{byPage: "the form always sends a list"},
	})
	o.change("policy: create without a pattern", change{
		want:    fault{"invalid", "match"},
		rest:    send("PUT", "/v1/policies/"+q, object{"rules": list{"5/1m"}}),
		page:    editPolicy("/new-policy", "", "", "5", "name", q),
		command: run("policy", "set", q, "--rule", "5/1m"),
		words:   texts{byCommand: "give its patterns"},
	})
	o.change("policy: create with a bad pattern", create(q, "ip:300.1.1.1", "5", change{want: fault{"invalid", "match[0]"}}))
	o.change("policy: create with an outcome", change{
		rest: send("PUT", "/v1/policies/o-"+o.name, object{
			"match": list{out + "*"}, "when": object{"path": list{"/login"}}, "outcome": "login_failed", "rules": list{"5/1m"},
		}),
		page:    editPolicy("/new-policy", "", out+"*", "5", "name", "o-"+o.name, "when_path", "/login", "outcome", "login_failed"),
		command: run("policy", "set", "o-"+o.name, "--match", out+"*", "--when", "path=/login", "--outcome", "login_failed", "--rule", "5/1m"),
		result:  "/v1/policies/o-" + o.name,
	})
	o.change("policy: create one for attacks", change{
		rest:    send("PUT", "/v1/policies/at-"+o.name, object{"match": list{"att" + o.name + ":*"}, "when": object{"attack": list{"on"}}, "rules": list{"5/1m"}}),
		page:    editPolicy("/new-policy", "", "att"+o.name+":*", "5", "name", "at-"+o.name, "attack", "on"),
		command: run("policy", "set", "at-"+o.name, "--match", "att"+o.name+":*", "--when", "attack", "--rule", "5/1m"),
		result:  "/v1/policies/at-" + o.name,
	})
	o.change("policy: create with a bad outcome", change{
		want:    fault{"invalid", "outcome"},
		rest:    send("PUT", "/v1/policies/"+q, object{"match": list{out + "x*"}, "outcome": "Login failed", "rules": list{"5/1m"}}),
		page:    editPolicy("/new-policy", "", out+"x*", "5", "name", q, "outcome", "Login failed"),
		command: run("policy", "set", q, "--match", out+"x*", "--outcome", "Login failed", "--rule", "5/1m"),
	})
	o.change("policy: create with a scope", change{
		rest:    send("PUT", "/v1/policies/sc-"+o.name, object{"match": list{sco + "*"}, "outcome": "login_failed", "scope": "login", "rules": list{"5/1m"}}),
		page:    editPolicy("/new-policy", "", sco+"*", "5", "name", "sc-"+o.name, "outcome", "login_failed", "scope", "login"),
		command: run("policy", "set", "sc-"+o.name, "--match", sco+"*", "--outcome", "login_failed", "--scope", "login", "--rule", "5/1m"),
		result:  "/v1/policies/sc-" + o.name,
	})
	o.change("policy: create with a bad scope", change{
		want:    fault{"invalid", "scope"},
		rest:    send("PUT", "/v1/policies/"+q, object{"match": list{sco + "x*"}, "outcome": "login_failed", "scope": "The login", "rules": list{"5/1m"}}),
		page:    editPolicy("/new-policy", "", sco+"x*", "5", "name", q, "outcome", "login_failed", "scope", "The login"),
		command: run("policy", "set", q, "--match", sco+"x*", "--outcome", "login_failed", "--scope", "The login", "--rule", "5/1m"),
	})
	o.change("policy: create with a scope but no outcome", change{
		want:    fault{"invalid", "scope"},
		rest:    send("PUT", "/v1/policies/"+q, object{"match": list{sco + "x*"}, "scope": "login", "rules": list{"5/1m"}}),
		page:    editPolicy("/new-policy", "", sco+"x*", "5", "name", q, "scope", "login"),
		command: run("policy", "set", q, "--match", sco+"x*", "--scope", "login", "--rule", "5/1m"),
	})
	o.change("policy: create with further keys", change{
		rest:    send("PUT", "/v1/policies/al-"+o.name, object{"match": list{also + "*"}, "rules": list{"5/1m"}, "also": list{"account 10/1h", "net:/24"}}),
		page:    editPolicy("/new-policy", "", also+"*", "5", "name", "al-"+o.name, "also", "account 10/1h\r\nnet:/24"),
		command: run("policy", "set", "al-"+o.name, "--match", also+"*", "--rule", "5/1m", "--also", "account 10/1h", "--also", "net:/24"),
		result:  "/v1/policies/al-" + o.name,
	})
	o.change("policy: create with a bad further key", change{
		want:    fault{"invalid", "also[0]"},
		rest:    send("PUT", "/v1/policies/"+q, object{"match": list{also + "x*"}, "rules": list{"5/1m"}, "also": list{"net:/99"}}),
		page:    editPolicy("/new-policy", "", also+"x*", "5", "name", q, "also", "net:/99"),
		command: run("policy", "set", q, "--match", also+"x*", "--rule", "5/1m", "--also", "net:/99"),
	})
	o.change("policy: create with a bad rule", create(q, pol+"z*", "-5", change{
		want: fault{"invalid", "rules[0]"}, words: texts{byPage: `This rule has the count "-5"`},
	}))
	taken := "taken" + o.name + ":*"
	o.setPolicy(o.name, taken, "5/1m")
	o.change("policy: create one whose pattern another has", create(q, taken, "5", change{want: fault{"conflict", "match[0]"}}))
	o.change("policy: create one that exists", change{
		want:  fault{"precondition_required", ""},
		rest:  send("PUT", "/v1/policies/"+o.name, policy(taken, "6/1m")),
		page:  editPolicy("/new-policy", "", taken, "6", "name", o.name),
		words: texts{byPage: "There is a policy of this name"},
		lacks: texts{byCommand: "policy set changes a policy that exists"},
	})
	b, everyKey := "b-"+o.name, "all"+o.name+":*"
	o.change("policy: create a broad one without a confirmation", create(b, everyKey, "0", change{want: fault{"confirmation_required", "confirm"}}))
	o.change("policy: create a broad one", change{
		rest:    send("PUT", "/v1/policies/"+b+"?confirm="+b, policy(everyKey, "0/1m")),
		page:    editPolicy("/new-policy", "", everyKey, "0", "name", b, "confirm", b),
		command: run("policy", "set", b, "--match", everyKey, "--rule", "0/1m", "--yes"),
		result:  "/v1/policies/" + b,
	})
	first := o.policyTag(p, 1)
	o.change("policy: change", change{
		rest:    send("PUT", "/v1/policies/"+p, policy(pol+"*", "7/1m")).ifMatch(first),
		page:    editPolicy("/policies/"+p, first, pol+"*", "7"),
		command: run("policy", "set", p, "--rule", "7/1m"),
		result:  "/v1/policies/" + p,
	})
	o.change("policy: change a version that was replaced", change{
		want:  fault{"precondition_failed", ""},
		rest:  send("PUT", "/v1/policies/"+p, policy(pol+"*", "8/1m")).ifMatch(first),
		page:  editPolicy("/policies/"+p, first, pol+"*", "8"),
		lacks: texts{byCommand: "it reads the version that it changes itself"},
	})
	// rollBack rolls a policy back from its second version to the first.
	rollBack := func(policy string, want fault, result string) change {
		tag := o.policyTag(policy, 2)
		return change{
			rest:    send("POST", "/v1/policies/"+policy+"/rollback", object{"version": 1}).ifMatch(tag),
			page:    submit("/policies/"+policy+"/return", "expect", tag, "version", "1"),
			command: run("policy", "rollback", policy, "1"),
			want:    want, result: result,
		}
	}
	o.change("policy: roll back", rollBack(p, fault{}, "/v1/policies/"+p))
	o.change("policy: roll back an unknown one", rollBack("none-"+o.name, fault{"not_found", ""}, ""))
	c := "c-" + o.name
	o.setPolicy(c, "c"+o.name+":*", "0/1m")
	o.setPolicy(c, "c"+o.name+":*", "1/1m")
	o.change("policy: roll back to a broad one without a confirmation", rollBack(c, fault{"confirmation_required", "confirm"}, ""))
	rename := func(from, to string, want fault, result string) change {
		tag := o.policyTag(from, 1)
		return change{
			rest:    send("POST", "/v1/policies/"+from+"/rename", object{"name": to}).ifMatch(tag),
			page:    submit("/policies/"+from+"/rename", "expect", tag, "to", to),
			command: run("policy", "rename", from, to),
			want:    want, result: result,
		}
	}
	o.setPolicy("old-"+o.name, "old"+o.name+":*", "5/1m")
	o.change("policy: rename", rename("old-"+o.name, "new-"+o.name, fault{}, "/v1/policies/new-"+o.name))
	o.setPolicy("old-"+o.name, "other"+o.name+":*", "5/1m")
	o.change("policy: rename to the name of another", rename("old-"+o.name, p, fault{"conflict", "name"}, ""))
	staged := "staged-" + o.name
	o.setPolicy(staged, "staged"+o.name+":*", "5/1m")
	o.setUp(send("PUT", "/v1/policies/"+staged+".draft", object{"match": list{"staged" + o.name + ":*"}, "rules": list{"4/1m"}, "mode": "shadow"}))
	draft := o.tag("/v1/policies/" + staged + ".draft")
	o.change("policy: put the draft in force", change{
		rest:    send("POST", "/v1/policies/"+staged+"/promote").ifMatch(draft),
		page:    submit("/policies/"+staged+"/promote", "expect", draft),
		command: run("policy", "promote", staged),
		result:  "/v1/policies/" + staged,
	})
	third := o.policyTag(p, 3)
	o.change("policy: delete", change{
		rest:    send("DELETE", "/v1/policies/"+p).ifMatch(third),
		page:    submit("/policies/"+p+"/delete", "expect", third, "confirm", p),
		command: run("policy", "delete", p, "--version", "3"),
	})
	first = o.policyTag(c, 1)
	o.change("policy: delete a version that was replaced", change{
		want:    fault{"precondition_failed", ""},
		rest:    send("DELETE", "/v1/policies/"+c).ifMatch(first),
		page:    submit("/policies/"+c+"/delete", "expect", first, "confirm", c),
		command: run("policy", "delete", c, "--version", "1"),
		words:   texts{byCommand: "is at version 2, not 1"},
	})
	none := "none-" + o.name
	o.change("policy: delete an unknown one", change{
		want:    fault{"not_found", ""},
		rest:    send("DELETE", "/v1/policies/"+none).ifMatch("*"),
		page:    submit("/policies/"+none+"/delete", "expect", unknownTag, "confirm", none),
		command: run("policy", "delete", none),
	})
	o.setPolicy("d-"+o.name, "d"+o.name+":*", "0/1m")
	o.setPolicy("e-"+o.name, "d"+o.name+":e*", "5/1m")
	o.change("policy: delete one below a broad one that refuses everything", change{
		want:    fault{"confirmation_required", "confirm"},
		rest:    send("DELETE", "/v1/policies/e-"+o.name).ifMatch("*"),
		command: run("policy", "delete", "e-"+o.name),
		lacks:   texts{byPage: "its form always asks for the name, which is the confirmation"},
	})
	o.setPolicy("g1-"+o.name, "g1"+o.name+":*", "0/1m")
	o.setPolicy("h1-"+o.name, "g1"+o.name+":h*", "5/1m")
	o.change("policy: undo the creation of one above which another refuses everything",
		undo(o.record(), fault{"confirmation_required", "confirm"}, ""))
	o.setPolicy("h2-"+o.name, "g2"+o.name+":other*", "5/1m")
	o.setPolicy("h2-"+o.name, "g2"+o.name+":h*", "5/1m")
	replacement := o.record()
	o.setPolicy("g2-"+o.name, "g2"+o.name+":*", "0/1m")
	o.change("policy: undo the change of one above which another refuses everything",
		undo(replacement, fault{"confirmation_required", "confirm"}, ""))
	o.setPolicy("i-"+o.name, "i"+o.name+":*", "5/1m")
	o.setUp(send("DELETE", "/v1/policies/i-"+o.name).ifMatch("*"))
	o.change("policy: undo a deletion", undo(o.record(), fault{}, "/v1/policies/i-"+o.name))

	// apply applies a set of one policy: by the command from a file, as JSON, which is YAML too.
	apply := func(name, match, rule string, c change) change {
		set := object{"policies": []object{{"name": name, "match": list{match}, "rules": list{rule}}}}
		c.rest, c.command = send("POST", "/v1/policy-set", set), run("apply", "-f", o.file(jsonOf(o.t, set)))
		c.lacks = texts{byPage: "a policy file is applied by REST and the command; the editor changes one policy"}
		return c
	}
	o.change("policy set: apply", apply("s-"+o.name, "set"+o.name+":*", "5/1m", change{result: "/v1/policies/s-" + o.name}))
	o.change("policy set: apply a bad rule", apply("t-"+o.name, "t"+o.name+":*", "x", change{
		want: fault{"invalid", "policies[0].rules[0]"}, words: texts{byCommand: `rules[0]: the rule "x" has no slash`},
	}))
	u := "u-" + o.name
	broad := apply(u, "u"+o.name+":*", "0/1m", change{want: fault{"confirmation_required", "confirm"}})
	o.change("policy set: apply a broad one without a confirmation", broad)
	broad.rest.path += "?confirm=" + u
	broad.command.args = append(broad.command.args, "--yes")
	broad.want, broad.result = fault{}, "/v1/policies/"+u
	o.change("policy set: apply a broad one", broad)
}
