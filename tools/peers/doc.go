// Package peers is a module of its own for what make bench-peers measures beside Stint, so
// that none of it enters Stint's own module: envoyproxy/ratelimit, a tool of this module,
// redisrate, a handler over redis_rate, and gubernator, a node of Gubernator.
package peers
