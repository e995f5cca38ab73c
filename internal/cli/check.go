package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/internal/cli/client"
	"github.com/stint-dev/stint/internal/cli/console"
	"github.com/stint-dev/stint/internal/cli/output"
	"github.com/stint-dev/stint/internal/wire"
)

func init() { addCommands(monitor, newCheck) }

func newCheck(con *console.Console) *cobra.Command {
	var check wire.CheckRequest
	var maxWait, hold durationFlag
	var cost amountFlag
	var chargeAlways bool
	var values []string
	c := &cobra.Command{
		Use:   "check KEY...",
		Short: "Check whether a key, or several combined, may make one more request",
		Long: `Ask the check listener whether a key may make one more request, as a gateway does.
An allowed check counts as a request of the key, unless --peek is given. Several keys are
checked as one: the check is allowed only if the policy of each key allows it, and
otherwise nothing is charged to any. With --max-wait a reservation within that time is
made, and the answer says how long to wait; to wait and then run a command, see 'run'.
With --hold the cost is held for that long; settle it with what was used, see 'hold'.
With --cancellable the answer has a handle that cancels what was charged, see 'reservation'.
With --charge-always the cost is usage that is already over: if it does not fit, the check
is refused, and as much as fits is charged.
The exit code is 0 if it is allowed and 3 if it is refused.`,
		Example: "admin check ip:203.0.113.7\nadmin check token:abc --cost 5 --peek\nadmin check ip:203.0.113.7 token:abc\n" +
			"admin check host:api.example.com --max-wait 30s\nadmin check ip:203.0.113.7 --policy search -o json\n" +
			"admin check ip:203.0.113.7 --path /.env --method GET\n" +
			"admin check ip:203.0.113.7 --scope login --value account=alice",
		Args: cobra.MinimumNArgs(1),
		RunE: checkOnline(con, func(c *cobra.Command, server *client.Client, args []string) error {
			// The request would omit a cost of 0, which then counts as the policy says.
			if check.Cost = cost.amount; cost.given && check.Cost < 1 {
				return console.Usagef("--cost is 0; it must be a whole number from 1 to %d", wire.MaxAmount)
			}
			if err := withinMaxWait(maxWait); err != nil {
				return err
			}
			if chargeAlways {
				check.Charge = wire.ChargeAlways
			}
			var err error
			if check.Values, err = namedValues(values); err != nil {
				return err
			}
			check.Detail, check.MaxWait = wire.DetailRules, maxWait.Duration
			check.Hold = hold.Duration
			if len(args) > 1 {
				return checkKeys(c.Context(), con, server, combined(check, args))
			}
			check.Key = args[0]
			decision, err := server.Checks.Check(c.Context(), check)
			if err != nil {
				return err
			}
			if err := printDecision(con.Printer(), decision); err != nil {
				return err
			}
			con.Warn(decision.Warnings)
			return refusedUnless(decision.Allowed)
		}),
	}
	c.Flags().Var(&maxWait, "max-wait", "reserve a time at most this far ahead, for example 30s, at most 1h")
	c.Flags().BoolVar(&check.Cancellable, "cancellable", false, "print a handle by which 'reservation delete' cancels what was charged")
	c.Flags().Var(&hold, "hold", "hold the cost for this long, 1s to 1d, until it is settled")
	c.Flags().StringVar(&check.IdempotencyKey, "idempotency-key", "", "a name for the request: a repeat within a minute is charged once")
	c.Flags().StringVar(&check.Policy, "policy", "", "the policy to check; the most specific match if omitted")
	c.Flags().Var(&cost, "cost", "the cost of the request, 1 to 1000; to 100000 with --charge-always, and more under policies that count amounts, for example 500k; what the policy says if omitted")
	c.Flags().BoolVar(&chargeAlways, "charge-always", false, "charge as much as fits where the check is refused")
	addRequestFlags(c, &check.Request)
	c.Flags().StringArrayVar(&values, "value", nil, "a further value of the request, for distinct rules and further keys: account=alice")
	c.Flags().BoolVar(&check.Peek, "peek", false, "answer only, and count nothing")
	return c
}

