// Package wire declares the REST API: its operations (Op), what clients send and what they are
// answered. It imports no package of ours, so that the use cases, the server, the command line and
// the tests share it.
//
// Instants are RFC 3339 in UTC with milliseconds, durations are strings such as "24h"
// or "7d", fields ending in _ms are milliseconds, and what is absent is null.
// Types with rules of their own are those of the domain, and are converted into these.
package wire
