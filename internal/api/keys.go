package api

import (
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/proxies"
	"github.com/stint-dev/stint/internal/wire"
)

// keyHandler lists, explains and resets keys.
type keyHandler struct {
	common
	keys      *admin.Keys
	detection *admin.Detection
	origins   *operations.Origins
}

func (h *keyHandler) routes() []route {
	return []route{
		routes.Answers(wire.ExplainKey, h.explainKey),
		routes.Answers(wire.ResetKey, h.resetKey),
		routes.Answers(wire.EraseKey, h.eraseKey),
		routes.Answers(wire.ListActiveKeys, h.listActiveKeys),
		routes.Answers(wire.ListKeyRequests, h.listKeyRequests),
	}
}

func (h *keyHandler) explainKey(c *httpserver.Call, in wire.KeyUnder) (out wire.KeyExplanation, err error) {
	key, err := h.keys.Parse(c.Context(), in.Key)
	if err != nil {
		return out, err
	}
	x, err := h.keys.Explain(c.Context(), key, in.Policy)
	if err != nil {
		return out, err
	}
	out = fromExplanation(x, h.policyName)
	out.Origin = fromOrigin(h.origins.Of(c.Context(), out.Key))
	return out, nil
}

func (h *keyHandler) listKeyRequests(c *httpserver.Call, in wire.ByKey) (wire.KeyRequests, error) {
	key, err := h.keys.Parse(c.Context(), in.Key)
	if err != nil {
		return wire.KeyRequests{}, err
	}
	out := wire.KeyRequests{Key: key.String(), Requests: []wire.KeyRequest{}}
	all, isIncomplete, err := h.detection.KeyRequests(c.Context(), out.Key)
	out.Incomplete = isIncomplete
	for _, q := range all {
		out.Requests = append(out.Requests, wire.KeyRequest{
			At: wire.At(q.At), Method: q.Method, Path: q.Path, Agent: q.Agent, Host: q.Host, Decision: q.Outcome, Shadow: q.Shadow, Policy: q.Policy, Rule: q.Rule,
			Block: q.Block, Refusal: q.Refusal, Reported: q.Reported, Evidence: q.Evidence, Source: q.Source, Pass: q.Pass,
		})
	}
	return out, err
}

func (h *keyHandler) resetKey(c *httpserver.Call, in wire.KeyUnder) (out wire.KeyReset, err error) {
	reset, err := h.keys.Reset(c.Context(), callerOf(c), in.Key, in.Policy)
	if err != nil {
		return out, err
	}
	out = wire.KeyReset{Key: reset.Key.String(), Policies: []wire.LogReset{}}
	for _, l := range reset.Logs {
		out.Policies = append(out.Policies, wire.LogReset{Policy: l.Policy, Existed: l.Existed})
	}
	return out, nil
}

func (h *keyHandler) eraseKey(c *httpserver.Call, in wire.EraseKeyRequest) (wire.KeyErasure, error) {
	return h.keys.Erase(c.Context(), callerOf(c), in)
}

func (h *keyHandler) listActiveKeys(c *httpserver.Call, in wire.ActiveKeyList) (out wire.ActiveKeys, err error) {
	query := offences.ActiveQuery{Search: in.Search, NeverRefused: in.NeverRefused, Cursor: in.Cursor, Limit: in.Limit}
	if query.From, query.To, err = h.timesOf(in.TimeRange); err != nil {
		return out, err
	}
	if query.Policy, err = h.policyOf(in.Policy); err != nil {
		return out, err
	}
	if in.Pattern != "" {
		if query.Pattern, err = h.pattern("pattern", in.Pattern); err != nil {
			return out, err
		}
	}
	active, err := h.detection.ActiveKeys(c.Context(), query)
	if err != nil {
		return out, err
	}
	out = wire.ActiveKeys{From: wire.At(active.From), To: wire.At(active.To), Untracked: active.Untracked}
	out.Page = wire.NewPage(active.Rows, active.Next, func(k offences.ActiveKey) wire.ActiveKey {
		return wire.ActiveKey{Key: k.Key, Checks: k.Checks(), Allowed: k.Allowed, Limited: k.Limited, Blocked: k.Blocked}
	})
	total := int(active.Keys)
	out.Total = &total
	return out, nil
}

