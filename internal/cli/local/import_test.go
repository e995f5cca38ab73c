package local

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/policyfile"
)

// converted returns what a conversion writes, after reading it back as a policy file.
func converted(t *testing.T, c *conversion, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := c.write(&b); err != nil {
		t.Fatal(err)
	}
	if _, err := policyfile.Read(bytes.NewReader(b.Bytes()), "converted"); err != nil {
		t.Fatalf("it is no policy file: %v\n%s", err, b.String())
	}
	return b.String()
}

func wantLines(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, line) {
			t.Errorf("%q is missing in\n%s", line, text)
		}
	}
}

// envoyExample has the forms of the examples of envoyproxy/ratelimit.
const envoyExample = `---
domain: site
descriptors:
  - key: remote_address
    rate_limit: {unit: second, requests_per_unit: 10}
  - key: remote_address
    value: 192.0.2.7
    rate_limit: {unlimited: true}
  - key: path
    value: /login?x
    rate_limit: {unit: minute, requests_per_unit: 5}
    descriptors:
      - key: user
        shadow_mode: true
        rate_limit: {unit: hour, requests_per_unit: 3}
      - key: user
        value: batch
  - key: user
    descriptors:
      - key: path
        value: /a
        rate_limit: {unit: day, requests_per_unit: 1}
  - key: masked_remote_address
    rate_limit: {unit: second, requests_per_unit: 1}
  - key: plan
    value: gold*
    rate_limit: {unit: month, requests_per_unit: 0}
  - key: odd
    rate_limit: {unit: fortnight, requests_per_unit: 1}
  - key: other
    rate_limit: {unit: second, requests_per_unit: 1, name: a, replaces: [{name: b}]}
    quota_mode: true
---
domain: other
descriptors: [{key: k, value: "2001:db8::/64", rate_limit: {unit: week, requests_per_unit: 9}}, {key: y, rate_limit: {unit: year, requests_per_unit: 9}}]
`

func TestDescriptorsOfEnvoyBecomePolicies(t *testing.T) {
	c, err := convertRateLimits(strings.NewReader(envoyExample))
	text := converted(t, c, err)
	wantLines(t, text, "match: ['ip:*']", "rules: [10/s]", "match: ['ip:192.0.2.7']", "match: ['envoy:site:path=/login%3Fx']", "rules: [5/m]",
		"match: ['envoy:site:path=/login%3Fx|user=*']", "mode: shadow", "match: ['envoy:site:path=/login%3Fx|user=batch']", "match: ['envoy:site:plan=gold*']", "rules: [0/30d]",
		"match: ['envoy:other:k=2001%3Adb8%3A%3A/64']", "rules: [9/7d]", "# other y has no equal",
		"# site user path /a has no equal: any value of user before a further entry", "# site masked_remote_address has no equal: networks of an address",
		`# site odd has no equal: the unit "fortnight"`, "# site other has no equal: quota_mode", "# site other has no equal: replaces")
	if n := strings.Count(text, "- name:"); n != 8 {
		t.Errorf("got %d policies, want 8:\n%s", n, text)
	}
	for _, wrong := range []string{"", "descriptors: []", "domain: a\nlimits: []", "{", "domain: [1]"} {
		if _, err := convertRateLimits(strings.NewReader(wrong)); err == nil {
			t.Errorf("%q was converted", wrong)
		}
	}
}

// configMapExample has the form of the ConfigMaps with which Istio, Contour and others run envoyproxy/ratelimit.
const configMapExample = `apiVersion: v1
kind: ConfigMap
metadata: {name: ratelimit-config, namespace: istio-system}
data:
  config.yaml: |
    domain: site
    descriptors:
      - key: PATH
        value: "/productpage"
        rate_limit: {unit: minute, requests_per_unit: 1}
        metadata: {name: service_1}
      - key: PATH
        value: /static/*/v1
        rate_limit: {unit: minute, requests_per_unit: 7}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: ratelimit}
`

