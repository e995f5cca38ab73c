package api

import "github.com/stint-dev/stint/internal/wire"

func (d *described) describeProfiles() {
	d.Helper()
	const (
		oddKey = "token:%22%3E%3Cscript%3E%2F..%2F%3F"
		odd    = "/v1/keys/" + oddKey
		limit  = "/v1/keys/limits/" + oddKey
	)
	d.do("getProfile", get, odd, "", 404)
	d.do("putProfile", put, odd, `{"plan":"gold","labels":["vip","region=eu"],"note":"pays late"}`, 200)
	d.do("putProfile", put, odd, `{"plan":"silver"}`, 428)
	d.do("putProfile", put, odd, `{"plan":"silver"}`, 412, `If-Match: "0123456789abcdef"`)
	d.do("putProfile", put, odd, `{"plan":"Gold"}`, 422)
	d.do("putProfile", put, odd, `{}`, 422)
	d.do("putProfile", put, "/v1/keys/ip:300.1.1.1", `{"plan":"gold"}`, 422)
	d.do("putLimit", put, limit, `{"rules":["5/s"],"reason":"launch","expires_in":"2d"}`, 200)
	d.do("putLimit", put, limit, `{"rules":["0/s"],"reason":"launch"}`, 422)
	d.do("putLimit", put, limit, `{"rules":["5/s"],"reason":""}`, 422)
	profile := read[wire.Profile](d.T, d.do("getProfile", get, odd, "", 200))
	if profile.Key != "token:\"><script>/../?" || profile.Plan != "gold" || len(profile.Labels) != 2 || profile.Limit == nil || !profile.Limit.Active || profile.Limit.Author == "" {
		d.Errorf("got the profile %+v", profile)
	}
	x := read[wire.KeyExplanation](d.T, d.do("explainKey", get, "/v1/keys?key=token:%22%3E%3Cscript%3E%2F..%2F%3F", "", 200))
	if x.Plan != "gold" || x.OwnLimit == nil || x.Policy == nil || x.Policy.Rules[0].Rule != "5/1s" {
		d.Errorf("got the explanation %+v", x)
	}
	if checked := read[wire.Decision](d.T, d.do("check", post, "/v1/check", `{"key":"token:\"><script>/../?"}`, 200)); !checked.OwnLimit {
		d.Errorf("got the decision %+v, want it by the own limit", checked)
	}
	d.do("putProfile", put, "/v1/keys/ip:2001:db8::%2F64", `{"plan":"gold"}`, 200)
	d.do("listProfiles", get, "/v1/profiles?plan=gold&label=vip&search=SCRIPT&limited=true&limit=10", "", 200)
	d.do("listPlans", get, "/v1/plans", "", 200)
	d.do("exportProfiles", get, "/v1/profiles/export?plan=gold", "", 200)
	d.do("exportProfiles", get, "/v1/profiles/export?format=json&label=vip", "", 200)
	d.do("importProfiles", post, "/v1/profiles/import?skip_bad=true", "key,plan\ntoken:b,gold\nip:300.1.1.1,gold\n", 200, "Content-Type: text/csv")
	d.do("importProfiles", post, "/v1/profiles/import", "key,plan\nip:300.1.1.1,gold\n", 422, "Content-Type: text/csv")
	d.do("importProfiles", post, "/v1/profiles/import", "ip:203.0.113.7", 415, "Content-Type: text/plain")
	d.do("endLimit", del, limit+"?reason=over", "", 200)
	d.do("endLimit", del, limit, "", 404)
	d.do("deleteProfile", del, odd, "", 428)
	d.do("deleteProfile", del, odd, "", 412, `If-Match: "0123456789abcdef"`)
	d.do("deleteProfile", del, odd, "", 204, d.ifMatch(odd))
	d.do("deleteProfile", del, odd, "", 404, "If-Match: *")
}
