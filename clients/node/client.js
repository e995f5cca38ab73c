// The client of Stint's check listener.
import http from 'node:http'
import https from 'node:https'
import { randomUUID } from 'node:crypto'
import { cutTexts } from './attributes.js'

const maxAnswer = 1 << 20 // bytes; an answer about 16 keys has some 20 KiB
const outageRetrySeconds = 1
const statuses = new Map(Object.entries({ allowed: 200, limited: 429, blocked: 403, unavailable: 503 }))

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
  #url; #reports; #agent; #headers; #timeout; #failOpen

  constructor(url, { token, timeout = 500, onOutage = 'closed', connections = 64, agent } = {}) {
    this.#url = below(url, '/v1/check')
    this.#reports = below(url, '/v1/report')
    if (this.#url.protocol !== 'http:' && this.#url.protocol !== 'https:') throw new TypeError('url must begin with http:// or https://')
    if (onOutage !== 'open' && onOutage !== 'closed') throw new TypeError('onOutage must be "open" or "closed"')
    if (!Number.isInteger(timeout) || timeout < 1) throw new TypeError('timeout must be a whole number of milliseconds, at least 1')
    const { Agent } = this.#url.protocol === 'https:' ? https : http
    this.#agent = agent ?? new Agent({ keepAlive: true, maxSockets: connections, scheduling: 'lifo' })
    this.#headers = { 'content-type': 'application/json' }
    if (token !== undefined) {
      if (typeof token !== 'string' || !/^[\x21-\x7e]+$/.test(token)) throw new TypeError('token must be printable ASCII without spaces; one that was read from a file may end in a line break')
      this.#headers.authorization = `Bearer ${token}`
    }
    this.#timeout = timeout
    this.#failOpen = onOutage === 'open'
  }

  /** Asks about one key or, all or nothing, about several. See index.d.ts. */
  async check(question) {
    // The key makes it safe to send the check again: it is charged once.
    const body = JSON.stringify({ ...cutTexts(question), idempotency_key: question.idempotency_key ?? randomUUID() })
    const deadline = AbortSignal.timeout(this.#timeout)
    let answer, cause
    try {
      answer = await this.#send(this.#url, body, deadline)
    } catch (error) {
      cause = error
    }
    if (answer) {
      const decision = parse(answer.body)
      if (isDecision(decision, answer.status)) {
        return { ...decision, headers: headersOf(answer.headers) }
      }
      const error = new StintError(answer.status, decision)
      // Another Stint would answer the same: no outage, but a wrong question.
      if (answer.status >= 400 && answer.status < 500 && ![401, 403, 408, 429].includes(answer.status)) throw error
      cause = error
    }
    return this.#outage(cause)
  }

  /** Reports the outcome of a request. See index.d.ts. */
  async report(report) {
    // The id makes it safe to send the report again: it is counted once.
    const body = JSON.stringify({ ...cutTexts(report), id: report.id ?? randomUUID() })
    const answer = await this.#send(this.#reports, body, AbortSignal.timeout(this.#timeout))
    const reported = parse(answer.body)
    if (answer.status === 200 && Array.isArray(reported?.policies)) return reported
    throw new StintError(answer.status, reported)
  }

  /** Closes the idle connections. */
  close() {
    this.#agent.destroy()
  }

  // A server closes idle connections when it likes, also at the moment of a new
  // request: that request is sent again on another.
  async #send(url, body, signal) {
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.#sendOnce(url, body, signal)
      } catch (error) {
        if (!error.reusedSocket || signal.aborted || attempt === 3) throw error
      }
    }
  }

  #sendOnce(url, body, signal) {
    return new Promise((resolve, reject) => {
      const { request } = url.protocol === 'https:' ? https : http
      const headers = { ...this.#headers, 'content-length': Buffer.byteLength(body) }
      const sent = request(url, { method: 'POST', agent: this.#agent, headers, signal })
      const failed = (error) => {
        error.reusedSocket = sent.reusedSocket
        reject(error)
      }
      sent.on('error', failed)
      // Every call ends: one that the other side switches to another protocol has neither an answer nor an error.
      sent.on('close', () => failed(new Error('the connection was closed without an answer')))
      sent.on('response', (response) => {
        const parts = []
        let size = 0
        response.on('error', failed)
        response.on('data', (part) => {
          size += part.length
          if (size > maxAnswer) return response.destroy(new Error('the answer is too long'))
          parts.push(part)
        })
        response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(parts).toString() }))
      })
      sent.end(body)
    })
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

// Returns the URL of a path of Stint, which a proxy in front may serve below a path of its own.
function below(base, path) {
  const url = new URL(base)
  url.pathname = url.pathname.replace(/\/+$/, '') + path
  url.search = url.hash = ''
  return url
}

// Whatever else answers for Stint lets no request pass, nor does an answer that contradicts itself.
const isDecision = (answer, status) => statuses.get(answer?.decision) === status && answer.allowed === (answer.decision === 'allowed')

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
