package doors

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-dev/stint/test/testnode"
)

func TestNodePackageTypesFitTheFrameworks(t *testing.T) {
	c := exec.Command("node_modules/.bin/tsc", "-p", ".")
	c.Dir = repository(t, "clients/node")
	if text, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, text)
	}
}

// The key in these programs is chosen by the client, as in a careless configuration.
const hostile = `
import express from 'express'
import { Stint, expressGuard } from '@stint-dev/client'

const app = express()
app.use(expressGuard(new Stint('http://127.0.0.1:8080', { timeout: 60_000 }), {
  policy: 'visitors',
  key: (request) => JSON.parse(decodeURIComponent(request.get('X-Key'))),
}))
app.use((request, response) => response.send('allowed'))
app.listen(8000, '127.0.0.1')
`

func TestNodePackageAnswers400ToHostileKeys(t *testing.T) {
	s := &site{T: t, node: testnode.Start(t), app: new(application)}
	s.program(runNode("express"), hostile)
	for _, c := range []struct {
		key    string // JSON
		status int
	}{
		{`"site:good"`, http.StatusOK},
		{`["site:good","site:other"]`, http.StatusOK},
		{`[{"key":"site:costly","cost":3}]`, http.StatusOK},
		{`[{"key":"site:costly","cost":1},"site:unused"]`, http.StatusTooManyRequests},
		{`"site:unused"`, http.StatusOK},
		{`""`, http.StatusBadRequest},
		{`null`, http.StatusBadRequest},
		{`[]`, http.StatusBadRequest},
		{`[null]`, http.StatusBadRequest},
		{`["site:a","site:a"]`, http.StatusBadRequest},
		{`7`, http.StatusBadRequest},
		{`{"key":"site:a"}`, http.StatusBadRequest},
		{`"site:\u0000"`, http.StatusBadRequest},
		{`"site:\r\nX-Injected: 1"`, http.StatusBadRequest},
		{`"site:\ud800"`, http.StatusBadRequest},
		{`"site:` + strings.Repeat("x", 600) + `"`, http.StatusBadRequest},
		{`["` + strings.Repeat(`site:a","`, 16) + `site:b"]`, http.StatusBadRequest},
	} {
		r := s.get("/", "X-Key: "+escaped(c.key))
		if r.status != c.status || strings.Contains(r.body, "site:") {
			t.Errorf("%.80s: got %d, want %d: %s", c.key, r.status, c.status, r.body)
		}
	}
}

// asIs has the address that proxies write as the key, and shows the client's User-Agent.
const asIs = `
import express from 'express'
import { Stint, addressKey, expressGuard } from '@stint-dev/client'

const app = express()
app.use(expressGuard(new Stint('http://127.0.0.1:8080', { timeout: 60_000 }), {
  key: addressKey('127.0.0.1', '::1'),
  meta: (request) => ({ agent: request.get('User-Agent') }),
}))
app.use((request, response) => response.send('allowed'))
app.listen(8000, '127.0.0.1')
`

func TestNodePackageReadsAddressesWithPortsAndSendsLongMeta(t *testing.T) {
	s := &site{T: t, node: testnode.Start(t), app: new(application)}
	s.node.Do(t, http.MethodPost, "/v1/blocks", `{"pattern":"ip:203.0.113.7","reason":"scraping"}`, http.StatusCreated)
	s.node.Do(t, http.MethodPost, "/v1/blocks", `{"pattern":"ip:2001:db8::/64","reason":"scraping"}`, http.StatusCreated)
	s.program(runNode("express"), asIs)
	for address, want := range map[string]int{
		"203.0.113.7": http.StatusForbidden, "203.0.113.7:5000": http.StatusForbidden, "203.0.113.8:5000": http.StatusOK,
		"2001:db8::1": http.StatusForbidden, "[2001:db8::1]": http.StatusForbidden, "[2001:db8::1]:443": http.StatusForbidden, "[2001:db8:1::1]:443": http.StatusOK,
	} {
		if r := s.get("/", "X-Forwarded-For: "+address, "User-Agent: "+strings.Repeat("x", 300)); r.status != want {
			t.Errorf("%s: got %d, want %d: %s", address, r.status, want, r.body)
		}
	}
}

