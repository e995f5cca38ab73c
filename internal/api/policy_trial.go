package api

import (
	"context"
	"mime"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/presets"
	"github.com/stint-dev/stint/internal/wire"
)

// defaultTrialSpan is the time range of a trial if the request names none.
const defaultTrialSpan = 24 * time.Hour

// tryPolicy tries a policy on the recorded traffic.
func (h *policyHandler) tryPolicy(c *httpserver.Call, in wire.PolicyTrialOf) (out wire.PolicyTrial, err error) {
	draft, err := policyOf(&in.PolicyRequest, h.catalog.Parser(), in.Policy)
	if err != nil {
		return out, err
	}
	trial, err := h.policies.Try(c.Context(), draft, trialSpan(time.Duration(in.Last)))
	if err != nil {
		return out, err
	}
	return fromPolicyTrial(draft.Name, trial), nil
}

// trialSpan returns how far a trial looks back.
func trialSpan(last time.Duration) time.Duration {
	if last == 0 {
		return defaultTrialSpan
	}
	return last
}

// previewPreset answers with the requests that the traps of a preset would have caught.
func (h *policyHandler) previewPreset(c *httpserver.Call, in wire.PresetPreviewOf) (out wire.PresetPreview, err error) {
	preset, found := presets.Find(in.Name)
	if !found {
		return out, fault.New(fault.NotFound, "There is no preset %q; there are %s.", in.Name, strings.Join(presets.Names(), ", "))
	}
	previews, err := h.policies.PreviewTraps(c.Context(), preset.Policies, trialSpan(in.Last.Std()))
	if err != nil {
		return out, err
	}
	out = wire.PresetPreview{Name: in.Name, Traps: make([]wire.TrapPreview, len(previews))}
	for i := range previews {
		out.Traps[i] = fromTrapPreview(&previews[i])
	}
	return out, nil
}

// fromTrapPreview returns a preview as the API shows it.
func fromTrapPreview(t *admin.TrapPreview) wire.TrapPreview {
	out := wire.TrapPreview{
		Policy: t.Policy, FirstAt: wire.At(t.First), LastAt: wire.At(t.Last), SampleRatio: t.Ratio,
		Keys: t.Keys, Requests: t.Requests, WithPath: t.WithPath, LeftOut: t.LeftOut,
		Caught: t.Caught, CaughtKeys: t.CaughtKeys, RefusedNow: t.RefusedNow, Other: t.Other, OtherKeys: t.OtherKeys, BlockedKeys: t.BlockedKeys,
		Entries: make([]wire.TrapEntry, len(t.Entries)), Top: fromTrappedKeys(t.Top), TopOther: fromTrappedKeys(t.TopOther), Note: wire.NullString(t.Note),
	}
	for i, e := range t.Entries {
		out.Entries[i] = wire.TrapEntry(e)
	}
	return out
}

func fromTrappedKeys(all []admin.TrappedKey) []wire.TrappedKey {
	out := make([]wire.TrappedKey, len(all))
	for i, k := range all {
		out[i] = wire.TrappedKey{Key: k.Key, Caught: k.Caught, Other: k.Other, Blocked: k.IsBlocked}
	}
	return out
}

// backtestPolicy tries a policy on an access log.
func (h *policyHandler) backtestPolicy(c *httpserver.Call, in wire.PolicyBacktestOf) (out wire.PolicyTrial, err error) {
	media, params, err := mime.ParseMediaType(string(c.Request().Header.ContentType()))
	if err != nil || media != fiber.MIMEMultipartForm {
		return out, fault.New(fault.Unsupported, "Send a form with the header Content-Type: multipart/form-data.")
	}
	form, err := httpserver.ReadUpload(c.Ctx, params["boundary"])
	if err != nil {
		return out, err
	}
	if !form.Fields.Has("policy") {
		return out, fault.Field("policy", "is missing; send the policy as a field before the file")
	}
	var request wire.PolicyRequest
	if err := httpserver.UnmarshalStrict([]byte(form.Fields.Get("policy")), &request); err != nil {
		return out, within("policy", err)
	}
	draft, err := policyOf(&request, h.catalog.Parser(), in.Policy)
	if err != nil {
		return out, within("policy", err)
	}
	if !form.HasFile() {
		return out, fault.Field("log", "is missing; send the access log as a file, after the field policy")
	}
	trial, err := h.policies.Backtest(context.WithoutCancel(c.Context()), draft, escape.Log(escape.Clip(form.Name, 80)), form)
	if err != nil {
		return out, err
	}
	return fromPolicyTrial(in.Policy, trial), nil
}

// fromPolicyTrial returns a trial as the API shows it.
func fromPolicyTrial(name string, t *admin.PolicyTrial) wire.PolicyTrial {
	out := wire.PolicyTrial{
		Name: name, Estimate: t.Estimate, FirstAt: wire.At(t.First), LastAt: wire.At(t.Last),
		Requests: t.Requests, Refused: t.Refused, RefusedByDraft: t.ByDraft, RefusedNow: t.RefusedNow, Rules: []wire.TriedRule{},
		NewlyRefused: fromTriedKeys(t.NewlyRefused), MoreRefused: fromTriedKeys(t.MoreRefused),
		LessRefused: fromTriedKeys(t.LessRefused), NewlyAllowed: fromTriedKeys(t.NewlyAllowed), Warnings: t.Warnings,
	}
	for _, r := range t.Rules {
		out.Rules = append(out.Rules, wire.TriedRule(r))
	}
	if t.Trap != nil {
		preview := fromTrapPreview(t.Trap)
		out.Trap = &preview
	}
	if t.Log != nil {
		log := wire.TriedLog(*t.Log)
		out.Log = &log
	}
	return out
}

func fromTriedKeys(k admin.TriedKeys) wire.TriedKeys {
	out := wire.TriedKeys{Requests: k.Requests, Keys: k.Keys, Top: []wire.TriedKey{}}
	for _, key := range k.Top {
		out.Top = append(out.Top, wire.TriedKey(key))
	}
	return out
}
