package cli

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

// combined returns the check of several keys as one, each under the policy and with
// the cost of check.
func combined(check wire.CheckRequest, keys []string) wire.KeysRequest {
	request := wire.KeysRequest{
		Peek: check.Peek, Detail: check.Detail, Source: check.Source, Meta: check.Meta,
		MaxWait: check.MaxWait, IdempotencyKey: check.IdempotencyKey,
	}
	for _, key := range keys {
		request.Keys = append(request.Keys, wire.KeyPart{Key: key, Policy: check.Policy, Cost: check.Cost})
	}
	return request
}

func (a *app) checkKeys(ctx context.Context, from *client.Client, request wire.KeysRequest) error {
	decision, err := from.CheckKeys(ctx, request)
	if err != nil {
		return err
	}
	if err := printKeysDecision(a.printer(), decision); err != nil {
		return err
	}
	for i := range decision.Decisions {
		a.warn(decision.Decisions[i].Warnings)
	}
	return refusedUnless(decision.Allowed)
}

var keyDecisionColumns = []output.Column[wire.Decision]{
	{Name: "key", Head: "Key", Cut: true, Cell: func(d wire.Decision) output.Cell { return output.Text(d.Key) }},
	{Name: "decision", Head: "Decision", Cell: func(d wire.Decision) output.Cell { return output.Text(d.Decision) }},
	{Name: "policy", Head: "Policy", Cell: func(d wire.Decision) output.Cell { return output.Text(string(d.Policy)) }},
	{Name: "rule", Head: "Rule", Cell: func(d wire.Decision) output.Cell { return output.Text(string(d.Rule)) }},
	{Name: "retry_at", Head: "Ask again", Cell: func(d wire.Decision) output.Cell { return output.Time(d.RetryAt.Time) }},
	{Name: "id", Head: "Refusal id", Drop: 1, Cell: func(d wire.Decision) output.Cell { return output.Text(string(d.ID)) }},
}

func printKeysDecision(p *output.Printer, d *wire.KeysDecision) error {
	switch p.Format {
	case output.JSON:
		return p.JSON(d)
	case output.CSV:
		return output.List(p, d.Decisions, keyDecisionColumns)
	}
	if d.Allowed {
		p.Sayf("Allowed by all keys.")
	} else {
		p.Sayf("Refused (%s). Nothing was charged to any key. %s", output.Escape(d.Decision), nextRequest(d.RetryAt.Time, p.Now))
	}
	if d.Degraded {
		p.Sayf("Degraded: %s", output.Escape(d.DegradedReason))
	}
	sayWaiting(p, d.Waiting, d.Replayed)
	p.Sayf("")
	return output.List(p, d.Decisions, keyDecisionColumns)
}

// sayWaiting prints how long to wait and the handle that cancels the reservation.
func sayWaiting(p *output.Printer, w *wire.Waiting, repeated bool) {
	if repeated {
		p.Sayf("Replayed: it was charged before, and nothing was charged now.")
	}
	if w == nil || w.DelayMS == 0 {
		return
	}
	wait := output.Duration(time.Duration(w.DelayMS) * time.Millisecond)
	if w.Reservation == nil {
		p.Sayf("It would have to wait %s.", wait)
		return
	}
	p.Sayf("Wait %s: reserved for %s.", wait, output.When(w.Reservation.At.Time, p.Now))
	p.Sayf("Handle %s", output.Escape(w.Reservation.Handle))
}
