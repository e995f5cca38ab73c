import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import test from 'node:test'
import { Stint, StintError } from '../index.js'
import { connect, fresh, nobody, policy } from './support.js'

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

test('CommonJS can require the package', () => {
  const required = createRequire(import.meta.url)('../index.js')
  assert.equal(required.Stint, Stint)
})
