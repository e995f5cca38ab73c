// What clients choose of a request, as the server takes it.

/** Returns the attributes of a request, cut to what the server takes, so that no client has its check or its report
 * refused. Other members stay as they are. */
export function cutAttributes({ path, method, agent, host, ...rest }) {
  return { ...rest, path: cut(plainPath(path), 8192), method: cut(method, 32), agent: cut(agent, 2048), host: cut(host, 255) }
}

/** Returns meta as the server takes it. */
export function cutMeta(meta) {
  if (meta === undefined || meta === null) return undefined
  if (!isObject(meta)) return meta // which the server refuses, as a mistake of the application
  return Object.fromEntries(Object.entries(meta).map(([name, value]) => [name, cut(textOf(value), 256) ?? textOf(value)]))
}

/** Returns a check or a report with all that clients choose cut to what the server takes. */
export function cutTexts(question) {
  const { request, meta, values } = question
  const fitting = { ...question, meta: cutMeta(meta) }
  if (isObject(request)) fitting.request = cutAttributes(request)
  if (isObject(values)) fitting.values = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, cutValue(textOf(value))]))
  return fitting
}

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value)

// Returns a path in its plain spelling where it is long, so that no padding of slashes and dots hides what it leads to.
// %2F stays, as the routers of Node.js do not take it for a slash.
function plainPath(target) {
  const text = typeof target === 'string' ? target.split('?', 1)[0] : undefined
  if (text === undefined || Buffer.byteLength(text) <= 8192) return text
  const bytes = Buffer.from(text.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/]*/i, ''), 'utf8').toString('latin1')
  const parts = []
  for (const part of bytes.replace(/%(?!2f)([0-9a-f]{2})/gi, (_, code) => String.fromCharCode(parseInt(code, 16))).split('/')) {
    if (part === '..') parts.pop()
    else if (part !== '' && part !== '.') parts.push(part)
  }
  const escape = (piece) => piece.replace(/[^\w.~/-]/g, (char) => `%${char.charCodeAt(0).toString(16).padStart(2, '0')}`)
  return `/${parts.join('/').split(/%2f/i).map(escape).join('%2F')}`
}

// Returns a text of at most so many bytes without control characters, undefined for none.
function cut(text, most) {
  if (typeof text !== 'string' || text === '') return undefined
  if (text.length <= most && /^[ -~]*$/.test(text)) return text
  const bytes = Buffer.from(text.replace(/\p{Cc}/gu, '\ufffd')) // what is no Unicode becomes U+FFFD
  let end = Math.min(bytes.length, most)
  while (end < bytes.length && (bytes[end] & 0xc0) === 0x80) end--
  return bytes.toString('utf8', 0, end)
}

// Returns a value as a text: of a JSON body, clients choose the types too.
function textOf(value) {
  if (typeof value === 'string' || value === undefined) return value
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

const maxValue = 2048 // bytes
const maxEncoded = 2 * maxValue // bytes in JSON, where a control character has six: eight values must fit into a check

// Returns a value without what is no Unicode, cut to what is sent of it.
function cutValue(value) {
  if (value === undefined) return undefined
  const text = Buffer.from(value.slice(0, maxValue)).subarray(0, maxValue).toString()
  const sizeOf = (part) => Buffer.byteLength(JSON.stringify(part)) - 2
  if (sizeOf(text) <= maxEncoded) return text
  let size = 0
  let end = 0
  for (const char of text) {
    size += sizeOf(char)
    if (size > maxEncoded) break
    end += char.length
  }
  return text.slice(0, end)
}