// addRequestFlags adds the flags with attributes of the request.
func addRequestFlags(c *cobra.Command, r *wire.RequestAttributes) {
	flags := c.Flags()
	flags.StringVar(&r.Path, "path", "", "the path of the request, for policies with conditions")
	flags.StringVar(&r.Method, "method", "", "the method of the request")
	flags.StringVar(&r.Agent, "agent", "", "the User-Agent of the request")
	flags.StringVar(&r.Host, "host", "", "the host of the request")
	flags.StringVar(&r.Scheme, "scheme", "", "http or https")
	flags.StringVar(&r.JA4, "ja4", "", "the JA4 fingerprint of the client's TLS")
	flags.StringToStringVar(&r.Headers, "header", nil, "a header, for example accept-language=de, or accept-language= for one that was not sent; may be repeated")
	flags.StringToStringVar(&r.Query, "query", nil, "a parameter of the query, like --header")
	flags.StringToStringVar(&r.Cookies, "cookie", nil, "a cookie, like --header")
	flags.StringVar(&r.Scope, "scope", "", "the part of the application that the request is for, for example login")
}

// withinMaxWait rejects a --max-wait that is too long before anything is sent.
func withinMaxWait(f durationFlag) error {
	if f.Duration > wire.MaxWait {
		return console.Usagef("--max-wait is %s; it must be at most %s", f.Duration, wire.MaxWait)
	}
	return nil
}

func refusedUnless(allowed bool) error {
	if allowed {
		return nil
	}
	return &console.ExitError{Code: console.Refused}
}

var decisionColumns = output.Columns("key, decision, policy, rule, retry_at, delay_ms, handle, degraded, id", output.Cells[*wire.Decision]{
	"delay_ms": func(d *wire.Decision) output.Cell { return delayCell(d.Waiting) },
	"handle":   func(d *wire.Decision) output.Cell { return handleCell(d.Waiting, d.Hold) },
})

var ruleStateColumns = output.Columns(`rule: Rule, remaining: Left, limit: Of, retry_after_ms: Would wait (right),
	reset_after_ms: Restored in (right)`, output.Cells[wire.RuleState]{
	"retry_after_ms": waitCell,
	"reset_after_ms": resetCell,
})

func waitCell(r wire.RuleState) output.Cell {
	switch {
	case r.RetryAfterMS == nil:
		return output.Words("never", "")
	case *r.RetryAfterMS == 0:
		return output.Words("now", "0")
	default:
		return output.Milliseconds(*r.RetryAfterMS)
	}
}

func resetCell(r wire.RuleState) output.Cell {
	if r.ResetAfterMS == 0 {
		return output.Words("now", "0")
	}
	return output.Milliseconds(r.ResetAfterMS)
}

func printDecision(p *output.Printer, d *wire.Decision) error {
	if p.Format != output.Table {
		return output.One(p, d, decisionColumns)
	}
	p.Sayf("%s", decisionSentence(d, p.Now))
	if d.Degraded {
		p.Sayf("Degraded: %s", output.Escape(d.DegradedReason))
	}
	if s := d.Shadow; s != nil {
		p.Sayf("The shadow policy %s would have decided: %s.", output.Escape(s.Policy), shadowOutcome(s))
	}
	sayWaiting(p, d.Waiting, d.Replayed)
	sayHold(p, d.Hold)
	if d.ID != "" {
		p.Sayf("Refusal id %s", output.Escape(string(d.ID)))
	}
	if len(d.Rules) == 0 {
		return nil
	}
	p.Sayf("")
	return output.List(p, d.Rules, ruleStateColumns)
}

// decisionSentence describes a decision in a sentence.
func decisionSentence(d *wire.Decision, now time.Time) string {
	policy := output.Escape(string(d.Policy))
	switch d.Decision {
	case wire.Allowed:
		return allowedSentence(d)
	case wire.Limited:
		why := ""
		if d.Evidence != "" {
			why = " " + output.Escape(d.Evidence)
		}
		return fmt.Sprintf("Limited by %s of policy %s.%s %s", output.Escape(string(d.Rule)), policy, why, nextRequest(d.RetryAt.Time, now))
	case wire.Blocked:
		return blockedSentence(d, now)
	default:
		return fmt.Sprintf("Unavailable: the log is unreachable, and policy %s refuses then.", policy)
	}
}

func allowedSentence(d *wire.Decision) string {
	switch {
	case d.Exemption != nil:
		return fmt.Sprintf("Allowed: %s is exempt (%s).", output.Escape(d.Exemption.Pattern), output.Escape(d.Exemption.Reason))
	case d.Policy == "":
		return "Allowed: no policy applies to this key."
	default:
		return fmt.Sprintf("Allowed by policy %s.", output.Escape(string(d.Policy)))
	}
}

