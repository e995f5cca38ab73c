// Package client asks a Stint server whether a key may do one more request.
//
//	stint, err := client.New("http://127.0.0.1:8080")
//	...
//	decision, err := stint.Check(ctx, client.Check{Key: "ip:203.0.113.7"})
//	switch {
//	case err != nil: // no decision: see Problem and OutageError
//	case !decision.Allowed: // not now: decision.RetryAfter says when
//	}
//
// A refusal is not an error: a refused check returns a Decision with Allowed set to
// false. An error means that there is no decision. WithOutage chooses what happens
// while Stint is unreachable.
//
// A Client checks keys (Check, CheckAll, Batch), reports the outcomes of requests
// (Report, ReportBatch), waits for reservations (Wait, WaitAll, Do) and cancels them
// (Cancel). With a token of the scope operate it can also block a key for a while
// (Hold). Transport makes an http.Client wait before it calls an API with limits, and
// Guard protects an http.Handler; package fibermw does the same for fiber.
//
// A call without an answer is repeated with the same idempotency key. A check is thus
// charged at most once, however often it is sent.
package client
