package doors

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
)

// everyDoor returns functions that send a request from an address to each door and return the status, 200 for
// what is allowed.
func (e *envoySide) everyDoor() map[string]func(address string) int {
	checks := &site{T: e.T, node: e.node, url: e.node.Check}
	// The rate limit service has one answer for all refusals; its metadata has the outcome.
	statusOf := map[string]int{"blocked": http.StatusForbidden, "limited": http.StatusTooManyRequests}
	limits := func(entries ...string) int {
		answer := e.ask("site", 0, descriptor(entries...))
		if answer.GetOverallCode().String() == "OK" {
			return http.StatusOK
		}
		return statusOf[answer.GetDynamicMetadata().GetFields()["decision"].GetStringValue()]
	}
	return map[string]func(string) int{
		"check": func(address string) int {
			return checks.send(http.MethodPost, "/v1/check", `{"key":"ip:`+address+`"}`, "Content-Type: application/json").status
		},
		"check of several": func(address string) int {
			return checks.send(http.MethodPost, "/v1/check", `{"keys":["other:1","ip:`+address+`"]}`, "Content-Type: application/json").status
		},
		"batch": func(address string) int {
			var answer struct{ Decisions []struct{ Decision string } }
			r := checks.send(http.MethodPost, "/v1/check/batch", `{"checks":[{"key":"ip:`+address+`"}]}`, "Content-Type: application/json")
			if err := json.Unmarshal([]byte(r.body), &answer); err != nil || len(answer.Decisions) != 1 {
				e.Fatalf("%v: %s", err, r.body)
			}
			if answer.Decisions[0].Decision == "allowed" {
				return http.StatusOK
			}
			return statusOf[answer.Decisions[0].Decision]
		},
		"forward": func(address string) int {
			return checks.get("/v1/forward", "X-Forwarded-For: "+address).status
		},
		"forward, several keys": func(address string) int {
			return checks.get("/v1/forward?by=ip&by=method", "X-Forwarded-For: "+address).status
		},
		"forward, without the header": func(address string) int {
			return checks.get("/v1/forward?by=header:X-Api-Key", "X-Forwarded-For: "+address).status
		},
		"ext_authz": func(address string) int { return e.authorize(address, nil, nil) },
		"ext_authz, behind a proxy": func(address string) int {
			return e.authorize("127.0.0.1", nil, map[string]string{"x-forwarded-for": address})
		},
		"ext_authz, without the header": func(address string) int {
			return e.authorize(address, map[string]string{"by": "header:X-Api-Key"}, nil)
		},
		"ext_authz, several keys": func(address string) int {
			return e.authorize(address, map[string]string{"by": "ip,header:X-Api-Key"}, map[string]string{"x-api-key": "of " + address})
		},
		"rate limit service":         func(address string) int { return limits("remote_address=" + address) },
		"rate limit service, a list": func(address string) int { return limits("generic_key=login", "remote_address="+address) },
		"rate limit service, a masked list": func(address string) int {
			return limits("masked_remote_address="+address+"/128", "generic_key=login")
		},
		"rate limit service in JSON": func(address string) int {
			var answer struct{ DynamicMetadata struct{ Decision string } }
			r := checks.send(http.MethodPost, "/json", `{"domain":"site","descriptors":[{"entries":[{"key":"remote_address","value":"`+address+`"}]}]}`, "Content-Type: application/json")
			if err := json.Unmarshal([]byte(r.body), &answer); err != nil {
				e.Fatalf("%v: %s", err, r.body)
			}
			if r.status == http.StatusOK {
				return r.status
			}
			return statusOf[answer.DynamicMetadata.Decision]
		},
	}
}

// authorize asks ext_authz and returns the status that it answers with.
func (e *envoySide) authorize(address string, extensions, headers map[string]string) int {
	e.Helper()
	answer, err := authv3.NewAuthorizationClient(e.conn).Check(e.Context(), httpCheck(address, extensions, headers))
	if err != nil {
		e.Fatal(err)
	}
	if denied := answer.GetDeniedResponse(); denied != nil {
		return int(denied.GetStatus().GetCode())
	}
	return http.StatusOK
}

