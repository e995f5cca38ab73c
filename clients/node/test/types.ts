// Compiled, never run: the types fit the real frameworks.
import type { IncomingMessage } from 'node:http'
import express, { type Request } from 'express'
import fastify from 'fastify'
import { ThrottlerModule } from '@nestjs/throttler'
import { rateLimit } from 'express-rate-limit'
import {
  Stint, StintError, StintRateLimiter, StintRateLimiterRes, StintRefused, StintStore, StintThrottlerStorage, addressKey, decisionOf, expressGuard, fastifyGuard,
  fetchGuard, fetchWithin, hashOf,
} from '@stint-dev/client'

const stint = new Stint(new URL('https://stint.example.org:8080'), { token: 'secret', timeout: 100, onOutage: 'open', connections: 8 })

express().use(expressGuard(stint))
express().use(expressGuard<Request>(stint, {
  key: (request) => [`ip:${request.ip}`, { key: `header:x-api-key:${hashOf(request.get('X-Api-Key') ?? '')}`, policy: 'keys', cost: 2 }],
  cost: (request) => (request.path === '/' ? 1 : 2),
  skip: async (request) => request.path === '/livez',
  reportStatus: true,
  onError: (error, request) => console.error(error.message, request.url),
}))
express().use((request, response) => { response.send(decisionOf(request)?.headers['RateLimit']) })

fastify().register(fastifyGuard, { stint, key: addressKey('10.0.0.0/8') })

const handler = fetchGuard<[IncomingMessage]>(stint, { key: (request, incoming) => addressKey()(incoming) }, async () => new Response('Hello'))
const response: Promise<Response> = handler(new Request('http://example.org'), {} as IncomingMessage)

stint.check({ keys: ['ip:192.0.2.1', { key: 'user:1' }], peek: true }).then((d) => d.allowed, (error: StintError) => error.field)
stint.report({ key: 'ip:192.0.2.1', outcome: 'login_failed', request: { path: '/login' } }).then((r) => r.policies.some((p) => p.refuses))
stint.reportSoon({ key: 'ip:192.0.2.1', status: 404, request: { path: '/old', method: 'GET' } })
stint.flush().then(() => stint.dropped > 0)
// @ts-expect-error a guard of Requests needs a key
fetchGuard(stint, {}, async () => response)
// @ts-expect-error no such choice
new Stint('http://127.0.0.1:8080', { onOutage: 'maybe' })

express().use(rateLimit({ windowMs: 60_000, limit: 5, store: new StintStore(stint) }))
ThrottlerModule.forRoot({ throttlers: [{ ttl: 60_000, limit: 5 }], storage: new StintThrottlerStorage(stint, { limits: 'server' }) })
new StintRateLimiter({ storeClient: stint, points: 5, duration: 60 }).consume('a').catch((refused: StintRateLimiterRes) => refused.msBeforeNext)
fetchWithin(stint, { maxWait: 5000 })('https://api.example').then((answer) => answer.status, (error: StintRefused) => error.decision)
stint.checkMany([{ key: 'a:b' }]).then(([first]) => (first instanceof StintError ? first.field : first.allowed))
