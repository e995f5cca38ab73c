// Middleware that lets a request through only where Stint allows it.
import net from 'node:net'
import { parse } from 'node:url' // that of express
import { Stint, StintError } from './client.js'

export { Stint, StintError }
export { hashOf } from './hash.js'
export { LimitMismatch, StintRateLimiter, StintRateLimiterRes, StintRefused, StintStore, StintThrottlerStorage, fetchWithin } from './limiters.js'

const decisions = new WeakMap()

/** Returns the decision by which a request was let through, undefined for none. */
export const decisionOf = (request) => decisions.get(request)

/** Returns a key function for the address of the connection, whatever the headers are. With trusted
 * proxies it is the nearest address in X-Forwarded-For, from the right, that is none of theirs. */
export function addressKey(...trusted) {
  const proxies = new net.BlockList()
  for (const proxy of trusted) {
    const [address, bits, ...more] = proxy.split('/')
    if (more.length > 0 || (bits !== undefined && !/^\d+$/.test(bits))) throw new TypeError('a proxy must be an address, or a network such as 10.0.0.0/8')
    const family = net.isIPv6(address) ? 'ipv6' : 'ipv4'
    if (bits === undefined) proxies.addAddress(address, family)
    else proxies.addSubnet(address, Number(bits), family)
  }
  const isTrusted = (address) => net.isIP(address) !== 0 && proxies.check(address, net.isIPv6(address) ? 'ipv6' : 'ipv4')
  return (request) => {
    let address = plainAddress(request.socket.remoteAddress)
    const forwarded = [request.headers['x-forwarded-for'] ?? []].flat().join(',').split(',')
    while (isTrusted(address) && forwarded.length > 0) {
      const next = plainAddress(forwarded.pop().trim())
      if (net.isIP(next) === 0) break
      address = next
    }
    return `ip:${address}`
  }
}

// Returns an address without its port and zone, as proxies may write it: 192.0.2.1:80, [2001:db8::1] or [2001:db8::1]:80.
const plainAddress = (address = '') => address
  .replace(/^\[([^\]]*)\](:\d+)?$/, '$1').replace(/^(\d+(?:\.\d+){3}):\d+$/, '$1')
  .replace(/%.*$/, '').replace(/^::ffff:(?=\d+\.)/i, '')

/** Returns a middleware for express. */
export function expressGuard(stint, options = {}) {
  const ask = asker(stint, { key: frameworkAddress, ...options }, expressPath)
  return (request, response, next) => {
    ask(request).then(({ status, headers, body, usage, report }) => {
      for (const name in headers) response.setHeader(name, headers[name])
      if (usage) settleAtEnd(response, usage)
      if (report) reportAtEnd(response, report)
      if (status === undefined) return next()
      response.statusCode = status
      response.end(body)
    }).catch(next)
  }
}

/** Is a plugin for fastify: register it with {stint, ...options}. It guards the routes of the instance that it
 * is registered on. */
export async function fastifyGuard(fastify, { stint, ...options }) {
  const ask = asker(stint, { key: frameworkAddress, ...options })
  fastify.addHook('onRequest', async (request, reply) => {
    const { status, headers, body, usage, report } = await ask(request)
    reply.headers(headers)
    if (usage) settleAtEnd(reply.raw, usage)
    if (report) reportAtEnd(reply.raw, report)
    if (status !== undefined) return reply.code(status).send(body)
  })
}
fastifyGuard[Symbol.for('skip-override')] = true // hooks of this plugin are those of its parent

/** Returns a handler of Requests behind the guard. Further arguments go to key, cost, skip and handler. */
export function fetchGuard(stint, options, handler) {
  const ask = asker(stint, options)
  return async (request, ...rest) => {
    const { status, headers, body, usage, report } = await ask(request, ...rest)
    if (status !== undefined) return new Response(body, { status, headers })
    let response
    try {
      response = await handler(request, ...rest)
    } catch (error) {
      report?.(500)
      await usage?.release()
      throw error
    }
    report?.(response.status)
    if (Object.keys(headers).length === 0 && !usage) return response
    if (usage) response = new Response(await settledAtEnd(response.body, usage), response)
    return withHeaders(response, headers)
  }
}

// Returns a response with more headers. Those of some responses cannot be changed, such as what fetch has received.
function withHeaders(response, headers) {
  try {
    for (const name in headers) response.headers.set(name, headers[name])
    return response
  } catch {
    return withHeaders(new Response(response.body, response), headers)
  }
}

/** Returns what a request holds, undefined if it holds nothing. See index.d.ts. */
export const usageOf = (request) => usages.get(request)

const usages = new WeakMap()

// A hold that renews itself until it is settled or released, once.
class Usage {
  #stint; #handle; #renewing; #ended; #onError