func TestConfigMapsOfKubernetesAreRead(t *testing.T) {
	c, err := convertRateLimits(strings.NewReader(configMapExample))
	text := converted(t, c, err)
	wantLines(t, text, "match: ['envoy:site:PATH=/productpage']", "rules: [1/m]", "# The Deployment of Kubernetes is left out.",
		"# site PATH /productpage has no equal: metadata", "# site PATH /static/*/v1 has no equal: a * within the value of PATH")
	if n := strings.Count(text, "- name:"); n != 1 {
		t.Errorf("got %d policies, want 1:\n%s", n, text)
	}
}

// A control plane such as Envoy Gateway sends envoyproxy/ratelimit a name, every field and units in capitals.
func TestDescriptorsOfControlPlanesAreRead(t *testing.T) {
	c, err := convertRateLimits(strings.NewReader("name: gate\ndomain: gate\ndescriptors:\n- key: route\n  value: a\n  rate_limit: null\n  descriptors:\n" +
		"  - key: masked_remote_address\n    value: 192.0.2.0/24\n    rate_limit: {requests_per_unit: 5, unit: MINUTE, unlimited: false, name: \"\", replaces: []}\n    shadow_mode: false\n" +
		"- key: remote_address\n  value: '*'\n  rate_limit: {unit: HOUR, requests_per_unit: 9}\n"))
	wantLines(t, converted(t, c, err), "match: ['envoy:gate:route=a|masked_remote_address=192.0.2.0/24']", "rules: [5/m]", "match: ['ip:*']", "rules: [9/h]")
}

