import { createHash } from 'node:crypto'

/** Returns the hash that keys contain in place of a secret: 32 hexadecimal digits, as /v1/forward makes them. */
export const hashOf = (secret) => createHash('sha256').update(secret).digest('hex').slice(0, 32)