  constructor(stint, { handle, expires_in_ms: left }, onError) {
    this.#stint = stint
    this.#handle = handle
    this.#onError = onError
    const length = Math.max(1000, left || 0)
    this.#renewing = setInterval(() => {
      stint.extend(handle, `${length}ms`).catch((error) => {
        if (error instanceof StintError && error.status < 500) clearInterval(this.#renewing) // it has ended
      })
    }, length / 2)
    this.#renewing.unref?.()
  }

  settle(cost) {
    return this.#end(() => this.#stint.settle(this.#handle, cost))
  }

  release() {
    return this.#end(() => this.#stint.release(this.#handle))
  }

  #end(how) {
    if (this.#ended) return this.#ended
    clearInterval(this.#renewing)
    this.#ended = how().catch((error) => {
      this.#onError?.(error)
    })
    return this.#ended
  }
}

// Settles when a response of node:http has been sent, or has broken off, or its client has gone.
function settleAtEnd(response, usage) {
  if (response.destroyed) usage.settle()
  else response.once('close', () => usage.settle())
}

// Reports the status of a response of node:http, unless its client has gone before it had one.
function reportAtEnd(response, report) {
  response.once('close', () => {
    if (response.headersSent) report(response.statusCode)
  })
}

// Returns a body that settles when it has been read, or is cancelled, or fails.
async function settledAtEnd(body, usage) {
  if (!body) {
    await usage.settle()
    return body
  }
  const reader = body.getReader()
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read()
        if (!done) return controller.enqueue(value)
        await usage.settle()
        controller.close()
      } catch (error) {
        await usage.settle()
        controller.error(error)
      }
    },
    async cancel(reason) {
      await usage.settle()
      await reader.cancel(reason)
    },
  })
}

const frameworkAddress = (request) => `ip:${plainAddress(request.ip)}`

function asker(stint, { key, policy, cost, hold, source, meta, skip, reportStatus, onError }, readPath = (target) => target) {
  if (typeof stint?.check !== 'function') throw new TypeError('stint must be a Stint')
  if (typeof key !== 'function') throw new TypeError('key must be a function')
  if (reportStatus && typeof stint.reportSoon !== 'function') throw new TypeError('reportStatus needs a Stint')
  const valueOf = (value, args) => (typeof value === 'function' ? value(...args) : value)
  return async (...args) => {
    if (isChallenge(args[0])) return visitChallenge(stint, args[0], await key(...args))
    if (skip && (await skip(...args))) return { headers: {} }
    const question = { source, hold: valueOf(hold, args), meta: valueOf(meta, args), request: attributesOf(args[0]), pass: passOf(args[0]) }
    question.request.path = readPath(question.request.path)
    const keys = await key(...args)
    const common = { policy: valueOf(policy, args), cost: valueOf(cost, args) }
    if (Array.isArray(keys)) {
      question.keys = keys.map((part) => ({ ...common, ...(typeof part === 'object' ? part : { key: part }) }))
    } else {
      Object.assign(question, common, { key: keys ?? '' })
    }
    let decision
    try {
      decision = await stint.check(question)
    } catch (error) {
      onError?.(error, ...args)
      return refusal(isAboutKey(error) ? badKey : unavailable, isAboutKey(error) ? {} : { 'Retry-After': '1' })
    }
    if (decision.outage) onError?.(decision.outage, ...args)
    if (!decision.allowed) return challengeOf(decision, args[0]) ?? refusal(refusalOf(decision), decision.headers)
    decisions.set(args[0], decision)
    const about = (question.keys ?? [question]).map((part) => part.key)
    const report = reportStatus && ((status) => about.forEach((one) => stint.reportSoon({ key: one, status, request: question.request, source })))
    if (!decision.hold) return { headers: decision.headers, report }
    const usage = new Usage(stint, decision.hold, (error) => onError?.(error, ...args))
    usages.set(args[0], usage)
    return { headers: decision.headers, usage, report }
  }
}

const challengePath = /^\/\.well-known\/stint\/(challenge|pass|continue)(\?|$)/

const headerOf = ({ headers = {} }, name) => (typeof headers.get === 'function' ? headers.get(name) ?? undefined : headers[name])

// Returns the path and the query of a request as its client sent them.
function targetOf(request) {
  const { headers = {}, originalUrl, url, raw } = request
  if (typeof headers.get !== 'function') return raw ? raw.url : originalUrl ?? url ?? ''
  if (!URL.canParse(url)) return url
  const { pathname, search } = new URL(url)
  return pathname + search
}

// Of most Requests the URL need not be parsed.
const isChallenge = (request) =>
  (typeof request.headers?.get !== 'function' || String(request.url).includes('/.well-known/stint/')) && challengePath.test(targetOf(request))

// Of several cookies all are sent, as far as a check may have them: another site of the same domain may have set one.
const passOf = (request) => {
  let passes = ''
  for (const [, pass] of (headerOf(request, 'cookie') ?? '').matchAll(/(?:^|;)\s*stint_pass=([\w-]{1,512})(?=;|$)/g)) {
    if (passes.length + 1 + pass.length <= 512) passes = `${passes} ${pass}`.trim()
  }
  return passes || undefined
}

