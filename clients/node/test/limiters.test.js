import 'reflect-metadata'
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import http from 'node:http'
import test from 'node:test'
import { Controller, Get, Module } from '@nestjs/common'
import { APP_GUARD, NestFactory } from '@nestjs/core'
import { ThrottlerGuard, ThrottlerModule } from '@nestjs/throttler'
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import rateLimiterFlexible from 'rate-limiter-flexible'
import { LimitMismatch, Stint, StintError, StintRateLimiter, StintRefused, StintStore, StintThrottlerStorage, fetchWithin } from '../index.js'
import { connect, fresh, nobody, policy, serve } from './support.js'

async function limited(t, options) {
  const app = express()
  app.use(rateLimit({ windowMs: 60_000, limit: 2, standardHeaders: 'draft-8', keyGenerator: (request) => request.query.user, ...options }))
  app.get('/', (request, response) => response.send('Hello'))
  app.use((error, request, response, next) => response.status(500).send(`${error.name}: ${error.message}`)) // eslint-disable-line no-unused-vars
  return serve(t, http.createServer(app))
}

test('express-rate-limit stays within the limit of the server', async (t) => {
  await policy('limits:2/60s:*', ['2/60s'])
  const errors = t.mock.method(console, 'error', () => {})
  const store = new StintStore(connect())
  const url = await limited(t, { store })
  const other = await limited(t, { store: new StintStore(connect()) })
  const user = randomUUID()
  const first = await fetch(`${url}/?user=${user}`)
  assert.equal(first.status, 200)
  assert.match(first.headers.get('ratelimit'), /r=1; t=60/)
  assert.deepEqual((await store.get(user)).totalHits, 1)
  assert.equal((await fetch(`${other}/?user=${user}`)).status, 200, 'another process, one count')
  const refused = await fetch(`${url}/?user=${user}`)
  assert.equal(refused.status, 429)
  assert.ok(Number(refused.headers.get('retry-after')) > 0)
  await store.resetKey(user)
  assert.equal((await fetch(`${url}/?user=${user}`)).status, 200)
  assert.equal(await store.get(randomUUID()), undefined)
  assert.deepEqual(errors.mock.calls.map(({ arguments: [error] }) => error.code), [], 'express-rate-limit finds nothing wrong')
})

test('what a store of express-rate-limit cannot do is an error, and lets nothing pass', async (t) => {
  await policy('limits:2/60s:*', ['2/60s'])
  t.mock.method(console, 'error', () => {})
  const reused = new StintStore(connect())
  await limited(t, { store: reused })
  for (const [options, message] of [
    [{ store: new StintStore(connect()), skipSuccessfulRequests: true }, '--algorithm amount_log'],
    [{ store: new StintStore(connect()), limit: () => 2 }, 'must be a number'],
    [{ store: new StintStore(connect()), limit: 7 }, "--match 'limits:7/60s:*' --rule 7/60s"],
    [{ store: reused }, 'belongs to one limiter'],
  ]) {
    const answer = await fetch(`${await limited(t, options)}/?user=a`)
    assert.equal(answer.status, 500)
    const text = await answer.text()
    assert.ok(text.includes(message), text)
  }
  const chosen = await limited(t, { store: new StintStore(connect(), { limits: 'server' }), limit: 7 })
  assert.equal((await fetch(`${chosen}/?user=${randomUUID()}`)).status, 200)
})

test('express-rate-limit releases what successful requests held', async (t) => {
  await policy('limits:3/60s:*', ['3/60s'], { algorithm: 'amount_log' })
  const errors = t.mock.method(console, 'error', () => {})
  const store = new StintStore(connect())
  const given = []
  const decrement = store.decrement.bind(store)
  store.decrement = (key) => given.push(decrement(key)) // which express-rate-limit calls once the response has gone
  const app = express()
  app.use(rateLimit({ windowMs: 60_000, limit: 3, store, skipSuccessfulRequests: true, keyGenerator: (request) => request.query.user }))
  app.get('/:status', (request, response) => response.status(Number(request.params.status)).send('Hello'))
  const url = await serve(t, http.createServer(app))
  const user = randomUUID()
  const ask = async (status) => {
    const answer = await fetch(`${url}/${status}?user=${user}`)
    await answer.text()
    const released = status < 400 && answer.status !== 429
    while (released && given.length === 0) await new Promise(setImmediate)
    await Promise.all(given.splice(0))
    return answer.status
  }
  for (let n = 0; n < 5; n++) assert.equal(await ask(200), 200)
  for (let n = 0; n < 3; n++) assert.equal(await ask(401), 401)
  assert.equal(await ask(200), 429)
  assert.deepEqual(errors.mock.calls.map(({ arguments: [error] }) => error.code), [])
})

