// What other packages take as their storage: they keep the limits of a program, and Stint decides.
import { hashOf } from './hash.js'

/** The policy on the server has not the limit that the program names. */
export class LimitMismatch extends Error {
  constructor(decision, { prefix, rule }) {
    super(`the policy ${decision.policy} decides about ${prefix}* and has not the limit ${rule}: make one by`
      + ` stint-admin policy set NAME --match '${prefix}*' --rule ${rule}, or say limits: 'server'`)
    this.name = 'LimitMismatch'
  }
}

// The limit of a program. Its keys are limits:5/60s: and what the program says.
class Limit {
  constructor(stint, limit, windowMs, { policy, limits = 'program', source } = {}) {
    if (typeof stint?.check !== 'function') throw new TypeError('stint must be a Stint')
    if (limits !== 'program' && limits !== 'server') throw new TypeError('limits must be "program" or "server"')
    if (!(Number.isSafeInteger(limit) && limit >= 0)) throw new TypeError('the limit must be a whole number')
    if (!(Number.isSafeInteger(windowMs) && windowMs > 0)) throw new TypeError('the window must be a whole number of milliseconds')
    Object.assign(this, { stint, limit, windowMs, policy, source, isServer: limits === 'server' })
    this.rule = `${limit}/${windowMs % 1000 === 0 ? `${windowMs / 1000}s` : `${windowMs}ms`}`
    this.prefix = `limits:${this.rule}:`
  }

  key(text) {
    const key = this.prefix + text
    return Buffer.byteLength(key) > 512 || /\p{Cc}|\p{Cs}/u.test(key) ? this.prefix + hashOf(String(text)) : key
  }

  /** Asks, and returns the decision with the state of the limit: how much counts, and in how many milliseconds it ends. */
  async ask(text, cost, more) {
    if (cost > this.limit && !this.isServer) { // which is never allowed, and to Stint a mistake
      return { decision: { decision: 'limited', allowed: false, headers: {} }, allowed: false, used: undefined, endsInMs: this.windowMs }
    }
    const question = { key: this.key(text), policy: this.policy, source: this.source, cost, ...more }
    return this.state(await this.stint.check(question))
  }

  state(decision) {
    const rule = this.#ruleOf(decision)
    const waits = decision.allowed ? (rule?.reset_after_ms ?? 0) : (decision.retry_after_ms ?? this.windowMs)
    return { decision, allowed: decision.allowed, used: rule ? Math.max(0, this.limit - rule.remaining) : undefined, endsInMs: waits }
  }

  #ruleOf(decision) {
    const rules = decision.rules ?? []
    const found = rules.find((rule) => rule.limit === this.limit && rule.window_ms === this.windowMs)
    // By its own limit, a block, an exemption or an outage, or as the options say.
    if (found || rules.length === 0 || this.isServer || decision.own_limit) return found ?? rules.reduce((a, b) => (b.remaining < a?.remaining ? b : a), rules[0])
    throw new LimitMismatch(decision, this)
  }
}

/** A store for express-rate-limit 8: one for each limiter. */
export class StintStore {
  localKeys = false // other programs count the same keys
  #stint; #options; #limit; #error
  #hold // how long a hit stays releasable, undefined if none is released
  #sweepAt = 1024
  #held = new Map() // the handles of the hits of each key, the latest last

  constructor(stint, options = {}) {
    if (typeof stint?.check !== 'function') throw new TypeError('stint must be a Stint')
    this.#stint = stint
    this.#options = options
  }

