// Prints what a guard of clients/node adds to a request, and what a bare request on a connection that is
// kept alive takes, in microseconds: both ask the check listener whose URL is the argument, alternately.
import http from 'node:http'
import { Stint, fetchGuard } from '../../clients/node/index.js'

const url = process.argv[2]
const agent = new http.Agent({ keepAlive: true })
const body = JSON.stringify({ key: 'guarded:a' })

const bare = () =>
  new Promise((resolve, reject) => {
    const headers = { 'Content-Type': 'application/json', 'Content-Length': body.length }
    const request = http.request(`${url}/v1/check`, { method: 'POST', agent, headers }, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (part) => { text += part })
      response.on('end', () => (response.statusCode === 200 ? resolve(JSON.parse(text)) : reject(new Error(text))))
    })
    request.on('error', reject)
    request.end(body)
  })

const request = new Request('http://site.example/')
const response = new Response('Hello')
const guarded = fetchGuard(new Stint(url, { timeout: 5000 }), { key: () => 'guarded:a' }, () => response)
const handled = async () => {
  const answer = await guarded(request)
  if (answer.status !== 200) throw new Error(`the guard answered ${answer.status}: ${await answer.text()}`)
}

async function microseconds(ask, n) {
  const began = process.hrtime.bigint()
  for (let i = 0; i < n; i++) await ask()
  return Number(process.hrtime.bigint() - began) / 1000 / n
}

const median = (all) => all.sort((a, b) => a - b)[(all.length - 1) / 2]
const taken = { handled: [], bare: [] }
for (const ask of [handled, bare]) await microseconds(ask, 2000) // warms up
for (let i = 0; i < 7; i++) {
  taken.handled.push(await microseconds(handled, 2000))
  taken.bare.push(await microseconds(bare, 2000))
}
console.log(median(taken.handled).toFixed(1), median(taken.bare).toFixed(1))