// escaped writes every byte as %XX.
func escaped(text string) string {
	var b strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&b, "%%%02X", text[i])
	}
	return b.String()
}

// The conditions of a trap match the client's request, and no value from a client makes its check
// invalid.
func TestNodePackageSendsWhatConditionsMatch(t *testing.T) {
	for _, g := range frameworks {
		t.Run(g.name, func(t *testing.T) {
			s := start(t, g, 0)
			s.put("site", `{"match":["ip:*"],"rules":["100/1d"]}`)
			s.put("trap", `{"match":["ip:*"],"rules":["0/1s"],"when":{"path":["/.env*"],"agent":["*sqlmap*"],"method":["GET"],"host":["127.0.0.1"]}}`)
			s.expect("the trap", s.get("/%2eenv?x=1", "User-Agent: sqlMap/1.8"), http.StatusTooManyRequests)
			s.expect("a padded path", s.get("/"+strings.Repeat("./", 4500)+"x/%2e%2e/.env", "User-Agent: sqlMap/1.8"), http.StatusTooManyRequests)
			s.expect("another path", s.get("/env?/.env", "User-Agent: sqlMap/1.8"), http.StatusOK)
			s.expect("another agent", s.get("/.env", "User-Agent: curl"), http.StatusOK)
			s.expect("long values", s.get("/"+strings.Repeat("a", 9000), "User-Agent: "+strings.Repeat("\xe9", 3000)), http.StatusOK)
		})
	}
}

const reporting = `
import express from 'express'
import { Stint, StintError, expressGuard } from '@stint-dev/client'

const stint = new Stint('http://127.0.0.1:8080', { timeout: 60_000 })
const app = express()
app.use(expressGuard(stint, { key: (request) => 'user:' + request.query.user }))
app.get('/wrong', (request, response) => stint.report({ key: 'user:a', outcome: 'Wrong' }).catch(
  (error) => response.send(String(error instanceof StintError) + ' ' + error.field)))
const long = {
  request: { path: '/' + './'.repeat(5000) + 'login', method: 'x'.repeat(40), agent: 'a\ud800\n' + 'x'.repeat(3000), host: 'x'.repeat(300) },
  values: { account: 'alice\ud800' }, meta: { agent: 'x'.repeat(3000) },
}
app.get('/long', async (request, response) => {
  const { policies } = await stint.report({ key: 'user:c', outcome: 'login_failed', ...long })
  const { decision } = await stint.check({ key: 'user:d', ...long })
  response.send(policies[0].result + ' ' + decision)
})
app.use(express.json())
app.post('/chosen', async (request, response) => {
  const chosen = { request: { path: '/login' }, values: request.body, meta: request.body }
  const { policies } = await stint.report({ key: 'user:' + request.query.user, outcome: 'login_failed', ...chosen })
  const { decision } = await stint.check({ key: 'user:' + request.query.user, ...chosen })
  response.send(policies[0].result + ' ' + decision)
})
app.use(async (request, response) => {
  const { policies } = await stint.report({ key: 'user:' + request.query.user, outcome: 'login_failed', request: { path: request.path } })
  response.send(JSON.stringify(policies.map(({ policy, result, refuses }) => [policy, result, refuses])))
})
app.listen(8000, '127.0.0.1')
`

