// The client of Stint's check listener.
import http from 'node:http'
import https from 'node:https'
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { urlToHttpOptions } from 'node:url'
import { cutTexts } from './attributes.js'

const maxAnswer = 1 << 20 // bytes; an answer about 16 keys has some 20 KiB
const outageRetrySeconds = 1
const maxQueued = 4096 // reports that wait
const queueDelay = 200 // milliseconds in which reports are collected
const queueBatch = 64 // whatever clients choose of that many reports fits into a call
const queueTimeout = 1000 // milliseconds; nobody waits for them
const statuses = new Map(Object.entries({ allowed: 200, limited: 429, blocked: 403, unavailable: 503 }))

// The headers of the pages of challenges, and of what leads on from them.
const challengeHeaders = [
  'content-type', 'content-security-policy', 'cache-control', 'referrer-policy', 'vary', 'x-robots-tag', 'x-content-type-options', 'location', 'set-cookie', 'retry-after',
]

/** What Stint answered in place of a decision: the check or its token was wrong. */
export class StintError extends Error {
  constructor(status, problem) {
    super(`Stint answered ${status}: ${JSON.stringify(String(problem?.detail ?? problem?.title ?? 'no decision'))}`)
    this.name = 'StintError'
    this.status = status
    this.code = problem?.code
    this.field = problem?.field
  }
}

/** Asks one Stint server. Create one for the whole program: it keeps the connections. */
export class Stint {
  #url; #admin; #agent; #adminAgent; #token; #adminToken; #timeout; #failOpen
  #waiting = []; #sending; #dropped = 0

  constructor(url, { token, timeout = 100, onOutage = 'closed', connections = 64, agent, adminUrl, adminToken, adminAgent } = {}) {
    this.#url = listener('url', url)
    this.#admin = adminUrl === undefined ? undefined : listener('adminUrl', adminUrl)
    if (onOutage !== 'open' && onOutage !== 'closed') throw new TypeError('onOutage must be "open" or "closed"')
    if (!Number.isInteger(timeout) || timeout < 1) throw new TypeError('timeout must be a whole number of milliseconds, at least 1')
    const agentOf = ({ protocol }) => new (protocol === 'https:' ? https : http).Agent({ keepAlive: true, maxSockets: connections, scheduling: 'lifo' })
    this.#agent = agent ?? agentOf(this.#url)
    this.#adminAgent = adminAgent ?? (this.#admin && agentOf(this.#admin))
    this.#token = checkedToken('token', token)
    this.#adminToken = checkedToken('adminToken', adminToken)
    this.#timeout = timeout
    this.#failOpen = onOutage === 'open'
  }

  /** Asks about one key or, all or nothing, about several. See index.d.ts. */
  async check(question) {
    // The key makes it safe to send the check again: it is charged once.
    const body = { ...cutTexts(question), idempotency_key: question.idempotency_key ?? randomUUID() }
    const answer = await this.#ask('POST', '/v1/check', body)
    if (answer instanceof Error) return this.#outage(answer)
    const decision = parse(answer.body)
    if (isDecision(decision, answer.status)) return { ...withLeft(decision), headers: headersOf(answer.headers) }
    return this.#outage(mistakeOrOutage(answer, decision))
  }

