import assert from 'node:assert/strict'
import { once } from 'node:events'
import http from 'node:http'
import { createRequire } from 'node:module'
import test from 'node:test'
import express from 'express'
import fastify from 'fastify'
import { Stint, StintError, expressGuard, fastifyGuard, fetchGuard, usageOf } from '../index.js'
import { connect, fresh, nobody, policy, serve } from './support.js'

test('a batch answers each check', async () => {
  await policy('nodebatch:*', ['1/1d'])
  const key = fresh('nodebatch')
  const [first, second, wrong] = await connect().checkMany([{ key }, { key }, { key: '' }])
  assert.deepEqual([first.decision, second.decision], ['allowed', 'limited'])
  assert.ok(wrong instanceof StintError)
  assert.equal(wrong.field, 'key')
})

test('a batch in an outage is answered as was chosen', async () => {
  for (const [onOutage, want] of [['open', 'allowed'], ['closed', 'unavailable']]) {
    const decisions = new Stint(nobody, { onOutage, timeout: 60_000 }).checkMany([{ key: 'a:b' }, { key: 'a:c' }])
    assert.deepEqual((await decisions).map(({ decision, outage }) => [decision, outage instanceof Error]), [[want, true], [want, true]])
  }
})

test('outcomes are reported in one call', async () => {
  await policy('nodereport:*', ['1/1d'], { outcome: 'login_failed' })
  const stint = connect()
  const key = fresh('nodereport')
  const [charged, wrong] = await stint.reportMany([{ key, outcome: 'login_failed' }, { key, outcome: 'Wrong' }])
  assert.equal(charged.policies[0].refuses, true)
  assert.equal(wrong.field, 'outcome')
  await assert.rejects(new Stint(nobody).reportMany([{ key, outcome: 'login_failed' }]))
})

test('keys are reset and blocked on the admin listener', async () => {
  await policy('nodereset:*', ['1/1d'])
  const stint = connect()
  const key = fresh('nodereset')
  assert.equal((await stint.check({ key })).allowed, true)
  assert.equal((await stint.check({ key })).allowed, false)
  await stint.reset(key)
  assert.equal((await stint.check({ key })).allowed, true)
  await stint.block(key, 60, 'test')
  assert.equal((await stint.check({ key, peek: true })).decision, 'blocked')
  await assert.rejects(stint.block('nodereset:*', 60, 'test'), TypeError)
  await assert.rejects(connect({ adminUrl: undefined }).reset(key), TypeError)
  await assert.rejects(connect({ adminToken: 'wrong' }).reset(key), StintError)
})

test('a check that cannot be sent is a mistake and no outage', async () => {
  await assert.rejects(connect({ onOutage: 'open' }).check({ key: 'a:b', cost: 1n }), TypeError)
})

test('holds are settled, released and renewed', async () => {
  await policy('nodeamount:*', ['10 tokens/1d'], { unit: 'tokens' })
  const stint = connect()
  const key = fresh('nodeamount')
  const left = async () => (await stint.check({ key, peek: true })).rules[0].remaining
  const { hold } = await stint.check({ key, cost: 8, hold: '10m' })
  assert.equal(await left(), 2)
  assert.ok(Date.parse((await stint.extend(hold.handle, '20m')).expires_at) > Date.parse(hold.expires_at))
  assert.deepEqual([(await stint.settle(hold.handle, 3)).state, (await stint.settle(hold.handle, 3)).cost], ['settled', 3])
  await assert.rejects(stint.settle(hold.handle, 4), ({ status, code }) => status === 409 && code === 'settled')
  assert.equal(await left(), 7)
  const other = await stint.check({ key, cost: 7, hold: '10m' })
  assert.equal((await stint.release(other.hold.handle)).state, 'released')
  assert.equal(await left(), 7)
})