test('express-rate-limit in an outage', async (t) => {
  for (const [onOutage, want] of [['open', 200], ['closed', 429]]) {
    const url = await limited(t, { store: new StintStore(new Stint(nobody, { onOutage, timeout: 60_000 })) })
    assert.equal((await fetch(`${url}/?user=a`)).status, want)
  }
})

test('@nestjs/throttler stays within the limit of the server', async (t) => {
  await policy('limits:2/60000ms:*', ['2/60s'])
  await policy('limits:2/60s:*', ['2/60s'])
  class Hello {
    hello() { return 'Hello' }
  }
  Get()(Hello.prototype, 'hello', Object.getOwnPropertyDescriptor(Hello.prototype, 'hello'))
  Controller()(Hello)
  class App {}
  Module({
    imports: [ThrottlerModule.forRoot({ throttlers: [{ name: 'short', ttl: 60_000, limit: 2 }], storage: new StintThrottlerStorage(connect()), getTracker: () => user })],
    controllers: [Hello],
    providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
  })(App)
  const user = randomUUID()
  const app = await NestFactory.create(App, { logger: false })
  t.after(() => app.close())
  await app.listen(0, '127.0.0.1')
  const url = await app.getUrl()
  const answers = []
  for (let n = 0; n < 3; n++) answers.push(await fetch(url))
  assert.deepEqual(answers.map(({ status }) => status), [200, 200, 429])
  assert.equal(answers[0].headers.get('x-ratelimit-remaining-short'), '1')
  assert.ok(Number(answers[2].headers.get('retry-after-short')) > 0)
})

test('StintRateLimiter behaves as rate-limiter-flexible does', async () => {
  await policy('limits:5/60s:*', ['5/60s'])
  const { RateLimiterMemory, RateLimiterRes } = rateLimiterFlexible
  const ours = new StintRateLimiter({ storeClient: connect(), points: 5, duration: 60 })
  const theirs = new RateLimiterMemory({ points: 5, duration: 60 })
  const key = randomUUID()
  const seen = (result) => result && [result.remainingPoints, result.consumedPoints, result.msBeforeNext > 0 && result.msBeforeNext <= 60_000]
  assert.equal(await ours.get(key), await theirs.get(key))
  for (const points of [1, 3]) {
    assert.deepEqual(seen(await ours.consume(key, points)), seen(await theirs.consume(key, points)))
  }
  assert.deepEqual(seen(await ours.get(key)), seen(await theirs.get(key)))
  assert.deepEqual(seen(await ours.penalty(key)), seen(await theirs.penalty(key)))
  const refused = await ours.consume(key).catch((error) => error)
  assert.ok(!(refused instanceof Error) && (await theirs.consume(key).catch((error) => error)) instanceof RateLimiterRes)
  assert.equal(refused.remainingPoints, 0)
  assert.ok(!((await ours.consume(key, 6).catch((error) => error)) instanceof Error), 'more than the limit')
  assert.equal(await ours.delete(key), await theirs.delete(key))
  assert.deepEqual(seen(await ours.consume(key)), seen(await theirs.consume(key)))
  assert.deepEqual(seen(await ours.set(key, 3)), [2, 3, true])
  await ours.block(key, 30)
  assert.ok((await ours.consume(key).catch((result) => result)).msBeforeNext > 20_000)
  await assert.rejects(ours.reward(key), TypeError)
})

