package doors

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/testnode"
)

// spelled is a program of express with handlers for the paths of the test's traps.
const spelled = `
import express from 'express'
import { Stint, expressGuard } from '@stint-dev/client'

const app = express()
app.use(expressGuard(new Stint('http://127.0.0.1:8080', { timeout: 60_000 })))
app.get('/private/page', (request, response) => response.send('private'))
app.use('//private', (request, response) => response.send('private'))
app.use((request, response) => response.send('other'))
app.listen(8000, '127.0.0.1')
`

// express parses targets with a fragment, and those with a scheme, like url.parse.
func TestExpressTargetsCannotHideTheirPath(t *testing.T) {
	for _, version := range []string{"express", "express4"} {
		t.Run(version, func(t *testing.T) {
			s := &site{T: t, node: testnode.Start(t), app: new(application)}
			s.put("open", `{"match":["ip:*"],"rules":["1000/1d"]}`)
			s.put("trap", `{"match":["ip:*"],"rules":["0/1s"],"when":{"path":["/private/*"]}}`)
			s.program(runNode(version), spelled)
			for target, status := range map[string]string{
				"/private/page": "429", `/private\page#`: "429", `http://example.org/private\page`: "429", "javascript://private/page": "429",
				"http://example.org/private/page": "429", "/other#": "200", "/?a#/private/page": "200", "*": "200", "http://example.org:99999999": "",
			} {
				line := s.raw("GET " + target + " HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n")
				if line == "" || !strings.Contains(line, status) {
					t.Errorf("%s: got %q, want %s", target, line, status)
				}
			}
		})
	}
}

const overHTTP2 = `
import http2 from 'node:http2'
import fastify from 'fastify'
import { Stint, fastifyGuard } from '@stint-dev/client'

const app = fastify({ http2: true })
app.register(fastifyGuard, { stint: new Stint('http://127.0.0.1:8080', { timeout: 60_000 }) })
app.all('/*', async (request) => request.host)
await app.listen({ port: 8001, host: '127.0.0.1' })
const client = http2.connect('http://127.0.0.1:8001')
const statusOf = (headers) => new Promise((resolve) => client.request(headers).on('response', (got) => resolve(got[':status'])))
const statuses = []
for (const host of ['private.example.org', 'example.org']) statuses.push(await statusOf({ ':path': '/', ':authority': host }))
fastify().all('/', async () => statuses.join(' ')).listen({ port: 8000, host: '127.0.0.1' })
`

const ofFetch = `
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { Stint, addressKey, fetchGuard } from '@stint-dev/client'

const app = new Hono()
app.all('*', async (c) => c.text(new URL(c.req.url).host))
const address = addressKey()
const fetch = fetchGuard(new Stint('http://127.0.0.1:8080', { timeout: 60_000 }), { key: (request, server) => address(server.incoming) }, app.fetch)
serve({ fetch, port: 8000, hostname: '127.0.0.1' })
`

// The node package must send the host that the application sees.
func TestNodePackageSendsTheHostThatTheApplicationSees(t *testing.T) {
	s := &site{T: t, node: testnode.Start(t), app: new(application)}
	s.put("open", `{"match":["ip:*"],"rules":["1000/1d"]}`)
	s.put("trap", `{"match":["ip:*"],"rules":["0/1s"],"when":{"host":["private.example.org"]}}`)
	_, port, _ := strings.Cut(servers.FreeAddress(t), ":")
	s.program(runNode("express"), strings.ReplaceAll(overHTTP2, "8001", port))
	if r := s.get("/"); r.body != "429 200" {
		t.Errorf("over HTTP/2: got %s, want 429 200", r.body)
	}
	s.program(runNode("express"), ofFetch)
	for target, status := range map[string]string{"http://private.example.org/": "429", "http://example.org/": "200"} {
		if line := s.raw("GET " + target + " HTTP/1.1\r\nHost: other.example.org\r\nConnection: close\r\n\r\n"); !strings.Contains(line, status) {
			t.Errorf("%s: got %q, want %s", target, line, status)
		}
	}
}

const rewritten = `
import fastify from 'fastify'
import { Stint, fastifyGuard } from '@stint-dev/client'

const app = fastify({ rewriteUrl: (request) => request.url.replace(/^\/v2/, '') })
app.register(fastifyGuard, { stint: new Stint('http://127.0.0.1:8080', { timeout: 60_000 }) })
app.get('/private/page', async () => 'private')
app.get('/other', async () => 'other')
app.listen({ port: 8000, host: '127.0.0.1' })
`

// fastify chooses a route by what rewriteUrl makes of a target.
func TestFastifyTargetsAreReadAsRewritten(t *testing.T) {
	s := &site{T: t, node: testnode.Start(t), app: new(application)}
	s.put("open", `{"match":["ip:*"],"rules":["1000/1d"]}`)
	s.put("trap", `{"match":["ip:*"],"rules":["0/1s"],"when":{"path":["/private/*"]}}`)
	s.program(runNode("express"), rewritten)
	for target, status := range map[string]int{"/private/page": http.StatusTooManyRequests, "/v2/private/page": http.StatusTooManyRequests, "/v2/other": http.StatusOK} {
		s.expect(target, s.get(target), status)
	}
}

const askingAnother = `
import express from 'express'
import { Stint, expressGuard } from '@stint-dev/client'

const app = express()
app.use(expressGuard(new Stint('%s', { timeout: 60_000 })))
app.use((request, response) => response.send('allowed'))
app.listen(8000, '127.0.0.1')
`

// An answer that is no decision of Stint lets no request through, and no request waits for ever.
func TestNodePackageRejectsAnswersThatAreNoDecision(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		status int
	}{
		"another protocol":           {"101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n", http.StatusServiceUnavailable},
		"a redirect":                 {"302 Found\r\nLocation: /\r\n" + jsonAnswer(`{"decision":"allowed","allowed":true}`), http.StatusServiceUnavailable},
		"a contradictory decision":   {"429 Too Many Requests\r\n" + jsonAnswer(`{"decision":"limited","allowed":true}`), http.StatusServiceUnavailable},
		"a decision named __proto__": {"429 Too Many Requests\r\n" + jsonAnswer(`{"decision":"__proto__","allowed":false}`), http.StatusServiceUnavailable},
		"a decision":                 {"200 OK\r\n" + jsonAnswer(`{"decision":"allowed","allowed":true}`), http.StatusOK},
		"a refusal":                  {"403 Forbidden\r\n" + jsonAnswer(`{"decision":"blocked","allowed":false}`), http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				c1, buffer, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer c1.Close()
				fmt.Fprint(buffer, "HTTP/1.1 "+c.answer+"\r\n")
				_ = buffer.Flush()
				_, _ = buffer.ReadByte() // until the client closes it
			}))
			t.Cleanup(other.CloseClientConnections)
			s := &site{T: t, node: testnode.Start(t), app: new(application)}
			s.program(runNode("express"), fmt.Sprintf(askingAnother, other.URL))
			s.expect(name, s.get("/"), c.status)
		})
	}
}

// jsonAnswer returns the rest of an answer with this body, but for the last line break.
func jsonAnswer(body string) string {
	return fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}
