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
// A verdict is not an error: a refused check returns a Decision whose Allowed
// is false. An error means that there is no decision. Where it is Stint that
// could not be had, WithOutage chooses what happens in its place.
//
// A Client asks (Check, CheckAll, Batch), reports the outcomes of requests (Report,
// ReportBatch), waits for its reservation (Wait, WaitAll, Do)
// and gives reservations back (Cancel). With a token of the scope operate it holds keys
// (Hold). Transport makes an http.Client wait before
// it calls somebody else's API, and Guard protects a handler of one's own;
// package fibermw does the same for fiber.
//
// Calls whose answer was lost are repeated under the same idempotency key, so
// that a check is charged once at most however often it was sent.
package client
