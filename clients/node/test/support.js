// The node that the tests ask. Who runs them, go test ./test/clients, starts it and says where it is.
import { randomUUID } from 'node:crypto'
import { Stint } from '../index.js'

const { STINT_CHECK_URL, STINT_ADMIN_URL, STINT_ADMIN_TOKEN } = process.env
export { STINT_CHECK_URL as checkUrl, STINT_ADMIN_URL as adminUrl, STINT_ADMIN_TOKEN as adminToken }

export const nobody = 'http://127.0.0.1:1' // where no server listens
export const fresh = (kind = 'k') => `${kind}:${randomUUID()}`

/** Returns a client that waits long: a busy machine must not look like an outage. */
export const connect = (options = {}) => new Stint(STINT_CHECK_URL, { timeout: 60_000, adminUrl: STINT_ADMIN_URL, adminToken: STINT_ADMIN_TOKEN, ...options })

export async function admin(method, path, body) {
  const answer = await fetch(STINT_ADMIN_URL + path, {
    method, body: JSON.stringify(body), headers: { authorization: `Bearer ${STINT_ADMIN_TOKEN}`, 'content-type': 'application/json' },
  })
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`)
  return answer.json()
}

const made = new Map()

/** Makes a policy of its own name, once. */
export function policy(match, rules, more = {}) {
  const id = JSON.stringify([match, rules, more])
  if (!made.has(id)) {
    const name = `p${randomUUID().slice(0, 13)}`
    made.set(id, admin('PUT', `/v1/policies/${name}?confirm=${name}`, { match: [match], rules, ...more }))
  }
  return made.get(id)
}

/** Serves a handler of node:http for a test, and returns its URL. */
export async function serve(t, server) {
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  t.after(() => server.closeAllConnections?.())
  t.after(() => server.close())
  return `http://127.0.0.1:${server.address().port}`
}