// fromExplanation returns an explanation as the API shows it. policyName returns the name of
// the policy of an automatic block.
func fromExplanation(x *admin.KeyExplanation, policyName func(id int64) string) wire.KeyExplanation {
	out := wire.KeyExplanation{
		Key: x.Key.String(), At: wire.At(x.At), Decision: string(x.Outcome), NextAllowedAt: wire.At(x.NextAllowed),
		Degraded: x.Degraded != "", DegradedReason: x.Degraded, Crawler: x.Crawler,
		Exemptions: []wire.Entry{}, Blocks: []wire.Entry{}, Conditional: []wire.KeyPolicy{}, Warnings: []string{},
		Plan: wire.NullString(x.Plan), OwnLimit: fromOwnLimit(x.OwnLimit, true),
		Policy: fromKeyPolicy(x, x.Enforcing), Shadow: fromKeyPolicy(x, x.Shadow),
		Escalation: fromEscalationStatus(x.Escalation), ShadowEscalation: fromEscalationStatus(x.ShadowEscalation),
	}
	if x.Remaining >= 0 {
		out.Remaining = &x.Remaining
	}
	if x.OwnLimit != nil && out.Policy != nil {
		out.Policy.Version = x.OwnLimit.PolicyVersion(x.Enforcing.Policy)
	}
	for _, px := range x.Conditional {
		policy := fromKeyPolicy(x, px)
		policy.Escalation = fromEscalationStatus(x.EscalationUnder(px))
		out.Conditional = append(out.Conditional, *policy)
	}
	for _, e := range x.Exemptions {
		out.Exemptions = append(out.Exemptions, fromEntry(e, policyName(e.PolicyID), x.At))
	}
	for _, b := range x.Blocks {
		out.Blocks = append(out.Blocks, fromEntry(b, policyName(b.PolicyID), x.At))
		if len(x.Exemptions) > 0 {
			out.Warnings = append(out.Warnings, "The block "+b.ID+" of "+b.Pattern.String()+
				" would refuse this key, but the exemption "+x.Exemptions[0].ID+" of "+x.Exemptions[0].Pattern.String()+" takes precedence.")
		}
	}
	if x.IsShared {
		out.Warnings = append(out.Warnings, proxies.AboutShared(x.Key))
	}
	if x.EscalationErr != nil {
		out.Warnings = append(out.Warnings, "The escalation of the key is unknown: the database is unreachable.")
	}
	return out
}

// fromKeyPolicy returns px as the API shows it. px is a part of x, or nil.
func fromKeyPolicy(x *admin.KeyExplanation, px *gate.PolicyExplanation) *wire.KeyPolicy {
	if px == nil {
		return nil
	}
	out := &wire.KeyPolicy{
		Name: px.Policy.Name, Version: px.Policy.Version, Mode: string(px.Policy.Mode), Algorithm: px.Policy.Algorithm, Options: fromOptions(px.Policy.Options),
		When: px.Policy.WhenDocument(), Outcome: px.Policy.Outcome, Scope: px.Policy.Scope, Pattern: wire.NullString(px.Pattern.String()),
		Allowed: px.Allowed, Decides: px == x.Limiting, RetryAt: wire.At(px.Answer.RetryAt), Rules: []wire.KeyRule{}, Timestamps: fromTimes(px.Timestamps),
	}
	out.Points = px.Points
	for _, c := range px.Charges {
		out.Charges = append(out.Charges, wire.KeyCharge{At: wire.At(c.At), For: c.For, Points: c.Points})
	}
	for _, h := range px.Holds {
		out.Holds = append(out.Holds, wire.OpenHold{Amount: h.Amount, TakenAt: wire.At(h.Taken), ExpiresAt: wire.At(h.Expires), Source: wire.NullString(h.Source)})
	}
	if px.Derived != nil {
		out.DerivedKey = px.Derived.String()
	}
	if rule, decides := px.DecidingRule(); decides {
		out.Rule = wire.NullString(rule.String())
	}
	for _, r := range px.Rules {
		out.Rules = append(out.Rules, wire.KeyRule{
			Rule: r.Rule.String(), Limit: r.Rule.Limit, WindowMS: r.Rule.WindowMS(),
			Used: r.Used, Remaining: r.Remaining, RetryAt: wire.At(r.RetryAt), NextExpiryAt: wire.At(r.NextExpiry),
		})
	}
	return out
}

// fromOrigin returns an origin as the API shows it, nil if nothing is known.
func fromOrigin(o operations.Origin) *wire.Origin {
	if o.IsZero() {
		return nil
	}
	return &wire.Origin{Country: o.Country, ASN: o.ASN, Network: o.Network, Host: o.Host}
}

func fromTimes(all []time.Time) []wire.Time {
	times := make([]wire.Time, len(all))
	for i, t := range all {
		times[i] = wire.At(t)
	}
	return times
}
