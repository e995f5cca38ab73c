import type { Agent, IncomingMessage, ServerResponse } from 'node:http'

export interface StintOptions {
  /** A token with the scope "check", where the server needs one. */
  token?: string
  /** Milliseconds that one check may take in all; 100 by default. */
  timeout?: number
  /** What happens while Stint cannot be reached, does not answer in time or refuses the token: "open" allows
   * requests, "closed", the default, refuses them with 503. With Redis unreachable the policy's on_failure decides instead. */
  onOutage?: 'open' | 'closed'
  /** The most connections at once; 64 by default. Idle ones are kept. */
  connections?: number
  /** Replaces the agent, for example to trust a certificate. connections is ignored then. */
  agent?: Agent
  /** The admin listener and a token of the scope "operate", which reset and block need. */
  adminUrl?: string | URL
  adminToken?: string
  adminAgent?: Agent
}

/** One key of a check. policy is the best match if omitted, cost is 1 to 1000. */
export interface Key {
  key: string
  policy?: string
  cost?: number
}

/** A check: a key, or up to 16 keys of which all are charged or none. */
export interface Check extends Partial<Key> {
  keys?: (string | Key)[]
  /** Answers and charges nothing. */
  peek?: boolean
  detail?: 'rules' | 'none'
  /** The caller; shown to operators. */
  source?: string
  /** Shown to operators and never trusted. */
  meta?: Record<string, string>
  /** The attributes of the request, for policies with conditions; the guards fill them in. Long ones are cut, as are the values of meta. */
  request?: { path?: string, method?: string, agent?: string, host?: string, scope?: string }
  /** Further values of the request, such as {account: 'alice'}, which distinct rules count: at most 8, or the check is refused with a StintError. Stint stores only a hash. Long values are cut, and what is not a string is sent as one. */
  values?: Record<string, string>
  /** "always" charges a refused check too, as far as it fits. */
  charge?: 'always'
  /** How long the caller would wait, such as "5s": a request that fits within it is reserved, and delay_ms says when it may be done. */
  max_wait?: string
  /** For how long the cost is held, such as "10m", until settle or release: for policies that count amounts. */
  hold?: string
  /** The value of the cookie stint_pass, which solving a challenge has given the client; the guards fill it in. */
  pass?: string
  /** Charges once for all checks with this text; a random one by default. */
  idempotency_key?: string
}

/** The answer of Stint to POST /v1/check, as its OpenAPI document describes it. */
export interface Decision {
  /** For "stint-admin explain"; null if nothing was refused. */
  id: string | null
  decision: 'allowed' | 'limited' | 'blocked' | 'unavailable'
  allowed: boolean
  /** The client may go on once its browser has solved a challenge, at the path that challenge names. */
  reason?: 'challenged'
  challenge?: string
  /** The decision was made under an outage. */
  degraded: boolean
  degraded_reason?: string
  /** 0 where allowed, null where waiting never helps. */
  retry_after_ms: number | null
  retry_at?: string | null
  rules?: { rule: string, limit: number, window_ms: number, remaining: number, retry_after_ms: number | null, reset_after_ms: number }[] | null
  /** About each key, where several were asked. */
  decisions?: Decision[]
  key?: string
  policy?: string | null
  /** How long to wait before the request, and the reservation of that time, where max_wait was sent. */
  delay_ms?: number
  reservation?: { at: string, handle: string } | null
  /** What the check holds, where it was allowed and a policy holds. */
  hold?: { handle: string, expires_at: string, expires_in_ms: number }
  /** Retry-After, RateLimit and RateLimit-Policy. */
  headers: Record<string, string>
  /** Why this client decided in Stint's place. */
  outage?: Error
  [other: string]: unknown
}

