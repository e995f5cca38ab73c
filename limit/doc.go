// Package limit counts requests exactly, in your process or on your Redis, without a server. It is the log of Stint with the words of golang.org/x/time/rate: a limiter has a stack of
// rules that must all allow a request, and never lets more than N through in any window.
//
//	api, err := limit.New(limit.Memory(), "api", "1/s", "20/min", "200/h")
//	...
//	result, err := api.Allow(ctx, "user:42")
//	switch {
//	case err != nil: // Redis does not answer, or the key is not valid: decide yourself
//	case !result.Allowed: // not now: result.RetryAfter says when
//	}
//
// Rules and keys are written as those of a Stint server: "20/min", "16 concurrent", "1M tokens/1d",
// "1000/calendar-month"; "ip:2001:db8::1" is counted by its /64. A refused request uses nothing.
//
// Any number of processes share the counts of limiters with one name on one Redis, and only Redis's
// clock counts. Redis 7 or newer, or Valkey, is needed, and a maxmemory-policy of noeviction:
// Redis would delete counts otherwise. A server of Stint may use the same Redis, even with the same
// prefix; it counts by itself, since its policies have numbers of their own.
//
// What needs more than counts is left to the server and the package client: blocks, escalation, evidence, reports,
// an operator who sees and changes something.
package limit