// IPv6 clients are counted by their network, but blocks and exemptions may cover one
// address or a part of the network. All doors must apply them.
func TestBlockOfOneIPv6AddressAppliesAtEveryDoor(t *testing.T) {
	e := startEnvoySide(t, "--trusted-proxies", "127.0.0.1")
	for _, name := range []string{"limits", "default"} {
		e.node.Do(t, http.MethodDelete, "/v1/policies/"+name+"?confirm="+name, "", http.StatusNoContent)
	}
	e.node.Do(t, http.MethodPut, "/v1/policies/limits?confirm=limits", `{"match":["ip:*","envoy:site:*"],"rules":["1000/1d"]}`, http.StatusCreated)
	add := func(what, pattern string) {
		t.Helper()
		e.node.Do(t, http.MethodPost, "/v1/"+what, `{"pattern":"`+pattern+`","reason":"test","expires_in":"1h"}`, http.StatusCreated)
	}
	add("blocks", "ip:2001:db8:1:1::bad/128")
	add("blocks", "ip:2001:db8:1:2:3:4::/96")
	add("blocks", "ip:2001:db8:1:3::/64")
	add("exemptions", "ip:2001:db8:1:3::1/128")
	add("exemptions", "ip:2001:db8:1:3:4:5::/96")
	for door, ask := range e.everyDoor() {
		for address, want := range map[string]int{
			"2001:db8:1:1::bad":     http.StatusForbidden,
			"2001:db8:1:1::bae":     http.StatusOK,
			"2001:db8:1:2:3:4:5:6":  http.StatusForbidden,
			"2001:db8:1:2:3:5:5:6":  http.StatusOK,
			"2001:db8:1:3::1":       http.StatusOK,
			"2001:db8:1:3::2":       http.StatusForbidden,
			"2001:db8:1:3:4:5:6:7":  http.StatusOK,
			"2001:db8:1:3:4:5a:6:7": http.StatusForbidden,
		} {
			if got := ask(address); got != want {
				t.Errorf("%s: %s: got %d, want %d", door, address, got, want)
			}
		}
	}
}

// A client with a whole network has one key, also in a list of entries.
func TestEnvoyCountsAnIPv6ClientByItsNetwork(t *testing.T) {
	e := startEnvoySide(t)
	for i, entries := range [][]string{
		{"remote_address=%s"},
		{"generic_key=login", "remote_address=%s"},
		{"masked_remote_address=%s/128", "generic_key=login"},
		{"generic_key=other", "masked_remote_address=%s/96"},
	} {
		for n := range 4 {
			d := descriptor(entries...)
			for _, entry := range d.Entries {
				entry.Value = strings.Replace(entry.Value, "%s", fmt.Sprintf("2001:db8:77:%d::%d:0:0", i, n), 1)
			}
			e.want(n < 3, e.ask("site", 0, d))
		}
	}
	// These keys must not change.
	for entry, key := range map[string]string{
		"remote_address=192.0.2.1": "envoy:site:generic_key=a|remote_address=192.0.2.1", "masked_remote_address=192.0.2.1/32": "envoy:site:generic_key=a|masked_remote_address=192.0.2.1/32",
		"masked_remote_address=192.0.2.0/24": "envoy:site:generic_key=a|masked_remote_address=192.0.2.0/24", "remote_address=unknown": "envoy:site:generic_key=a|remote_address=unknown",
		"masked_remote_address=2001:db8::/48": "envoy:site:generic_key=a|masked_remote_address=2001%3Adb8%3A%3A/48",
		"remote_address=2001:db8::1":          "envoy:site:generic_key=a|remote_address=2001%3Adb8%3A%3A/64",
	} {
		e.want(true, e.ask("site", 0, descriptor("generic_key=a", entry)))
		var shown struct {
			Policy struct{ Rules []struct{ Used int } }
		}
		body := e.node.Do(t, http.MethodGet, "/v1/keys?policy=limits&key="+url.QueryEscape(key), "", http.StatusOK)
		if err := json.Unmarshal(body, &shown); err != nil || len(shown.Policy.Rules) != 1 || shown.Policy.Rules[0].Used != 1 {
			t.Errorf("%s is not counted under the key %s: %s", entry, key, body)
		}
	}
}
