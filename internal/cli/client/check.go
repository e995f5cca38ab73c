package client

import (
	"context"
	"mime"
	"net/url"

	"github.com/stint-dev/stint/internal/wire"
)

// Checks makes checks and cancels reservations.
type Checks struct{ conn *conn }

// Check checks whether a key may make one more request. A refusal is not an error.
func (c Checks) Check(ctx context.Context, check wire.CheckRequest) (*wire.Decision, error) {
	decision := &wire.Decision{}
	return decision, c.decide(ctx, check, decision)
}

// CheckKeys checks whether several keys combined may make one more request. A refusal is
// not an error.
func (c Checks) CheckKeys(ctx context.Context, check wire.KeysRequest) (*wire.KeysDecision, error) {
	decision := &wire.KeysDecision{}
	return decision, c.decide(ctx, check, decision)
}

func (c Checks) decide(ctx context.Context, check, decision any) error {
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	answer, err := c.conn.send(ctx, ask(wire.PathCheck, check))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if media, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); answer.StatusCode >= 300 && media != "application/json" {
		return readProblem(answer)
	}
	return decode(answer, decision)
}

// Settle ends a hold by its handle with what was used.
func (c Checks) Settle(ctx context.Context, handle string, s wire.Settlement) (*wire.SettledHold, error) {
	return call[wire.SettledHold](ctx, c.conn, ask(wire.PathHolds+"/"+url.PathEscape(handle), s))
}

// Extend renews a hold by its handle.
func (c Checks) Extend(ctx context.Context, handle string, e wire.Extension) (*wire.SettledHold, error) {
	return call[wire.SettledHold](ctx, c.conn, ask(wire.PathHolds+"/"+url.PathEscape(handle)+"/extend", e))
}

// Release ends a hold by its handle and charges nothing.
func (c Checks) Release(ctx context.Context, handle string) (*wire.SettledHold, error) {
	return call[wire.SettledHold](ctx, c.conn, release(wire.PathHolds+"/"+url.PathEscape(handle)))
}

// Report reports the outcome of a request.
func (c Checks) Report(ctx context.Context, report wire.OutcomeReport) (*wire.ReportedOutcome, error) {
	return call[wire.ReportedOutcome](ctx, c.conn, ask(wire.PathReport, report))
}

// Cancel cancels a reservation by its handle.
func (c Checks) Cancel(ctx context.Context, handle string) (*wire.Cancelled, error) {
	return call[wire.Cancelled](ctx, c.conn, release(wire.PathReservations+"/"+url.PathEscape(handle)))
}
