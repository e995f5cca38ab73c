// Signs requests as a bot does, by two implementations that are not Stint's: web-bot-auth as the drafts had
// it first, and http-message-sig the member of a dictionary. Reads a list of requests from its input and
// prints the headers of each.
import { readFileSync } from 'node:fs'
import { component, createSignature, webcrypto } from 'http-message-sig-0.3'
import { generateNonce, signatureHeaders } from 'web-bot-auth'
import { signerFromJWK } from 'web-bot-auth/crypto'

const headers = []
for (const { url, agent, jwk, created, expires } of JSON.parse(readFileSync(0, 'utf8'))) {
  const request = new Request(url, { headers: { 'Signature-Agent': agent } })
  const key = /^(\w+)=/.exec(agent)?.[1]
  const bot = await signerFromJWK(jwk)
  let signed
  if (key) {
    const signer = webcrypto.signer(await crypto.subtle.importKey('jwk', jwk, 'Ed25519', false, ['sign']))
    const fields = await createSignature(request, {
      label: 'sig1', signer, components: ['@authority', component('signature-agent', { key })],
      parameters: { created, expires, keyid: bot.keyid, alg: 'ed25519', nonce: generateNonce(), tag: 'web-bot-auth' },
    })
    signed = { 'Signature-Input': fields.signatureInput, Signature: fields.signature }
  } else {
    signed = await signatureHeaders(request, bot, { created: new Date(created * 1000), expires: new Date(expires * 1000) })
  }
  headers.push({ 'Signature-Agent': agent, ...signed })
}
console.log(JSON.stringify(headers))
