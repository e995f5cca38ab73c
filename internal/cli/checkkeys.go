package cli

import (
	"context"
	"time"

	v1 "github.com/stint-dev/stint/internal/api/v1"
	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/output"
)

// together returns the check of several keys as one, each under the policy and
// with the cost that stand in check.
func together(check v1.CheckRequest, keys []string) v1.KeysRequest {
	request := v1.KeysRequest{
		Peek: check.Peek, Detail: check.Detail, Source: check.Source, Meta: check.Meta,
		MaxWait: check.MaxWait, IdempotencyKey: check.IdempotencyKey,
	}
	for _, key := range keys {
		request.Keys = append(request.Keys, v1.KeyPart{Key: key, Policy: check.Policy, Cost: check.Cost})
	}
	return request
}

func (a *app) checkKeys(ctx context.Context, from *client.Client, request v1.KeysRequest) error {
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

var partColumns = []output.Column[v1.Decision]{
	{Name: "key", Head: "Key", Cut: true, Cell: func(d v1.Decision) output.Cell { return output.Text(d.Key) }},
	{Name: "decision", Head: "Decision", Cell: func(d v1.Decision) output.Cell { return output.Text(d.Decision) }},
	{Name: "policy", Head: "Policy", Cell: func(d v1.Decision) output.Cell { return output.Text(string(d.Policy)) }},
	{Name: "rule", Head: "Rule", Cell: func(d v1.Decision) output.Cell { return output.Text(string(d.Rule)) }},
	{Name: "retry_at", Head: "Ask again", Cell: func(d v1.Decision) output.Cell { return output.Time(d.RetryAt.Time) }},
	{Name: "id", Head: "Refusal id", Drop: 1, Cell: func(d v1.Decision) output.Cell { return output.Text(string(d.ID)) }},
}

func printKeysDecision(p *output.Printer, d *v1.KeysDecision) error {
	switch p.Format {
	case output.JSON:
		return p.JSON(d)
	case output.CSV:
		return output.List(p, d.Decisions, partColumns)
	}
	if d.Allowed {
		p.Sayf("Allowed by all keys.")
	} else {
		p.Sayf("Refused (%s): nothing was charged to any key. %s", output.Escape(d.Decision), nextRequest(d.RetryAt.Time, p.Now))
	}
	if d.Degraded {
		p.Sayf("Degraded: %s", output.Escape(d.DegradedReason))
	}
	sayWaiting(p, d.Waiting, d.Replayed)
	p.Sayf("")
	return output.List(p, d.Decisions, partColumns)
}

// sayWaiting says how long to wait and how to cancels the reservation.
func sayWaiting(p *output.Printer, w *v1.Waiting, repeated bool) {
	if repeated {
		p.Sayf("It was charged before, and nothing was charged now.")
	}
	if w == nil || w.DelayMS == 0 {
		return
	}
	wait := output.Duration(time.Duration(w.DelayMS) * time.Millisecond)
	if w.Reservation == nil {
		p.Sayf("It would have to wait %s for its reservation.", wait)
		return
	}
	p.Sayf("Wait %s: its reservation is at %s.", wait, output.When(w.Reservation.At.Time, p.Now))
	p.Sayf("Handle %s", output.Escape(w.Reservation.Handle))
}
