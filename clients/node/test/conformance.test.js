import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import test from 'node:test'
import { Stint, StintError } from '../index.js'
import { checkUrl, nobody } from './support.js'

const { conversations, faults } = JSON.parse(readFileSync(new URL('../../conformance/cases.json', import.meta.url)))

function filled(value, name) {
  if (typeof value === 'string') return value.replaceAll('$', name).replace(/@(\d+)/g, (_, n) => 'x'.repeat(Number(n)))
  if (Array.isArray(value)) return value.map((part) => filled(part, name))
  if (typeof value === 'object' && value !== null) return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, filled(part, name)]))
  return value
}

function expect(want, result, onOutage, what) {
  if (want.error) {
    assert.ok(result instanceof StintError, what)
    assert.deepEqual({ status: result.status, field: result.field }, want.error, what)
  } else if ('refuses' in want) {
    assert.equal(result.policies?.some(({ refuses }) => refuses), want.refuses, what)
  } else if (want.outage) {
    assert.ok(result.outage, what)
    assert.deepEqual([result.decision, result.allowed], onOutage === 'open' ? ['allowed', true] : ['unavailable', false], what)
  } else {
    assert.equal(result.outage, undefined, what)
    assert.equal(result.decision, want.decision, what)
    if (want.challenged) assert.deepEqual([result.allowed, result.reason], [false, 'challenged'], what)
    if ('remaining' in want) assert.equal(result.rules[0].remaining, want.remaining, what)
  }
}

for (const onOutage of ['open', 'closed']) {
  for (const { name, steps } of conversations) {
    test(`${name}, failing ${onOutage}`, async () => {
      const stint = new Stint(checkUrl, { onOutage, timeout: 60_000 })
      for (const { check, report, want } of filled(steps, randomUUID())) {
        const result = await (report ? stint.report(report) : stint.check(check)).catch((error) => error)
        expect(want, result, onOutage, JSON.stringify(check ?? report).slice(0, 200))
      }
    })
  }
  faults.forEach(({ name, server, timeout_ms: timeout = 60_000, want }, index) => {
    test(`${name}, failing ${onOutage}`, async () => {
      const url = server.kind === 'nobody' ? nobody : `${process.env.STINT_FAULTS_URL}/${index}`
      const result = await new Stint(url, { onOutage, timeout }).check({ key: 'conformance:fault' }).catch((error) => error)
      expect(want, result, onOutage, String(result.outage))
    })
  })
}