// Polls until so many tokens of a key are left and no place is taken.
async function settled(stint, key, tokens) {
  for (let tries = 0; ; tries++) {
    const { rules } = await stint.check({ key, peek: true })
    const [places, left] = rules.map(({ remaining }) => remaining)
    if (places === 2 && left === tokens) return
    if (tries === 300) assert.deepEqual([places, left], [2, tokens])
    await new Promise((done) => setTimeout(done, 100))
  }
}

test('a hold is renewed for what is left of it, whatever the clocks say', async () => {
  const asked = []
  const stint = {
    check: async () => ({ allowed: true, headers: {}, hold: { handle: 'h', expires_at: new Date(0).toISOString(), expires_in_ms: 1200 } }),
    extend: async (handle, hold) => { asked.push(hold) },
    settle: async () => {},
  }
  const guarded = fetchGuard(stint, { key: () => 'k' }, async () => {
    for (let tries = 0; asked.length === 0 && tries < 600; tries++) await new Promise((done) => { setTimeout(done, 50) })
    return new Response('done')
  })
  await (await guarded(new Request('http://shop.example/'))).text()
  assert.equal(asked[0], '1200ms')
})

test('a version of Stint that does not say what is left of a hold says when it expires', async () => {
  const hold = { handle: 'h', expires_at: new Date(Date.now() + 3_600_000).toISOString() }
  const decision = { decision: 'allowed', allowed: true, id: null, hold }
  const old = http.createServer((request, response) => response.end(JSON.stringify(request.url.endsWith('/batch') ? { decisions: [decision] } : decision)))
  old.listen(0, '127.0.0.1')
  await once(old, 'listening')
  const stint = new Stint(`http://127.0.0.1:${old.address().port}`, { timeout: 60_000 })
  const [one] = await stint.checkMany([{ key: 'k' }])
  for (const given of [one, await stint.check({ key: 'k' })]) assert.ok(given.hold.expires_in_ms > 3_000_000)
  old.closeAllConnections()
  old.close()
})

test('guards of node:http settle when the response has ended', async () => {
  await policy('nodeends:*', ['1000 tokens/1d', '2 concurrent'], { unit: 'tokens', hold: '30s' })
  const stint = connect()
  const options = { cost: 400, hold: '10m' }
  const app = express()
  const keys = []
  app.use(expressGuard(stint, { ...options, key: () => keys.at(-1) }))
  app.get('/plain', (_, response) => response.send('done'))
  app.get('/settles', async (request, response) => {
    await usageOf(request).settle(30)
    response.send('done')
  })
  app.get('/breaks', (_, response) => {
    response.write('some')
    response.destroy()
  })
  app.get('/gone', (_, response) => response.write('some')) // which never ends
  const plugin = fastify()
  plugin.register(fastifyGuard, { stint, ...options, key: () => keys.at(-1) })
  plugin.get('/plain', async () => 'done')
  const server = app.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const urls = { express: `http://127.0.0.1:${server.address().port}`, fastify: await plugin.listen({ port: 0, host: '127.0.0.1' }) }
  for (const [framework, path, left] of [['express', 'plain', 600], ['express', 'settles', 970], ['express', 'breaks', 600], ['express', 'gone', 600], ['fastify', 'plain', 600]]) {
    const key = fresh('nodeends')
    keys.push(key)
    const leaving = new AbortController()
    const response = await fetch(`${urls[framework]}/${path}`, { signal: leaving.signal }).catch(() => {}) // it may break before its headers
    if (path === 'gone') leaving.abort()
    else await response?.text().catch(() => {})
    await settled(stint, key, left)
  }
  server.closeAllConnections()
  server.close()
  await plugin.close()
})

