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

test('CommonJS can require the package', () => {
  const required = createRequire(import.meta.url)('../index.js')
  assert.equal(required.Stint, Stint)
})
