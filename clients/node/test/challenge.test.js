import assert from 'node:assert/strict'
import http from 'node:http'
import test from 'node:test'
import { Stint, expressGuard, fetchGuard } from '../index.js'
import { connect, fresh, nobody, policy, serve } from './support.js'

const browser = { accept: 'text/html,application/xhtml+xml' }

// Asks as a browser may: fetch always says that it is no navigation.
const ask = (url, headers = {}, method = 'GET') => new Promise((resolve, reject) => {
  const sent = http.request(url, { headers, method }, (response) => {
    let body = ''
    response.on('error', reject)
    response.on('data', (part) => { body += part })
    response.on('end', () => resolve({
      status: response.statusCode, headers: { get: (name) => [response.headers[name] ?? null].flat()[0] }, text: async () => body, json: async () => JSON.parse(body),
    }))
  })
  sent.on('error', reject)
  sent.end()
})

// Returns the URL of an application behind a guard whose clients have one key.
async function guarded(t, kind, key, stint = connect()) {
  if (kind === 'express') {
    const guard = expressGuard(stint, { key: () => key })
    return serve(t, http.createServer((request, response) => guard(request, response, (error) => response.end(error ? String(error) : 'the application'))))
  }
  const guard = fetchGuard(stint, { key: () => key }, () => new Response('the application'))
  return serve(t, http.createServer(async (request, response) => {
    const answer = await guard(new Request(`http://${request.headers.host}${request.url}`, { method: request.method, headers: request.headers }))
    response.writeHead(answer.status, Object.fromEntries(answer.headers))
    response.end(await answer.text())
  }))
}

for (const kind of ['express', 'fetch']) {
  test(`a challenged browser is led to the challenge and goes on with its pass: ${kind}`, async (t) => {
    await policy('nodechallenge:*', ['0/1d'], { on_limit: 'challenge' })
    await policy('pass:*', ['1000/1d'])
    const url = await guarded(t, kind, fresh('nodechallenge'))

    for (const [headers, method] of [[{ accept: '*/*' }], [{ ...browser, 'sec-fetch-mode': 'cors' }], [{ ...browser, 'sec-fetch-dest': 'iframe' }], [browser, 'POST']]) {
      const answer = await ask(`${url}/a`, headers, method)
      assert.equal(answer.status, 429)
      assert.equal((await answer.json()).code, 'challenged')
      assert.equal(answer.headers.get('x-stint-challenge'), '/.well-known/stint/challenge')
    }
    assert.equal((await ask(`${url}/robots.txt`, browser)).status, 429)

    const led = await ask(`${url}/a?b=c%20d`, browser)
    assert.equal(led.status, 303)
    assert.equal(led.headers.get('cache-control'), 'no-store')
    assert.equal(led.headers.get('location'), '/.well-known/stint/challenge?to=%2Fa%3Fb%3Dc%2520d')

    const page = await ask(url + led.headers.get('location'), { ...browser, 'x-forwarded-uri': '/elsewhere', 'x-stint-decision': 'blocked', authorization: 'Bearer secret' })
    const text = await page.text()
    assert.equal(page.status, 429)
    assert.match(page.headers.get('content-security-policy'), /^default-src 'none'/)
    const link = text.match(/<a id="pass" href="([^"]+)"/)[1].replaceAll('&amp;', '&')

    let passed
    do { // a challenge that is not solved shows the page again until the wait has ended
      passed = await ask(url + link, browser)
    } while (passed.status === 429)
    assert.equal(passed.status, 303)
    const cookie = passed.headers.get('set-cookie').split(';')[0]
    const last = await ask(url + passed.headers.get('location'), { ...browser, cookie: `a=b; ${cookie}` })
    assert.equal(last.headers.get('location'), '/a?b=c%20d')
    assert.equal(await (await ask(`${url}/a?b=c%20d`, { ...browser, cookie: `a=b; ${cookie}` })).text(), 'the application')
    assert.equal((await ask(`${url}/a`, { cookie: 'stint_pass=forged' })).status, 429)
  })
}

test('only the paths of challenges themselves are not checked', async (t) => {
  await policy('nodepaths:*', ['0/1d'])
  const url = await guarded(t, 'express', fresh('nodepaths'))
  const { hostname, port } = new URL(url)
  for (const path of ['../../v1/openapi.json', '%2e%2e/%2e%2e/secret', 'pass/../../../secret', '%63hallenge', '', 'challenge/', 'passes']) {
    // As it is, where a URL would be cleaned.
    const status = await new Promise((resolve, reject) => {
      http.get({ hostname, port, path: `/.well-known/stint/${path}`, headers: browser }, (response) => resolve(response.resume().statusCode)).on('error', reject)
    })
    assert.equal(status, 429, path)
  }
  assert.notEqual((await ask(`${url}/.well-known/stint/pass?c=a`, browser)).status, 429)
})

test('the paths of challenges are answered 503 while Stint is down', async (t) => {
  const url = await guarded(t, 'express', 'ip:192.0.2.1', new Stint(nobody))
  assert.equal((await ask(`${url}/.well-known/stint/challenge`, browser)).status, 503)
  assert.equal((await ask(`${url}/.well-known/stint/challenge`, {}, 'POST')).status, 429)
})