test('a guard of fetch settles when the body has been read, cancelled or failed', async () => {
  await policy('nodebody:*', ['1000 tokens/1d', '2 concurrent'], { unit: 'tokens', hold: '30s' })
  const stint = connect()
  const stream = (pull) => new Response(new ReadableStream({ pull }))
  let parts = 0
  for (const [handler, read, left] of [
    [() => new Response('done'), (response) => response.text(), 600],
    [() => new Response(null, { status: 204 }), () => {}, 600],
    [(request) => usageOf(request).settle(30).then(() => new Response('done')), (response) => response.text(), 970],
    [() => stream((c) => c.enqueue(new Uint8Array([parts++]))), (response) => response.body.cancel(), 600],
    [() => stream((c) => c.error(new Error('broken'))), (response) => assert.rejects(response.text()), 600],
    [() => { throw new Error('broken') }, undefined, 1000],
  ]) {
    const key = fresh('nodebody')
    const guarded = fetchGuard(stint, { key: () => key, cost: 400, hold: '10m' }, handler)
    const answer = guarded(new Request('http://site.example/'))
    if (read) await read(await answer)
    else await assert.rejects(answer)
    await settled(stint, key, left)
  }
})

test('CommonJS can require the package', () => {
  const required = createRequire(import.meta.url)('../index.js')
  assert.equal(required.Stint, Stint)
})

test('guards report the status of responses', async (t) => {
  await policy('nodestatus:*', ['1/1d'], { outcome: 'not_found' })
  await policy('nodestatus:*', ['1000/1d'])
  const stint = connect()
  const keys = []
  const options = { reportStatus: true, key: () => ['nodeother:a', { key: keys.at(-1) }] }
  await policy('nodeother:*', ['1000/1d'])
  const app = express()
  app.use(expressGuard(stint, options))
  app.get('/gone', (_, response) => response.destroy())
  const plugin = fastify()
  plugin.register(fastifyGuard, { stint, ...options })
  t.after(() => plugin.close())
  const guarded = fetchGuard(stint, options, async ({ url }) => {
    if (url.endsWith('/fails')) throw new Error('broken')
    return new Response('nothing', { status: 404 })
  })
  const urls = { express: await serve(t, http.createServer(app)), fastify: await plugin.listen({ port: 0, host: '127.0.0.1' }) }
  for (const [framework, path, refused] of [['express', '/missing', true], ['fastify', '/missing', true], ['fetch', '/missing', true], ['express', '/gone', false], ['fetch', '/fails', false]]) {
    keys.push(fresh('nodestatus'))
    const response = await (framework === 'fetch' ? guarded(new Request(`http://site.example${path}`)) : fetch(urls[framework] + path)).catch(() => {})
    await response?.text()
    // The response is closed a moment after its client has it.
    let isAllowed = !refused
    do {
      await stint.flush()
      isAllowed = (await stint.check({ key: keys.at(-1), peek: true })).allowed
    } while (isAllowed && refused)
    assert.equal(isAllowed, !refused, `${framework} ${path}`)
  }
  assert.equal(stint.dropped, 0)
  assert.throws(() => expressGuard({ check() {} }, { reportStatus: true }), TypeError)
})

test('reports wait for others, and are dropped beyond a bound', async (t) => {
  const sizes = []
  const server = http.createServer(async (request, response) => {
    const parts = []
    for await (const part of request) parts.push(part)
    const { reports } = JSON.parse(Buffer.concat(parts).toString())
    sizes.push(reports.length)
    response.end(JSON.stringify({ answers: reports.map(({ key }) => (key === '' ? { status: 422 } : { policies: [] })) }))
  })
  const stint = new Stint(await serve(t, server), { timeout: 60_000 })
  for (let i = 0; i < 5000; i++) stint.reportSoon({ key: 'ip:192.0.2.1', status: 200 })
  await stint.flush()
  assert.equal(stint.dropped, 5000 - 4096)
  assert.equal(sizes.reduce((sum, n) => sum + n), 4096)
  assert.ok(Math.max(...sizes) <= 64)
  stint.reportSoon({ key: '', status: 200 })
  await stint.flush()
  const gone = new Stint(nobody)
  gone.reportSoon({ key: 'ip:192.0.2.1', status: 200 })
  await gone.flush()
  assert.deepEqual([stint.dropped, gone.dropped], [5000 - 4096 + 1, 1])
})