  // express-rate-limit logs what init throws and goes on, so that it is thrown again by what counts.
  init({ windowMs, limit, skipSuccessfulRequests, skipFailedRequests }) {
    try {
      if (this.#limit || this.#error) throw new TypeError('a StintStore belongs to one limiter: create another')
      if (skipSuccessfulRequests || skipFailedRequests) this.#hold = `${Math.min(86_400, Math.max(1, Math.ceil(windowMs / 1000)))}s`
      if (typeof limit === 'function') throw new TypeError('the limit must be a number: give each plan a limiter, or the keys plans on the server')
      this.#limit = new Limit(this.#stint, limit, windowMs, this.#options)
      this.prefix = this.#limit.prefix
    } catch (error) {
      this.#error = error
      throw error
    }
  }

  #ready() {
    if (this.#error) throw this.#error
    if (!this.#limit) throw new TypeError('the store has no limiter yet')
    return this.#limit
  }

  async increment(key) {
    const limit = this.#ready()
    const state = await limit.ask(key, 1, { hold: this.#hold }).catch((error) => {
      if (error.field !== 'hold') throw error
      throw new TypeError(`skipSuccessfulRequests and skipFailedRequests give hits back: stint-admin policy set NAME --match '${limit.prefix}*' --rule ${limit.rule}`
        + ' --algorithm amount_log', { cause: error })
    })
    if (this.#hold && state.allowed) this.#keep(key, state.decision)
    return infoOf(limit, state, 1)
  }

  async get(key) {
    const limit = this.#ready()
    const state = await limit.ask(key, 1, { peek: true })
    return state.allowed && !state.used ? undefined : infoOf(limit, state, 0)
  }

  #keep(key, { hold }) {
    if (!hold) return // by an exemption or an outage: nothing was charged
    const now = performance.now() // whatever the clock of this machine says
    if (this.#held.size >= this.#sweepAt) { // once the keys have doubled, so that a hit costs the same on average
      for (const [other, of] of this.#held) if (of.at(-1).ends <= now) this.#held.delete(other)
      this.#sweepAt = Math.max(1024, 2 * this.#held.size)
    }
    const of = (this.#held.get(key) ?? []).filter(({ ends }) => ends > now)
    this.#held.set(key, [...of, { handle: hold.handle, ends: now + hold.expires_in_ms }])
  }

  async decrement(key) {
    const of = this.#held.get(key)
    const latest = of?.pop()
    if (of?.length === 0) this.#held.delete(key)
    if (latest && latest.ends > performance.now()) await this.#stint.release(latest.handle)
  }

  async resetKey(key) {
    await this.#stint.reset(this.#ready().key(key))
  }
}

// Only express-rate-limit refuses, where the hits are above the limit.
function infoOf(limit, { allowed, used, endsInMs }, least) {
  const totalHits = allowed ? Math.min(limit.limit, Math.max(least, used ?? least)) : limit.limit + 1
  return { totalHits, resetTime: new Date(Date.now() + endsInMs) }
}

/** A storage for @nestjs/throttler 6. */
export class StintThrottlerStorage {
  #stint; #options
  #limits = new Map()

  constructor(stint, options = {}) {
    if (typeof stint?.check !== 'function') throw new TypeError('stint must be a Stint')
    this.#stint = stint
    this.#options = options
  }

  async increment(key, ttl, limit, blockDuration, throttlerName) {
    if (blockDuration > ttl) throw new TypeError('blockDuration is the policy\'s: stint-admin policy set NAME --escalate ... --block-for ...')
    const name = `${limit}/${ttl}`
    let of = this.#limits.get(name)
    if (!of) {
      of = new Limit(this.#stint, limit, ttl, this.#options)
      if (this.#limits.size >= 1000) this.#limits.clear() // limits that depend on the request
      this.#limits.set(name, of)
    }
    const state = await of.ask(`${throttlerName}:${key}`, 1)
    const { totalHits } = infoOf(of, state, 1)
    const seconds = Math.ceil(state.endsInMs / 1000)
    return { totalHits, timeToExpire: seconds, isBlocked: !state.allowed, timeToBlockExpire: state.allowed ? 0 : seconds }
  }
}

/** What StintRateLimiter resolves and rejects with, as rate-limiter-flexible's RateLimiterRes. */
export class StintRateLimiterRes {
  constructor(remainingPoints, msBeforeNext, consumedPoints, isFirstInDuration) {
    Object.assign(this, { remainingPoints, msBeforeNext, consumedPoints, isFirstInDuration })
  }

  toString() {
    return JSON.stringify(this)
  }
}

/** Has the interface of rate-limiter-flexible. */
export class StintRateLimiter {
  #limit

  constructor({ storeClient, points, duration, keyPrefix = 'rlflx', blockDuration = 0, execEvenly = false, inMemoryBlockOnConsumed = 0, insuranceLimiter, ...options }) {
    if (blockDuration) throw new TypeError('blockDuration is the policy\'s: stint-admin policy set NAME --escalate ... --block-for ...')
    if (execEvenly) throw new TypeError('execEvenly is the policy\'s: its algorithm leaky_bucket spaces requests')
    if (inMemoryBlockOnConsumed) throw new TypeError('inMemoryBlockOnConsumed would decide without Stint')
    this.#limit = new Limit(storeClient, points, duration * 1000, options)
    Object.assign(this, { points, duration, keyPrefix, insuranceLimiter })
  }

  getKey(key) {
    return this.#limit.key(this.keyPrefix === '' ? key : `${this.keyPrefix}:${key}`)
  }

  #name(key) {
    return this.keyPrefix === '' ? key : `${this.keyPrefix}:${key}`
  }

  #result({ allowed, used, endsInMs }, least) {
    const consumed = allowed ? Math.max(least, used ?? least) : this.points + 1
    return new StintRateLimiterRes(Math.max(0, this.points - consumed), Math.ceil(endsInMs), consumed, allowed && consumed === least)
  }

  /** Resolves where the points fit, and rejects with a StintRateLimiterRes where not: those are not charged. */
  async consume(key, points = 1) {
    const state = await this.#ask(key, points)
    if (state.decision.outage && this.insuranceLimiter) return this.insuranceLimiter.consume(key, points)
    const result = this.#result(state, points)
    if (!state.allowed) throw result
    return result
  }

  #ask(key, cost, more) {
    return this.#limit.ask(this.#name(key), cost, more)
  }

  /** Charges points, as far as they fit. */
  async penalty(key, points = 1) {
    return this.#result(await this.#ask(key, points, { charge: 'always' }), points)
  }

  async reward() {
    throw new TypeError('points cannot be taken back: report outcomes that forgive, with stint.report')
  }

  /** Resolves null if nothing counts. */
  async get(key) {
    const state = await this.#ask(key, 1, { peek: true })
    return state.allowed && !state.used ? null : this.#result(state, 0)
  }

  /** Forgets what the key has used and charges points; needs adminUrl. */
  async set(key, points, seconds = this.duration) {
    if (seconds !== this.duration) throw new TypeError('the duration is that of the limit')
    await this.delete(key)
    if (points <= 0) return new StintRateLimiterRes(this.points, 0, 0, true)
    return this.penalty(key, Math.min(points, Math.max(1, this.points)))
  }

  /** Blocks the key, for all programs; needs adminUrl. */
  async block(key, seconds) {
    await this.#limit.stint.block(this.getKey(key), seconds, 'blocked by the program')
    return new StintRateLimiterRes(0, seconds * 1000, this.points + 1, false)
  }

  /** Forgets what the key has used; needs adminUrl. */
  async delete(key) {
    await this.#limit.stint.reset(this.getKey(key))
    return true
  }
}

/** A request was not sent: it would have to wait too long, or never. */
export class StintRefused extends Error {
  constructor(key, decision) {
    super(decision.outage ? `Stint could not be asked about ${key}` : `${key} is ${decision.decision} for longer than the request may wait`, { cause: decision.outage })
    this.name = 'StintRefused'
    this.decision = decision
  }
}

/** Returns a fetch that stays within another service's limits. See index.d.ts. */
export function fetchWithin(stint, { key = hostKey, policy, cost, maxWait = 60_000, maxHold = 3_600_000, onError, fetch = globalThis.fetch } = {}) {
  const held = new Map() // the time until which an answer holds a key
  return async (input, init) => {
    const request = new Request(input, init)
    const name = await key(request)
    if (name === undefined || name === '') return fetch(request)
    const until = Date.now() + maxWait
    for (;;) {
      await sleep(waitFor(held, name, until), request.signal)
      const wait = until - Date.now()
      const decision = await stint.check({
        key: name, policy, cost: typeof cost === 'function' ? cost(request) : cost, detail: 'none', max_wait: wait >= 1 ? `${Math.floor(wait)}ms` : undefined,
      })
      if (!decision.allowed) throw new StintRefused(name, decision)
      try {
        await sleep(decision.delay_ms ?? 0, request.signal)
      } catch (error) {
        // Nobody else has to wait for a request that is not sent.
        if (decision.reservation) stint.cancel(decision.reservation.handle).catch((failed) => onError?.(failed))
        throw error
      }
      if (!(held.get(name) > Date.now())) break // no answer has held the key in the meantime
    }
    const response = await fetch(request)
    const seconds = retryAfter(response)
    if (seconds > 0) hold(held, name, Math.min(seconds * 1000, maxHold))
    if (seconds > 0 && stint.canBlock) {
      stint.block(name, Math.min(seconds, maxHold / 1000), `answered ${response.status} with Retry-After`).catch((error) => onError?.(error))
    }
    return response
  }

  function waitFor(held, name, until) {
    const end = held.get(name) ?? 0
    if (end > until) throw new StintRefused(name, { decision: 'limited', allowed: false, retry_after_ms: end - Date.now(), headers: {} })
    return end - Date.now()
  }
}

const hostKey = (request) => `host:${new URL(request.url).hostname.toLowerCase().replace(/\.$/, '')}`

function hold(held, name, milliseconds) {
  const now = Date.now()
  if (held.size >= 1024) for (const [other, end] of held) if (end <= now) held.delete(other)
  held.set(name, Math.max(held.get(name) ?? 0, now + milliseconds))
}

// Returns for how many seconds an answer asks its callers to stay away. A date is read by the service's own Date, so that
// its clock may be wrong.
function retryAfter({ status, headers }) {
  const text = headers.get('retry-after')?.trim() ?? ''
  if (status !== 429 && status !== 503) return 0
  if (/^\d+$/.test(text)) return Number(text)
  const from = Date.parse(headers.get('date') ?? '') || Date.now()
  return Math.max(0, (Date.parse(text) - from) / 1000) || 0
}

function sleep(milliseconds, signal) {
  signal.throwIfAborted()
  if (!(milliseconds > 0)) return undefined
  return new Promise((resolve, reject) => {
    const aborted = () => {
      clearTimeout(timer)
      reject(signal.reason)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', aborted)
      resolve()
    }, Math.min(milliseconds, 2 ** 31 - 1))
    signal.addEventListener('abort', aborted, { once: true })
  })
}