func TestErrorsOfRateLimitsNameNoTypes(t *testing.T) {
	for text, want := range map[string]string{
		"domain: a\ndescriptors:\n  - key: b\n    ratelimit: {unit: day}": "it is no configuration of envoyproxy/ratelimit: line 4: field ratelimit not found",
		"domain: a\ndescriptors:\n  - a\n  - b":                           "line 3: cannot unmarshal !!str `a`; line 4: cannot unmarshal !!str `b`",
		"apiVersion: v1\nkind: ConfigMap\ndata: {}":                       "it has no configuration of envoyproxy/ratelimit in a ConfigMap",
		"apiVersion: v1\nkind: Service":                                   "it has no configuration of envoyproxy/ratelimit in a ConfigMap",
	} {
		_, err := convertRateLimits(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "local.") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

const nginxExample = `
user www-data;
http {
    log_format main '$remote_addr "$request" {$status}'; # a comment; with { and }
    geo $limit { default 1; 10.0.0.0/8 0; 192.0.2.7 0; }
    map $limit $limit_key { 0 ""; 1 $binary_remote_addr; }
    map $request_method $post { default ""; POST $binary_remote_addr; }
    map $http_x_key $by_key { default $binary_remote_addr; ~^a "" ; }
    limit_req_zone $limit_key zone=pages:10m rate=10r/s;
    limit_req_zone $post zone=forms:10m rate=30r/m;
    limit_req_zone $by_key zone=keys:10m rate=1r/s;
    limit_req_zone $server_name zone=sites:10m rate=100r/s;
    limit_req_zone $binary_remote_addr zone=tries:10m rate=5r/m;
    limit_conn_zone $binary_remote_addr zone=conns:10m;
    server {
        server_name www.example.com;
        limit_req zone=pages burst=20 nodelay;
        location = /login { limit_req zone=tries; }
        location /wp-login.php { limit_req zone=tries; }
        location ~ \.php$ { limit_req zone=tries burst=5; }
        location /api/ { limit_req zone=forms burst=5; limit_req_dry_run on; limit_conn conns 10; proxy_set_header X "${host}y"; }
        location /k { limit_req zone=keys; }
        location /s { limit_req zone=sites; }
        location /gone { limit_req zone=none; }
        location /lua { content_by_lua_block { if x then return {1} end } }
        if ($arg_a) { limit_req zone=pages; }
    }
}
`

// A policy limits nobody whom nginx does not limit without saying so.
func TestConversionsSayWhomTheyLimitToo(t *testing.T) {
	c, err := convertNginx(strings.NewReader(`http {
    geo $limit { 10.0.0.0/8 1; }
    map $limit $k { default ""; 1 $binary_remote_addr; }
    limit_req_zone $k zone=inside:10m rate=1r/s;
    limit_req_zone $binary_remote_addr zone=all:10m rate=1r/s;
    server { server_name .example.com; location / { limit_req zone=inside; } location /api { limit_req zone=all; } location /static/ {} }
}`))
	text := converted(t, c, err)
	wantLines(t, text, "its geo limits only some networks", "- example.com", "'*.example.com'", "this policy limits too what nginx leaves to other locations and servers")
	if n := strings.Count(text, "- name:"); n != 1 {
		t.Errorf("got %d policies, want that of zone all:\n%s", n, text)
	}
	c, err = convertRateLimits(strings.NewReader("domain: a\ndescriptors: [{key: remote_address, rate_limit: {unit: second, requests_per_unit: 1}}]\n---\n" +
		"domain: b\ndescriptors: [{key: remote_address, rate_limit: {unit: second, requests_per_unit: 2}}]\n"))
	text = converted(t, c, err)
	wantLines(t, text, "# b remote_address has no equal: a remote_address limits the same keys")
	if n := strings.Count(text, "- name:"); n != 1 {
		t.Errorf("got %d policies, want 1:\n%s", n, text)
	}
}

func TestZonesOfNginxBecomePolicies(t *testing.T) {
	c, err := convertNginx(strings.NewReader(nginxExample))
	text := converted(t, c, err)
	wantLines(t, text, "name: nginx-pages", "rules: [10/s]", "algorithm: gcra", "burst: 21", "- www.example.com",
		"stint-admin exemption add 10.0.0.0/8", "stint-admin exemption add 192.0.2.7", "name: nginx-tries", "rules: [5/m]", "burst: 1}", "- /login\n", "- /wp-login.php*",
		"name: nginx-forms", "rules: [30/m]", "method: [POST]", "mode: shadow", "burst: 6", "nginx lets requests of the burst wait",
		`location ~ \.php$ is a regular expression`, "# limit_conn conns 10 has no equal", "its key is $server_name", "the map of its key $by_key is not plain", "the zone is not defined",
		"# if ($arg_a) has no equal", "nginx applies it instead of the limits around it")
	if n := strings.Count(text, "- name:"); n != 3 {
		t.Errorf("got %d policies, want 3:\n%s", n, text)
	}
	for _, wrong := range []string{"", "events {}", "http {", "}", "{", "a 'b", "http { limit_req_zone ; }", strings.Repeat("a {", 1000)} {
		if _, err := convertNginx(strings.NewReader(wrong)); err == nil {
			t.Errorf("%q was converted", wrong)
		}
	}
}

// crowdSecExample has the form of the profiles.yaml that CrowdSec installs.
const crowdSecExample = `name: default_ip_remediation
#debug: true
filters:
 - Alert.Remediation == true && Alert.GetScope() == "Ip"
decisions:
 - type: ban
   duration: 4h
#duration_expr: Sprintf('%dh', (GetDecisionsCount(Alert.GetValue()) + 1) * 4)
notifications:
  - slack_default
on_success: break
---
name: captcha_remediation
filters: ['Alert.GetScenario() contains "http"']
decisions: [{type: captcha, duration: 1h}]
`

func TestProfilesOfCrowdSecAreExplained(t *testing.T) {
	c, err := convertCrowdSec(strings.NewReader(crowdSecExample))
	text := converted(t, c, err)
	wantLines(t, text, "bans last 4h; that is 'duration: 4h'", "policies: []", "block import - --reason CrowdSec",
		"# profile default_ip_remediation has no equal: notifications", "# profile captcha_remediation has no equal: the decision captcha", "has no equal: the filter Alert.GetScenario()")
	for _, wrong := range []string{"", "a: 1", "[1]"} {
		if _, err := convertCrowdSec(strings.NewReader(wrong)); err == nil {
			t.Errorf("%q was converted", wrong)
		}
	}
}

func FuzzParseNginx(f *testing.F) {
	f.Add(nginxExample)
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := convertNginx(strings.NewReader(text)); err == nil {
			converted(t, c, nil)
		}
	})
}