func blockedSentence(d *wire.Decision, now time.Time) string {
	until := "permanently"
	if !d.RetryAt.IsZero() {
		until = "until " + output.When(d.RetryAt.Time, now)
	}
	if d.Block == nil {
		return fmt.Sprintf("Blocked %s.", until)
	}
	return fmt.Sprintf("Blocked %s: %s (%s, block %s).", until,
		output.Escape(d.Block.Reason), output.Escape(d.Block.Pattern), output.Escape(d.Block.ID))
}

func nextRequest(at, now time.Time) string {
	if at.IsZero() {
		return "Waiting never helps."
	}
	return "The next request is allowed at " + output.When(at, now) + "."
}

func shadowOutcome(s *wire.Shadow) string {
	if s.Rule == "" {
		return s.Decision
	}
	return s.Decision + " by " + output.Escape(string(s.Rule))
}

// combined returns the check of several keys as one, each under the policy and with
// the cost of check.
func combined(check wire.CheckRequest, keys []string) wire.KeysRequest {
	request := wire.KeysRequest{
		Peek: check.Peek, Detail: check.Detail, Source: check.Source, Meta: check.Meta, Request: check.Request, Values: check.Values,
		MaxWait: check.MaxWait, Cancellable: check.Cancellable, Hold: check.Hold, IdempotencyKey: check.IdempotencyKey, Charge: check.Charge,
	}
	for _, key := range keys {
		request.Keys = append(request.Keys, wire.KeyPart{Key: key, Policy: check.Policy, Cost: check.Cost})
	}
	return request
}

func checkKeys(ctx context.Context, con *console.Console, server *client.Client, request wire.KeysRequest) error {
	decision, err := server.Checks.CheckKeys(ctx, request)
	if err != nil {
		return err
	}
	if err := printKeysDecision(con.Printer(), decision, request.Charge); err != nil {
		return err
	}
	for i := range decision.Decisions {
		con.Warn(decision.Decisions[i].Warnings)
	}
	return refusedUnless(decision.Allowed)
}

var keyDecisionColumns = output.Columns(`key: Key (cut), decision: Decision, policy: Policy, rule: Rule, retry_at: Ask again, delay_ms,
	handle, degraded, id: Refusal id (drop 1)`, output.Cells[wire.Decision]{
	"delay_ms": func(d wire.Decision) output.Cell { return delayCell(d.Waiting) },
	"handle":   func(d wire.Decision) output.Cell { return handleCell(d.Waiting, d.Hold) },
})

func printKeysDecision(p *output.Printer, d *wire.KeysDecision, charge string) error {
	switch p.Format {
	case output.JSON:
		return p.JSON(d)
	case output.CSV:
		rows := slices.Clone(d.Decisions)
		for i := range rows {
			rows[i].Waiting, rows[i].Hold = d.Waiting, d.Hold // they are those of all keys
		}
		return output.List(p, rows, keyDecisionColumns)
	}
	switch {
	case d.Allowed:
		p.Sayf("Allowed by all keys.")
	case charge == wire.ChargeAlways:
		p.Sayf("Refused (%s). What fits was charged to each key. %s", output.Escape(d.Decision), nextRequest(d.RetryAt.Time, p.Now))
	default:
		p.Sayf("Refused (%s). Nothing was charged to any key. %s", output.Escape(d.Decision), nextRequest(d.RetryAt.Time, p.Now))
	}
	if d.Degraded {
		p.Sayf("Degraded: %s", output.Escape(d.DegradedReason))
	}
	sayWaiting(p, d.Waiting, d.Replayed)
	sayHold(p, d.Hold)
	p.Sayf("")
	return output.List(p, d.Decisions, keyDecisionColumns)
}

func delayCell(w *wire.Waiting) output.Cell {
	if w == nil {
		return output.Cell{}
	}
	return output.Milliseconds(w.DelayMS)
}

// handleCell has the handle of a reservation or a hold.
func handleCell(w *wire.Waiting, h *wire.Hold) output.Cell {
	if h != nil {
		return output.Text(h.Handle)
	}
	if w == nil || w.Reservation == nil {
		return output.Cell{}
	}
	return output.Text(w.Reservation.Handle)
}

// sayWaiting prints how long to wait and the handle that cancels the reservation.
func sayWaiting(p *output.Printer, w *wire.Waiting, repeated bool) {
	if repeated {
		p.Sayf("Replayed: it was charged before, and nothing was charged now.")
	}
	if w == nil || w.DelayMS == 0 && w.Reservation == nil {
		return
	}
	if w.DelayMS == 0 {
		p.Sayf("Handle %s", output.Escape(w.Reservation.Handle))
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