/** The outcome of a request of a key, whether or not it was checked. */
export interface Report {
  key: string
  /** 1 to 64 of a-z, 0-9 and _, beginning with a letter, for example login_failed. */
  outcome?: string
  /** The status of the answer, in place of an outcome: Stint finds the outcomes that it means by it, and the path and method of request. */
  status?: number
  /** The attributes of the request, for policies with conditions. Long ones are cut, as are the values of meta. */
  request?: { path?: string, method?: string, agent?: string, host?: string, scope?: string }
  /** Further values of the request, such as {account: 'alice'}, which distinct rules count: at most 8, or the report is refused with a StintError. Stint stores only a hash. Long values are cut, and what is not a string is sent as one. */
  values?: Record<string, string>
  /** When it happened, in RFC 3339; now by default. What is more than ten minutes late is not counted. */
  at?: string
  /** Who reports; shown to operators. */
  source?: string
  /** Shown to operators and never trusted. */
  meta?: Record<string, string>
  /** Charges once all reports with this text within a minute; a random one by default. Into a full limit each is an offence. */
  id?: string
}

/** The answer of Stint to POST /v1/report, as its OpenAPI document describes it. */
export interface Reported {
  key: string
  outcome?: string
  /** Those that a status means. */
  outcomes?: string[]
  /** The policies that count the outcome for this key and request, and whether they refuse its checks from now on. */
  policies: {
    policy: string, mode: 'enforce' | 'shadow', result: 'charged' | 'full' | 'replayed' | 'lost', id: string | null, refuses: boolean
    retry_at: string | null
    /** The further key that the policy counted the report for; absent for the key itself. */
    derived_key?: string
  }[]
  /** Why no policy counted it. */
  note?: string
  degraded: boolean
  [other: string]: unknown
}

/** What became of a hold. over is how much of the cost is beyond a limit. */
export interface SettledHold {
  state: 'settled' | 'released' | 'held'
  held: number
  cost: number
  over: number
  expires_at: string | null
}

/** What Stint answered in place of a decision: the check or the report was wrong, or its token. */
export class StintError extends Error {
  readonly status: number
  readonly code?: string
  readonly field?: string
}

/** Asks one Stint server, or several behind one address. Create one for the whole program: it keeps the connections. */
export class Stint {
  /** url is that of the check listener, for example "http://127.0.0.1:8080", or of the path below which a proxy serves it. */
  constructor(url: string | URL, options?: StintOptions)
  /** Resolves to a decision, also during an outage, which onOutage decides. Rejects with a StintError where the check is wrong. */
  check(check: Check): Promise<Decision>
  /** Reports the outcome of a request, for policies with an outcome. Rejects with a StintError where the report is wrong or its
   * token is refused, and with another error while Stint cannot be reached. */
  report(report: Report): Promise<Reported>
  /** Asks up to 1,000 checks of one key each, in one call. The answers are in their order. */
  checkMany(checks: Check[]): Promise<(Decision | StintError)[]>
  /** Reports up to 1,000 outcomes in one call. */
  reportMany(reports: Report[]): Promise<(Reported | StintError)[]>
  /** Reports an outcome without waiting for it: reports are sent together some 200 ms later, at most 4,096 wait, and what cannot be
   * sent is dropped. */
  reportSoon(report: Report): void
  /** Resolves once what reportSoon took has been sent. */
  flush(): Promise<void>
  /** How many reports of reportSoon were not sent. */
  readonly dropped: number
  /** Settles a hold with what was used, all of it if cost is omitted. May be repeated. Rejects with a StintError where it was settled
   * otherwise (409) or has expired (410). */
  settle(handle: string, cost?: number): Promise<SettledHold>
  /** Gives back all that is held, as if it had never been charged. */
  release(handle: string): Promise<SettledHold>
  /** Renews a hold for this time from now, such as "10m". */
  extend(handle: string, hold: string): Promise<SettledHold>
  /** Cancels a reservation, and resolves whether that freed room for others. */
  cancel(handle: string): Promise<boolean>
  /** Hands a browser's request for a path below /.well-known/stint/ on to Stint; the guards do it. */
  challenge(target: string, headers: Record<string, string | undefined>): Promise<{ status: number, headers: Record<string, string>, body: string }>
  /** Forgets what a key has used, under all policies. Needs adminUrl. */
  reset(key: string): Promise<void>
  /** Blocks one key for a time, for all programs that use the same Stint. Needs adminUrl. */
  block(key: string, seconds: number, reason: string): Promise<void>
  /** Whether reset and block are possible. */
  readonly canBlock: boolean
  /** Closes the idle connections. */
  close(): void
}

