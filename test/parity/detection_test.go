package parity

import "strings"

// broadNetwork has the networks that have much of the traffic.
const broadNetwork = "198.55"

// proposed has the range of the operator in a network proposed, and returns the id of the proposal.
func (o *operator) proposed(network string) string {
	o.t.Helper()
	for host := 1; host <= 3; host++ {
		o.check("ip:"+o.address(network, host), 3)
	}
	o.await(send("GET", "/v1/offenders?pattern=ip:"+o.address(network, 3)), `"key"`)
	o.await(send("POST", "/v1/jobs/propose-ranges/run"), "new proposals") // it is refused while it runs by its schedule
	id := o.await(send("GET", "/v1/proposals?limit=1"), `"id"`).member("id")
	o.ids = append(o.ids, id)
	return id
}

func changeDetection(o *operator) {
	o.setPolicy("addresses", "ip:198.48.0.0/12", "1/1h")
	id, network := o.proposed("198.51"), "ip:"+o.address("198.51", 0)+"/24"
	o.change("proposal: accept", change{
		// Its range is broad once the minute of its checks is over.
		rest:    send("POST", "/v1/proposals/"+id+"/accept", object{"reason": "a botnet", "expires_at": in2099, "confirm": network}),
		page:    submit("/proposals/"+id+"/accept", "reason", "a botnet", "for", "until", "until", "2099-01-01 00:00", "confirm", network),
		command: run("proposal", "accept", id, "--reason", "a botnet", "--until", in2099, "--yes"),
		result:  "/v1/blocks?key=ip:" + o.address("198.51", 9),
	})
	id = o.proposed("198.52")
	long := strings.Repeat("x", 1001)
	o.change("proposal: accept with a bad reason", change{
		want:    fault{"invalid", "reason"},
		rest:    send("POST", "/v1/proposals/"+id+"/accept", object{"reason": long}),
		page:    submit("/proposals/"+id+"/accept", "reason", long, "for", "good"),
		command: run("proposal", "accept", id, "--reason", long),
	})
	o.change("proposal: accept an unknown one", change{
		want:    fault{"not_found", ""},
		rest:    send("POST", "/v1/proposals/"+unknown+"/accept"),
		page:    submit("/proposals/"+unknown+"/accept", "for", "good"),
		command: run("proposal", "accept", unknown),
	})
	id = o.proposed("198.53")
	o.change("proposal: dismiss", change{
		rest:    send("POST", "/v1/proposals/"+id+"/dismiss", object{"reason": "a university"}),
		page:    submit("/proposals/"+id+"/dismiss", "reason", "a university"),
		command: run("proposal", "dismiss", id, "--reason", "a university"),
	})
	id = o.proposed("198.54")
	o.setUp(send("POST", "/v1/proposals/"+id+"/dismiss"))
	o.change("proposal: dismiss one that is closed", change{
		want:    fault{"conflict", ""},
		rest:    send("POST", "/v1/proposals/"+id+"/dismiss"),
		page:    submit("/proposals/" + id + "/dismiss"),
		command: run("proposal", "dismiss", id),
	})
	resume := func(policy string, want fault) change {
		return change{
			want:    want,
			rest:    send("POST", "/v1/escalations/"+policy+"/resume"),
			page:    submit("/escalations/resume", "policy", policy),
			command: run("escalation", "resume", policy),
		}
	}
	paused := o.pausedEscalation()
	o.change("escalation: resume", resume(paused, fault{}))
	o.change("escalation: resume one that is not paused", resume(paused, fault{"not_found", ""}))
	o.change("escalation: resume one of an unknown policy", resume("none", fault{"not_found", ""}))
}

// pausedEscalation makes a policy whose escalation is paused, and returns its name.
func (o *operator) pausedEscalation() string {
	o.t.Helper()
	name, keys := "esc-"+o.name, "esc"+o.name+":"
	o.setUp(send("PUT", "/v1/policies/"+name, object{"match": list{keys + "*"}, "rules": list{"1/1h"}, "escalation": object{
		"threshold": 2, "window": "10m", "duration": "1h", "factor": 2, "max_duration": "1d", "decay_after": "7d",
	}}))
	for key := 'a'; key <= 'z'; key++ {
		o.check(keys+string(key), 4)
	}
	// Offences that are flushed after the escalation was resumed would pause it again.
	o.await(send("GET", "/v1/offenders?pattern="+keys+"z"), `"offences":3`)
	o.await(send("GET", "/v1/escalations/paused"), `"`+name+`"`)
	return name
}

// changeAfterMinute makes the changes that need the traffic of a past minute.
func changeAfterMinute(o *operator) {
	id, network := o.proposed(broadNetwork), "ip:"+o.address(broadNetwork, 0)+"/24"
	const share = "of the last day's checks" // each range has its own share
	o.await(send("POST", "/v1/blocks/preview", object{"pattern": network}), share)
	o.change("proposal: accept a broad one without a confirmation", change{
		want:    fault{"confirmation_required", "confirm"},
		rest:    send("POST", "/v1/proposals/"+id+"/accept", object{"reason": "a botnet"}),
		page:    submit("/proposals/"+id+"/accept", "reason", "a botnet", "for", "good"),
		command: run("proposal", "accept", id, "--reason", "a botnet"),
		words:   texts{byPage: share, byCommand: share},
	})
}