  /** Asks up to 1,000 checks, each on its own. See index.d.ts. */
  async checkMany(questions) {
    const checks = questions.map((question) => ({ ...cutTexts(question), idempotency_key: question.idempotency_key ?? randomUUID() }))
    const answer = await this.#ask('POST', '/v1/check/batch', { checks })
    if (answer instanceof Error) return checks.map(() => this.#outage(answer))
    const given = parse(answer.body)
    const items = answer.status === 200 && Array.isArray(given?.decisions) && given.decisions.length === checks.length ? given.decisions : undefined
    const isItem = (item) => isDecision(item, statuses.get(item?.decision)) || Number.isInteger(item?.status)
    if (!items?.every(isItem)) {
      const outage = mistakeOrOutage(answer, given)
      return checks.map(() => this.#outage(outage))
    }
    return items.map((item) => (item.decision ? { ...withLeft(item), headers: {} } : new StintError(item.status, item)))
  }

  /** Reports the outcome of a request. See index.d.ts. */
  async report(report) {
    const answer = await this.#ask('POST', '/v1/report', sentReport(report))
    return answered(answer, (reported) => Array.isArray(reported?.policies))
  }

  /** Reports up to 1,000 outcomes in one call. See index.d.ts. */
  reportMany(reports) {
    return this.#reportAll(reports.map(sentReport), this.#timeout)
  }

  /** Reports an outcome without waiting for it. See index.d.ts. */
  reportSoon(report) {
    if (this.#waiting.length >= maxQueued) {
      this.#dropped++
      return
    }
    this.#waiting.push(sentReport(report))
    this.#sending ??= this.#sendWaiting()
  }

  /** Waits until what reportSoon took has been sent. */
  async flush() {
    await this.#sending
  }

  /** How many reports of reportSoon were not sent. */
  get dropped() {
    return this.#dropped
  }

  async #sendWaiting() {
    while (this.#waiting.length > 0) {
      if (this.#waiting.length < queueBatch) await delay(queueDelay)
      const reports = this.#waiting.splice(0, queueBatch)
      try {
        const answers = await this.#reportAll(reports, Math.max(this.#timeout, queueTimeout))
        this.#dropped += answers.filter((answer) => answer instanceof StintError).length
      } catch {
        this.#dropped += reports.length
      }
    }
    this.#sending = undefined
  }

  async #reportAll(reports, timeout) {
    const answer = await this.#ask('POST', '/v1/report/batch', { reports }, timeout)
    const { answers } = answered(answer, (given) => Array.isArray(given?.answers) && given.answers.length === reports.length)
    return answers.map((item) => (Array.isArray(item?.policies) ? item : new StintError(item?.status, item)))
  }

  /** Cancels a reservation. See index.d.ts. */
  async cancel(handle) {
    return answered(await this.#ask('DELETE', `/v1/reservations/${encodeURIComponent(handle)}`)).freed === true
  }

  /** Settles a hold with what was used. See index.d.ts. */
  async settle(handle, cost) {
    return answered(await this.#ask('POST', `/v1/holds/${encodeURIComponent(handle)}`, { cost }))
  }

  /** Gives back all that is held. See index.d.ts. */
  async release(handle) {
    return answered(await this.#ask('DELETE', `/v1/holds/${encodeURIComponent(handle)}`))
  }

  /** Renews a hold. See index.d.ts. */
  async extend(handle, hold) {
    return answered(await this.#ask('POST', `/v1/holds/${encodeURIComponent(handle)}/extend`, { hold }))
  }

  /** Forgets what a key has used. See index.d.ts. */
  async reset(key) {
    answered(await this.#askAdmin('DELETE', `/v1/keys?key=${encodeURIComponent(key)}`))
  }

  /** Blocks one key for a time. See index.d.ts. */
  async block(key, seconds, reason) {
    if (key.includes('*') || (key.startsWith('ip:') && key.includes('/'))) throw new TypeError('the key is a pattern of several keys; block a single key')
    const block = { pattern: key, reason, expires_in: `${Math.max(1, Math.ceil(seconds))}s`, on_conflict: 'extend' }
    answered(await this.#askAdmin('POST', '/v1/blocks', block), (given) => typeof given?.id === 'string', [200, 201])
  }

  /** Hands a browser's request for one of the paths of challenges on. See index.d.ts. */
  async challenge(target, headers) {
    const send = { ...headers }
    for (const name in send) if (send[name] === undefined) delete send[name]
    const { pathname, search } = new URL(`http://stint${target}`)
    const { status, headers: received, body } = await this.#send('GET', this.#url, pathname + search, '', this.#agent, undefined, send)
    const shown = {}
    for (const name of challengeHeaders) {
      const value = [received[name] ?? []].flat()[0]
      if (value !== undefined) shown[name] = value
    }
    return { status, headers: shown, body }
  }

  /** Whether reset and block are possible. */
  get canBlock() {
    return this.#admin !== undefined
  }

  /** Closes the idle connections. */
  close() {
    this.#agent.destroy()
    this.#adminAgent?.destroy()
  }

  // Returns an answer, or the error of a call without one.
  #ask(method, path, body, timeout = this.#timeout) {
    return this.#send(method, this.#url, path, textOf(body), this.#agent, this.#token, undefined, timeout).catch((error) => error)
  }

  async #askAdmin(method, path, body) {
    if (!this.#admin) throw new TypeError('this needs adminUrl and adminToken')
    return this.#send(method, this.#admin, path, textOf(body), this.#adminAgent, this.#adminToken).catch((error) => error)
  }

  // A server closes idle connections when it likes, also at the moment of a new
  // request: that request is sent again on another.
  async #send(method, to, path, text, agent, token, more, timeout = this.#timeout) {
    const headers = text === '' ? { ...more } : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }
    if (token !== undefined) headers.authorization = `Bearer ${token}`
    const options = { ...to, method, agent, headers, path: to.path + path }
    const call = new Call(timeout)
    try {
      for (let attempt = 0; ; attempt++) {
        try {
          return await call.send(options, text)
        } catch (error) {
          if (!error.reusedSocket || call.isOver || attempt === 3) throw error
        }
      }
    } finally {
      call.end()
    }
  }

  #outage(cause) {
    const decision = { id: null, degraded: true, degraded_reason: 'Stint could not be asked', outage: cause }
    if (this.#failOpen) return { ...decision, decision: 'allowed', allowed: true, retry_after_ms: 0, headers: {} }
    return {
      ...decision, decision: 'unavailable', allowed: false, retry_after_ms: outageRetrySeconds * 1000,
      headers: { 'Retry-After': String(outageRetrySeconds) },
    }
  }
}

// A call with a time-out, which may be sent again. An AbortSignal would do, and cost a tenth of a call.
class Call {
  isOver = false
  #timer; #sent

  constructor(timeout) {
    this.#timer = setTimeout(() => {
      this.isOver = true
      this.#sent.destroy(new Error(`there was no answer within ${timeout} ms`))
    }, timeout)
    this.#timer.unref()
  }

  end() {
    clearTimeout(this.#timer)
  }

  send(options, body) {
    return new Promise((resolve, reject) => {
      const sent = (options.protocol === 'https:' ? https : http).request(options)
      this.#sent = sent
      let isAnswered = false
      const failed = (error) => {
        error.reusedSocket = sent.reusedSocket
        reject(error)
      }
      sent.on('error', failed)
      // Every call ends: one that the other side switches to another protocol has neither an answer nor an error.
      sent.on('close', () => {
        if (!isAnswered) failed(new Error('the connection was closed without an answer'))
      })
      sent.on('response', (response) => {
        const parts = []
        let size = 0
        response.on('error', failed)
        response.on('data', (part) => {
          size += part.length
          if (size > maxAnswer) return response.destroy(new Error('the answer is too long'))
          parts.push(part)
        })
        response.on('end', () => {
          isAnswered = true
          resolve({ status: response.statusCode, headers: response.headers, body: (parts.length === 1 ? parts[0] : Buffer.concat(parts)).toString() })
        })
      })
      sent.end(body)
    })
  }
}

// Returns the URL of a listener of Stint, which a proxy in front may serve below a path of its own, as options of node:http.
function listener(name, base) {
  const url = new URL(base)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw new TypeError(`${name} must begin with http:// or https://`)
  url.pathname = url.pathname.replace(/\/+$/, '')
  url.search = url.hash = ''
  const { protocol, hostname, port, auth, path } = urlToHttpOptions(url)
  return { protocol, hostname, port, auth, path: path.replace(/\/$/, '') }
}

// The id makes it safe to send a report again: it is counted once.
const sentReport = (report) => ({ ...cutTexts(report), id: report.id ?? randomUUID() })

const textOf = (body) => (body === undefined ? '' : JSON.stringify(body))

function checkedToken(name, token) {
  if (token !== undefined && (typeof token !== 'string' || !/^[\x21-\x7e]+$/.test(token))) throw new TypeError(`${name} must be printable ASCII without spaces; one that was read from a file may end in a line break`)
  return token
}

// Returns what a call other than a check answered. Throws where there is no answer, or another than was asked for.
function answered(answer, fits = (given) => typeof given === 'object' && given !== null, expected = [200]) {
  if (answer instanceof Error) throw answer
  const given = parse(answer.body)
  if (expected.includes(answer.status) && fits(given)) return given
  throw new StintError(answer.status, given)
}

// Throws the error of a check that is wrong: another Stint would answer the same. Returns that of an outage.
function mistakeOrOutage(answer, given) {
  const error = new StintError(answer.status, given)
  if (answer.status >= 400 && answer.status < 500 && ![401, 403, 408, 429].includes(answer.status)) throw error
  return error
}

// Whatever else answers for Stint lets no request pass, nor does an answer that contradicts itself.
const isDecision = (answer, status) => statuses.get(answer?.decision) === status && answer.allowed === (answer.decision === 'allowed')
  && isMissingOr('string', answer.id) && isMissingOr('number', answer.retry_after_ms) && (Array.isArray(answer.rules) || isMissingOr('undefined', answer.rules))

// A version of Stint that does not say what is left of a hold says when it expires.
function withLeft(decision) {
  const { hold } = decision
  if (!hold || Number.isFinite(hold.expires_in_ms)) return decision
  return { ...decision, hold: { ...hold, expires_in_ms: Math.max(0, Date.parse(hold.expires_at) - Date.now()) } }
}

const isMissingOr = (type, value) => value === undefined || value === null || typeof value === type

function parse(text) {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function headersOf(received) {
  const headers = {}
  for (const name of ['Retry-After', 'RateLimit', 'RateLimit-Policy']) {
    const value = received[name.toLowerCase()]
    if (typeof value === 'string') headers[name] = value
  }
  return headers
}