type KeyResult = string | (string | Key)[]

export interface GuardOptions<Args extends unknown[]> {
  /** The key of a request, or several of which all are charged or none. Anything but a string that can be a key is answered 400. */
  key: (...args: Args) => KeyResult | Promise<KeyResult>
  /** Of each key that names none; the best match if omitted. */
  policy?: string | ((...args: Args) => string)
  /** Of each key that names none; 1 if omitted. */
  cost?: number | ((...args: Args) => number)
  /** Holds the cost until the response has been sent, has broken off, or its client has gone, such as "2m"; the policy says if
   * omitted. It renews itself until then, and is settled with what was held unless usageOf(request) was settled before. */
  hold?: string | ((...args: Args) => string | undefined)
  source?: string
  meta?: (...args: Args) => Record<string, string>
  /** Lets a request pass without a check, for health checks and the like. A client that can make it true has no limit. */
  skip?: (...args: Args) => boolean | Promise<boolean>
  /** Reports the status of each response by reportSoon, for policies with outcomes or evidence: Stint finds by it that a page was missing
   * or a login failed, and learns what the site has. */
  reportStatus?: boolean
  /** Called for each request without a decision of the server. */
  onError?: (error: Error, ...args: Args) => void
}

type Addressed = IncomingMessage & { ip?: string }

/** Returns a middleware for express 4 and 5. The key is req.ip by default, which obeys the setting "trust proxy". */
export function expressGuard<Req extends IncomingMessage = Addressed>(stint: Stint, options?: Partial<GuardOptions<[Req]>>):
  (request: Req, response: ServerResponse, next: (error?: unknown) => void) => void

/** Is a plugin for fastify 5. The key is request.ip by default, which obeys the option trustProxy. */
export function fastifyGuard(fastify: any, options: { stint: Stint } & Partial<GuardOptions<[any]>>): Promise<void>

/** Returns a handler of Requests behind the guard. */
export function fetchGuard<Rest extends unknown[]>(
  stint: Stint, options: GuardOptions<[Request, ...Rest]>, handler: (request: Request, ...rest: Rest) => Response | Promise<Response>,
): (request: Request, ...rest: Rest) => Promise<Response>

/** Returns a key function: "ip:" and the address of the connection or, where that is one of the trusted addresses and
 * networks, the nearest address of X-Forwarded-For, from the right, that is none of them. */
export function addressKey(...trusted: string[]): (request: IncomingMessage) => string

/** Returns the decision by which a request was let through. */
export function decisionOf(request: object): Decision | undefined

/** What a request holds. Only the first call of settle or release does anything; a failure goes to onError. */
export interface Usage {
  /** Settles with what was used, or with what was held if it is omitted. */
  settle(cost?: number): Promise<SettledHold | undefined>
  release(): Promise<SettledHold | undefined>
}

/** Returns what a request holds, undefined if it holds nothing. */
export function usageOf(request: object): Usage | undefined

/** Returns the hash that keys contain in place of a secret: 32 hexadecimal digits of SHA-256, as /v1/forward makes them. */
export function hashOf(secret: string): string

export interface LimiterOptions {
  /** The best match for the key if omitted. */
  policy?: string
  /** "program", the default: if the policy on the server has not the limit of the program, what counts rejects with a LimitMismatch.
   * "server": the policy decides, whatever the program says. */
  limits?: 'program' | 'server'
  source?: string
}

/** The policy on the server has not the limit that the program names; the message has the command that makes it. */
export class LimitMismatch extends Error {}

