package api

import (
	"context"
	"mime"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

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
	return *trial, nil
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
	return wire.PresetPreview{Name: in.Name, Traps: append([]wire.TrapPreview{}, previews...)}, nil
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
	return *trial, nil
}