test('StintRateLimiter in an outage', async () => {
  const storeClient = new Stint(nobody, { timeout: 60_000 })
  const insuranceLimiter = new rateLimiterFlexible.RateLimiterMemory({ points: 1, duration: 60 })
  const insured = new StintRateLimiter({ storeClient, points: 5, duration: 60, insuranceLimiter })
  assert.equal((await insured.consume('a')).remainingPoints, 0)
  await assert.rejects(insured.consume('a'))
  assert.ok(!((await new StintRateLimiter({ storeClient, points: 5, duration: 60 }).consume('a').catch((result) => result)) instanceof Error))
})

test('options that Stint decides are refused', () => {
  const storeClient = connect()
  for (const options of [{ blockDuration: 5 }, { execEvenly: true }, { inMemoryBlockOnConsumed: 9 }, { duration: 0 }, { points: -1 }, { limits: 'mine' }]) {
    assert.throws(() => new StintRateLimiter({ storeClient, points: 5, duration: 60, ...options }), TypeError)
  }
})

test('keys of any length and text are counted', async () => {
  await policy('limits:5/60s:*', ['5/60s'])
  const limiter = new StintRateLimiter({ storeClient: connect(), points: 5, duration: 60 })
  for (const key of ['x'.repeat(5000), `\0${randomUUID()}`, `\ud800${randomUUID()}`, 7]) assert.ok(await limiter.consume(key))
  await assert.rejects(new StintRateLimiter({ storeClient: connect(), points: 9, duration: 60 }).consume('a'), LimitMismatch)
})

test('a fetch stays within the limits of another service', async (t) => {
  await policy('nodefetch:*', ['1/200ms'])
  const times = []
  const url = await serve(t, http.createServer((request, response) => {
    times.push(performance.now())
    response.end('Hello')
  }))
  const key = fresh('nodefetch')
  const within = fetchWithin(connect(), { key: () => key })
  assert.deepEqual(await Promise.all([1, 2, 3].map(async () => (await within(url)).text())), ['Hello', 'Hello', 'Hello'])
  assert.equal(times.length, 3)
  await assert.rejects(fetchWithin(connect(), { key: () => key, cost: 2 })(url), StintError, 'it never fits')
  await assert.rejects(fetchWithin(new Stint(nobody, { timeout: 60_000 }))(url), StintRefused)
  assert.equal((await fetchWithin(new Stint(nobody, { timeout: 60_000, onOutage: 'open' }))(url)).status, 200)
  assert.equal((await fetchWithin(new Stint(nobody), { key: () => '' })(url)).status, 200)
})

test('a request that is given up frees its reservation', async (t) => {
  await policy('nodefree:*', ['1/1h'])
  const url = await serve(t, http.createServer((request, response) => response.end('Hello')))
  const key = fresh('nodefree')
  const stint = connect()
  const cancelled = new Promise((resolve) => {
    const cancel = stint.cancel.bind(stint)
    stint.cancel = (handle) => cancel(handle).then(resolve)
  })
  const within = fetchWithin(stint, { key: () => key, maxWait: 3_600_000 })
  await within(url)
  const asked = new AbortController()
  const check = stint.check.bind(stint)
  stint.check = async (question) => {
    const decision = await check(question)
    setImmediate(() => asked.abort(new Error('given up')))
    return decision
  }
  await assert.rejects(within(url, { signal: asked.signal }), /given up/)
  await cancelled
  // The reserved time is free again.
  const again = await check({ key, max_wait: '1h' })
  assert.ok(again.allowed && again.delay_ms > 0)
})

test('an answer with Retry-After holds the key for all programs', async (t) => {
  await policy('nodehold:*', ['1000/1s'])
  let status = 429
  const url = await serve(t, http.createServer((request, response) => {
    response.writeHead(status, { 'Retry-After': '3600' })
    response.end()
    status = 200
  }))
  const key = fresh('nodehold')
  const stint = connect()
  const blocked = new Promise((resolve) => {
    const block = stint.block.bind(stint)
    stint.block = (...args) => block(...args).then(resolve)
  })
  const within = fetchWithin(stint, { key: () => key, maxWait: 1000 })
  assert.equal((await within(url)).status, 429)
  await assert.rejects(within(url), StintRefused, 'this program waits')
  await blocked
  await assert.rejects(fetchWithin(connect(), { key: () => key, maxWait: 1000 })(url), StintRefused, 'and so does another')
})