// Hands a request for one of the paths of challenges on, with the headers that pages need: Stint would trust others, or they
// are secrets of the application.
async function visitChallenge(stint, request, keys) {
  if (request.method !== 'GET' || typeof stint.challenge !== 'function') return refusal(challenged, {})
  const address = [keys ?? []].flat().map((part) => part.key ?? part).find((text) => text.startsWith('ip:'))
  const headers = { 'x-forwarded-for': address?.slice('ip:'.length), host: headerOf(request, 'host') ?? headerOf(request, ':authority') }
  for (const name of ['accept', 'accept-language', 'sec-fetch-dest', 'sec-fetch-mode', 'sec-fetch-site', 'user-agent']) headers[name] = headerOf(request, name)
  const pass = passOf(request)
  if (pass) headers.cookie = pass.split(' ').map((one) => `stint_pass=${one}`).join('; ')
  try {
    return await stint.challenge(targetOf(request), headers)
  } catch {
    return refusal(unavailable, { 'Retry-After': '1' })
  }
}

// Returns what answers a challenged request: a browser that opens a page is led to the challenge, all else is refused.
function challengeOf({ reason, challenge, id, headers }, request) {
  if (reason !== 'challenged' || typeof challenge !== 'string') return undefined
  const isAny = (name, one) => [undefined, one].includes(headerOf(request, name))
  const target = targetOf(request)
  if (request.method === 'GET' && headerOf(request, 'accept')?.includes('text/html') && isAny('sec-fetch-mode', 'navigate') && isAny('sec-fetch-dest', 'document') &&
    !/^\/(\.well-known\/|robots\.txt|favicon\.ico)/.test(target)) {
    const vary = 'Accept, Cookie, Sec-Fetch-Dest, Sec-Fetch-Mode'
    return { status: 303, headers: { Location: `${challenge}?to=${encodeURIComponent(target)}`, 'Cache-Control': 'no-store', Vary: vary }, body: '' }
  }
  return refusal(id ? { ...challenged, id } : challenged, { ...headers, 'X-Stint-Challenge': challenge })
}

// The host of a URL as URL would give it.
const plainHost = /^https?:\/\/([a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z-]+)(?=[/?]|$)/

// What policies with conditions ask of a request of node:http, express, fastify or fetch: as the application sees it, so
// that no spelling hides it. Of HTTP/2, fastify takes Host before :authority. Its routes, and only its requests have raw,
// are chosen by the target that rewriteUrl returns; express takes away the path below which a router is mounted.
function attributesOf(request) {
  const { headers = {}, method, originalUrl, url, raw } = request
  if (typeof headers.get === 'function') {
    const host = plainHost.exec(url)?.[1] ?? (URL.canParse(url) ? new URL(url).host : headers.get('host'))
    return { path: url, method, agent: headers.get('user-agent'), host }
  }
  return { path: raw ? url : originalUrl ?? url, method, agent: headers['user-agent'], host: headers.host ?? headers[':authority'] }
}

// Returns the path of a target as express reads it, which takes a backslash for a slash in some targets, and the host of
// some schemes for a part of the path.
function expressPath(target) {
  if (/^\/[^\s#]*$/.test(target)) return target
  try {
    return parse(target).pathname ?? '/'
  } catch {
    return target // which express finds nothing for
  }
}

const isAboutKey = (error) => error instanceof StintError && /^(key|keys|keys\[\d+\](\.key)?)$/.test(error.field ?? '')

// The bodies name nothing that the request can choose, nor what operators wrote about a block.
const badKey = { type: 'about:blank', title: 'Bad Request', status: 400, detail: 'What identifies the client in this request cannot be read.', code: 'invalid' }
const unavailable = {
  type: 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity', title: 'Service Unavailable', status: 503,
  detail: 'The service cannot decide at the moment. Try again later.', code: 'unavailable',
}
const blocked = { type: 'about:blank', title: 'Forbidden', status: 403, detail: 'This client is blocked.', code: 'blocked' }
const limited = {
  type: 'https://iana.org/assignments/http-problem-types#quota-exceeded', title: 'Too Many Requests', status: 429, detail: 'Too many requests.', code: 'limited',
}
const challenged = {
  type: 'https://iana.org/assignments/http-problem-types#quota-exceeded', title: 'Too Many Requests', status: 429,
  detail: 'This client has to solve a challenge first.', code: 'challenged',
}

// Returns the body of a refusal, that of /v1/forward.
function refusalOf({ decision, id, rule, headers }) {
  const seconds = Number(headers['Retry-After'] ?? 0)
  const problem = { ...({ limited, blocked }[decision] ?? unavailable) }
  if (decision === 'blocked' && seconds > 0) problem.detail = 'This client is blocked for a time. Try again later.'
  if (decision === 'limited' && seconds > 0) problem.detail += ` Try again in ${seconds} second${seconds === 1 ? '' : 's'}.`
  if (id) problem.id = id
  if (decision === 'limited' && isRule(rule)) problem['violated-policies'] = [rule]
  return problem
}

const isRule = (text) => typeof text === 'string' && /^\d+\/[0-9a-z]+$/.test(text) && !text.endsWith('ms')

function refusal(problem, headers) {
  return {
    status: problem.status,
    headers: { ...headers, 'Content-Type': 'application/problem+json', 'Cache-Control': 'no-store', 'X-Content-Type-Options': 'nosniff' },
    body: JSON.stringify(problem),
  }
}
