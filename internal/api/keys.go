package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offenders"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/wire"
)

// keyHandler explains and resets keys.
type keyHandler struct {
	common
	gate      *gate.Gate
	logs      []timestamplog.Log
	offenders *offenders.Service
	recorder  audit.Recorder
}

func (h *keyHandler) routes() []route {
	return []route{
		onAdmin(get, wire.PathKeys, identity.Read, h.explainKey, opExplainKey),
		onAdmin(del, wire.PathKeys, identity.Operate, h.resetKey, opResetKey),
	}
}

var (
	opExplainKey = &openapi.Operation{ID: "explainKey", Tag: "keys", Summary: "What applies to a key now, and why?", Query: keyParams, Answers: ok("The explanation.", wire.KeyExplanation{})}
	opResetKey   = &openapi.Operation{ID: "resetKey", Tag: "keys", Summary: "Forget what a key has used, under one policy or all.", Query: keyParams, Answers: ok("What was forgotten.", wire.KeyReset{})}
)

// readKey reads ?key= and ?policy= of the routes about one key.
func (h *keyHandler) readKey(c *httpserver.Call) (keys.Key, string, error) {
	q := c.ParseQuery("key", "policy")
	if q.Err() == nil && !q.Given("key") {
		q.Fail("key", "is missing; send for example ?key=ip:203.0.113.7")
	}
	policy := q.Line("policy")
	if q.Given("policy") && policy == "" {
		q.Fail("policy", "is empty; leave it out instead")
	}
	if q.Err() != nil {
		return keys.Key{}, "", q.Err()
	}
	key, err := h.key(q.Raw("key"))
	return key, policy, err
}

func (h *keyHandler) explainKey(c *httpserver.Call) error {
	key, policy, err := h.readKey(c)
	if err != nil {
		return err
	}
	ctx := c.Context()
	x, err := h.gate.Explain(ctx, key, policy)
	if err != nil {
		return err
	}
	out := fromExplanation(x, h.policyName)
	enforcing, shadow, err := h.offenders.EscalationStatus(ctx, key)
	if err != nil {
		// The escalation needs the database, the verdict does not.
		out.Warnings = append(out.Warnings, "Where the key stands in the escalation is not known: the database is unreachable.")
	}
	out.Escalation, out.ShadowEscalation = fromEscalationStatus(enforcing), fromEscalationStatus(shadow)
	return c.SendJSON(http.StatusOK, out)
}

// resetKey forgets what a key has used, under one policy or all. The audit is
// written first: nothing is forgotten that nobody answers for.
func (h *keyHandler) resetKey(c *httpserver.Call) error {
	key, name, err := h.readKey(c)
	if err != nil {
		return err
	}
	policies, err := h.policiesToReset(name)
	if err != nil {
		return err
	}
	ctx := c.Context()
	scope := "all policies"
	if name != "" {
		scope = "the policy " + name
	}
	if err := h.recorder.AddRecord(ctx, audit.Record{
		Actor: c.Actor(), Action: "key.reset", Object: "key", ObjectID: key.String(),
		Summary: "Reset what " + key.String() + " has used under " + scope,
	}); err != nil {
		return err
	}
	answer := wire.KeyReset{Key: key.String(), Policies: []wire.LogReset{}}
	for _, p := range policies {
		held, err := h.reset(ctx, timestamplog.LogIDOf(p, key.String()))
		if err != nil {
			return err
		}
		answer.Policies = append(answer.Policies, wire.LogReset{Policy: p.Name, Existed: held})
	}
	return c.SendJSON(http.StatusOK, answer)
}

func (h *keyHandler) policiesToReset(name string) ([]*rules.Policy, error) {
	selector := h.catalog.Selector()
	if name == "" {
		all := selector.Policies()
		slices.SortFunc(all, func(a, b *rules.Policy) int { return strings.Compare(a.Name, b.Name) })
		return all, nil
	}
	p, found := selector.ByName(name)
	if !found {
		return nil, fault.Field("policy", "there is no policy of that name; leave it out to reset the key under all")
	}
	return []*rules.Policy{p}, nil
}

// reset forgets one log wherever it is kept.
func (h *keyHandler) reset(ctx context.Context, ref timestamplog.LogID) (held bool, err error) {
	for _, log := range h.logs {
		had, err := log.Reset(ctx, ref)
		if errors.Is(err, timestamplog.ErrUnreachable) {
			return held, &fault.Error{Code: fault.Unavailable, Message: "The timestamp log is unreachable; the key may not be reset everywhere, so repeat it.", Err: err}
		}
		if err != nil {
			return held, err
		}
		held = held || had
	}
	return held, nil
}

// fromExplanation returns an explanation as the API shows it. policyName names
// the policy of an automatic block.
func fromExplanation(x *gate.Explanation, policyName func(id int64) string) wire.KeyExplanation {
	out := wire.KeyExplanation{
		Key: x.Key.String(), At: wire.At(x.At), Decision: string(x.Outcome), NextAllowedAt: wire.At(x.NextAllowed),
		Degraded: x.Degraded != "", DegradedReason: x.Degraded,
		Exemptions: []wire.Entry{}, Blocks: []wire.Entry{}, Warnings: []string{},
		Policy: fromKeyPolicy(x.Enforcing), Shadow: fromKeyPolicy(x.Shadow),
	}
	for _, e := range x.Exemptions {
		out.Exemptions = append(out.Exemptions, fromEntry(e, policyName(e.PolicyID), x.At))
	}
	for _, b := range x.Blocks {
		out.Blocks = append(out.Blocks, fromEntry(b, policyName(b.PolicyID), x.At))
		if len(x.Exemptions) > 0 {
			out.Warnings = append(out.Warnings, "The block "+b.ID+" of "+b.Pattern.String()+
				" would refuse this key, but the exemption "+x.Exemptions[0].ID+" of "+x.Exemptions[0].Pattern.String()+" hides it.")
		}
	}
	return out
}

func fromKeyPolicy(px *gate.PolicyExplanation) *wire.KeyPolicy {
	if px == nil {
		return nil
	}
	out := &wire.KeyPolicy{
		Name: px.Policy.Name, Version: px.Policy.Version, Mode: string(px.Policy.Mode), Algorithm: px.Policy.Algorithm, Options: fromOptions(px.Policy.Options), Pattern: wire.NullString(px.Pattern.String()),
		Allowed: px.Allowed, RetryAt: wire.At(px.Answer.RetryAt), Rules: []wire.KeyRule{}, Timestamps: fromTimes(px.Timestamps),
	}
	if i := px.Answer.Rule; i >= 0 && i < len(px.Policy.Rules) {
		out.Rule = wire.NullString(px.Policy.Rules[i].String())
	}
	for _, r := range px.Rules {
		out.Rules = append(out.Rules, wire.KeyRule{
			Rule: r.Rule.String(), Limit: r.Rule.Limit, WindowMS: r.Rule.WindowMS(),
			Used: r.Used, Remaining: r.Remaining, RetryAt: wire.At(r.RetryAt), NextExpiryAt: wire.At(r.NextExpiry),
		})
	}
	return out
}

func fromTimes(all []time.Time) []wire.Time {
	times := make([]wire.Time, len(all))
	for i, t := range all {
		times[i] = wire.At(t)
	}
	return times
}