/** A store for express-rate-limit 8: one for each limiter. The keys are limits:5/60s: and those of the limiter, by which a policy
 * matches them. resetKey needs adminUrl. skipSuccessfulRequests and skipFailedRequests hold each hit and give it back, which needs a policy
 * with the algorithm amount_log. */
export class StintStore {
  constructor(stint: Stint, options?: LimiterOptions)
  readonly localKeys: boolean
  prefix?: string
  init(options: { windowMs: number, limit: number | ((...args: any[]) => unknown), skipSuccessfulRequests?: boolean, skipFailedRequests?: boolean }): void
  increment(key: string): Promise<{ totalHits: number, resetTime: Date | undefined }>
  get(key: string): Promise<{ totalHits: number, resetTime: Date | undefined } | undefined>
  /** Gives back the latest hit of the key that this program holds. */
  decrement(key: string): Promise<void>
  resetKey(key: string): Promise<void>
}

/** A storage for @nestjs/throttler 6. */
export class StintThrottlerStorage {
  constructor(stint: Stint, options?: LimiterOptions)
  increment(key: string, ttl: number, limit: number, blockDuration: number, throttlerName: string):
    Promise<{ totalHits: number, timeToExpire: number, isBlocked: boolean, timeToBlockExpire: number }>
}

/** As rate-limiter-flexible's RateLimiterRes. */
export class StintRateLimiterRes {
  readonly remainingPoints: number
  readonly msBeforeNext: number
  readonly consumedPoints: number
  readonly isFirstInDuration: boolean
}

export interface RateLimiterOptions extends LimiterOptions {
  storeClient: Stint
  points: number
  /** Seconds. */
  duration: number
  /** "rlflx" by default. */
  keyPrefix?: string
  /** Asked in place of Stint during an outage. */
  insuranceLimiter?: { consume(key: string | number, points?: number): Promise<any> }
}

/** Has the interface of rate-limiter-flexible. set, block and delete need adminUrl; reward always rejects. */
export class StintRateLimiter {
  constructor(options: RateLimiterOptions)
  readonly points: number
  readonly duration: number
  readonly keyPrefix: string
  getKey(key: string | number): string
  consume(key: string | number, points?: number): Promise<StintRateLimiterRes>
  penalty(key: string | number, points?: number): Promise<StintRateLimiterRes>
  reward(key: string | number, points?: number): Promise<StintRateLimiterRes>
  get(key: string | number): Promise<StintRateLimiterRes | null>
  set(key: string | number, points: number, seconds?: number): Promise<StintRateLimiterRes>
  block(key: string | number, seconds: number): Promise<StintRateLimiterRes>
  delete(key: string | number): Promise<boolean>
}

/** A request was not sent: it would have to wait too long, or Stint could not be asked. */
export class StintRefused extends Error {
  readonly decision: Decision
}

export interface FetchWithinOptions {
  /** The key to wait for; "host:" and the host by default. "" sends the request without asking. */
  key?: (request: Request) => string | undefined | Promise<string | undefined>
  policy?: string
  cost?: number | ((request: Request) => number)
  /** Milliseconds that a request waits at most; 60,000 by default. */
  maxWait?: number
  /** Milliseconds for which one answer with Retry-After holds the key at most; an hour by default. */
  maxHold?: number
  /** Called with each error of cancelling a reservation and of blocking a key. */
  onError?: (error: Error) => void
  /** Sends the requests; the global fetch by default. */
  fetch?: typeof fetch
}

/** Returns a fetch that stays within another service's limits: it waits until the limit allows it, together with all programs that use the same Stint. An
 * answer 429 or 503 with Retry-After holds the key: until then this fetch sends nothing with the key and, if the client has adminUrl,
 * no program is allowed it. */
export function fetchWithin(stint: Stint, options?: FetchWithinOptions): (input: RequestInfo | URL, init?: RequestInit) => Promise<Response>