func TestNodePackageReportsOutcomes(t *testing.T) {
	s := &site{T: t, node: testnode.Start(t), app: new(application)}
	s.node.Do(t, "PUT", "/v1/policies/guessing", `{"match":["user:*"],"when":{"path":["/login"]},"outcome":"login_failed","rules":["2/d"]}`, http.StatusCreated)
	s.program(runNode("express"), reporting)
	for _, c := range []struct{ path, body string }{
		{"/other?user=a", "[]"}, {"/login?user=a", `[["guessing","charged",false]]`}, {"/login?user=a", `[["guessing","charged",true]]`},
		{"/wrong?user=b", "true outcome"}, {"/long?user=e", "charged allowed"}, {"/login?user=b", `[["guessing","charged",false]]`},
	} {
		if r := s.get(c.path); r.status != http.StatusOK || r.body != c.body {
			t.Errorf("%s: got %d %s, want %s", c.path, r.status, r.body, c.body)
		}
	}
	for name, body := range map[string]string{
		"types":              `{"a":1,"b":["x"],"c":{"toString":1},"d":null,"e":true,"f":""}`,
		"a long value":       `{"a":"` + strings.Repeat("x", 90_000) + `"}`,
		"control characters": `{"` + strings.Join(strings.Split("abcdefgh", ""), `":"`+strings.Repeat(`\u0001`, 2000)+`","`) + `":""}`,
	} {
		if r := s.send(http.MethodPost, "/chosen?user="+url.QueryEscape(name), body, "Content-Type: application/json"); r.status != http.StatusOK || r.body != "charged allowed" {
			t.Errorf("%s: got %d %s", name, r.status, r.body)
		}
	}
	s.expect("a user with two failed logins", s.get("/login?user=a"), http.StatusTooManyRequests)
}

const mistaken = `
import express from 'express'
import { Stint, expressGuard } from '@stint-dev/client'

const app = express()
app.use(expressGuard(new Stint('http://127.0.0.1:8080', { timeout: 60_000, onOutage: 'open' }), {
  policy: 'no-such-policy', onError: (error, request) => { request.why = error.code },
}))
app.use((request, response) => response.send('allowed'))
app.listen(8000, '127.0.0.1')
`

// A mistake of the operator is not an outage: requests are refused, so that it is noticed.
func TestNodePackageRefusesIfThePolicyIsUnknown(t *testing.T) {
	s := &site{T: t, node: testnode.Start(t), app: new(application)}
	s.program(runNode("express"), mistaken)
	r := s.get("/")
	s.expect("an unknown policy", r, http.StatusServiceUnavailable)
	if r.header.Get("Retry-After") == "" || strings.Contains(r.body, "policy") {
		t.Errorf("an unknown policy: got %v %s", r.header, r.body)
	}
}

// A refused token is an outage. The token is sent as in the complete configuration.
func TestNodePackageSendsItsToken(t *testing.T) {
	for _, g := range frameworks {
		t.Run(g.name, func(t *testing.T) {
			node := testnode.Start(t, "--check-auth", "token")
			s := &site{T: t, node: node, app: new(application)}
			t.Setenv("STINT_CHECK_TOKEN", "nonsense")
			s.behind(g, 1)
			s.expect("a wrong token", s.get("/"), g.down)
			t.Setenv("STINT_CHECK_TOKEN", s.token("check"))
			s.behind(g, 1)
			for range 3 {
				s.expect("the token", s.get("/"), http.StatusOK)
			}
			s.expect("the token", s.get("/"), http.StatusTooManyRequests)
		})
	}
}

// constructed prints the result of the constructor for each token of a list.
const constructed = `
import { Stint } from '@stint-dev/client'

for (const token of [%s]) {
  try {
    new Stint('http://127.0.0.1:8080', { token })
    console.log('made')
  } catch (error) {
    console.log(error.name + ': ' + error.message)
  }
}
`

func TestNodePackageRejectsTokensInvalidInHeaders(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "node_modules", "@stint-dev"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(repository(t, "clients/node"), filepath.Join(dir, "node_modules", "@stint-dev", "client")); err != nil {
		t.Fatal(err)
	}
	refused := []string{`''`, `'a b'`, `'secret\n'`, `'s\u00e9cret'`, `7`, `null`}
	path := filepath.Join(dir, "program.mjs")
	if err := os.WriteFile(path, fmt.Appendf(nil, constructed, strings.Join(append(refused, `undefined`, `'st_Az09-_~'`), ",")), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command("node", path).CombinedOutput()
	want := strings.Repeat("TypeError: token must be printable ASCII without spaces; one that was read from a file may end in a line break\n", len(refused)) + "made\nmade\n"
	if err != nil || string(text) != want {
		t.Errorf("got %v and\n%swant\n%s", err, text, want)
	}
}
