// Package peers is a module of its own for what make bench-peers measures beside Stint, so
// that none of it enters Stint's own module: envoyproxy/ratelimit, a tool of this module,
// and redisrate, a handler over redis_rate.
package peers
