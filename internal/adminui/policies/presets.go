package policies

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/presets"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

const presetsPath = "/presets"

// presetHandler shows and applies presets.
type presetHandler struct{ *Handler }

// presetsPage shows the policy files that Stint ships, and what one would change.
type presetsPage struct {
	site.Frame
	Presets []presets.Preset
	Preset  presets.Preset
	Changes []presetChange
	Changed int  // number of Changes with an effect
	Shadow  bool // apply the policies in shadow mode
	// Traps are what the traps of the preset would have caught. They are empty for a preset
	// without traps, and for users who cannot apply presets. TrapProblem is why they are
	// unknown, "" if they are known.
	Traps       []trapPreview
	TrapProblem string
	Last        string // name of the time range of the recorded traffic
	// Confirm is the text to type and ConfirmReason is why; Error is the problem with what was
	// typed.
	Confirm, ConfirmReason, Error string
	// Problem is why applying it would fail, "" if it would not.
	Problem string
}

// presetChange is the change that a preset makes to one policy.
type presetChange struct {
	*rules.Policy
	Replaces etag.Tag // the state that it replaces, etag.New for none
	Was      int64    // the version of that state
	Same     bool     // the policy already equals the preset's
	// Differences are the changes of the replaced policy.
	Differences []difference
}

func (h *presetHandler) listPresets(c *httpserver.Call) error {
	return h.showPlan(c, presets.All()[0].Name)
}

func (h *presetHandler) showPreset(c *httpserver.Call) error {
	return h.showPlan(c, c.Params("name"))
}

func (h *presetHandler) showPlan(c *httpserver.Call, name string) error {
	preset, err := findPreset(name)
	if err != nil {
		return err
	}
	shadow := c.Query("mode") == string(rules.Shadow)
	plan, err := h.Policies.Plan(c.Context(), wantedOf(preset), false, shadow, nil)
	if err != nil {
		return err
	}
	return h.renderPreset(c, http.StatusOK, preset, shadow, plan, "")
}

// applyPreset makes the changes that the page showed. The form contains the shown states.
func (h *presetHandler) applyPreset(c *httpserver.Call) error {
	values := form.Values(c)
	preset, err := findPreset(c.Params("name"))
	if err != nil {
		return err
	}
	expect, err := expectedTags(values)
	if err != nil {
		return err
	}
	shadow := values.Get("mode") == string(rules.Shadow)
	plan, err := h.Policies.Plan(c.Context(), wantedOf(preset), false, shadow, expect)
	if err != nil {
		return err
	}
	err = h.Policies.Apply(c.Context(), site.CallerOf(c), plan, strings.TrimSpace(values.Get("confirm")))
	if _, _, asks := site.NeededConfirmation(err); asks {
		return h.renderPreset(c, site.StatusInvalidForm, preset, shadow, plan, "Nothing was changed. To go on, type "+plan.Confirm+".")
	}
	if err != nil {
		return err
	}
	return h.Redirect(c, "/policies?done=applied")
}

func findPreset(name string) (presets.Preset, error) {
	preset, found := presets.Find(name)
	if !found {
		return preset, fault.New(fault.NotFound, "There is no preset %q; there are %s.", name, strings.Join(presets.Names(), ", "))
	}
	return preset, nil
}

// wantedOf returns copies of the policies of a preset.
func wantedOf(preset presets.Preset) []*rules.Policy {
	wanted := make([]*rules.Policy, len(preset.Policies))
	for i, p := range preset.Policies {
		policy := *p
		wanted[i] = &policy
	}
	return wanted
}

// expectedTags parses the states that the page showed, each as "tag name".
func expectedTags(values url.Values) (map[string]etag.Tag, error) {
	expect := map[string]etag.Tag{}
	for _, text := range values["expect"] {
		tag, name, found := strings.Cut(text, " ")
		parsed, err := etag.Parse("expect", tag)
		if !found || err != nil || parsed == etag.New || parsed == etag.Any {
			return nil, fault.Field("expect", "must be what the page showed")
		}
		expect[name] = parsed
	}
	return expect, nil
}

func (h *presetHandler) renderPreset(c *httpserver.Call, status int, preset presets.Preset, shadow bool, plan *admin.PolicyPlan, wrong string) error {
	page := presetsPage{
		Frame: h.NewFrame(c, "Presets", "/policies"), Presets: presets.All(), Preset: preset, Changed: len(plan.Changed()), Shadow: shadow,
		Confirm: plan.Confirm, ConfirmReason: plan.ConfirmReason, Error: wrong,
	}
	if plan.Problem != nil {
		page.Problem = plan.Problem.Error()
	}
	if err := h.previewTraps(c, &page, preset); err != nil {
		return err
	}
	for i := range plan.Changes {
		planned := &plan.Changes[i]
		change := presetChange{Policy: planned.After, Same: len(planned.Fields) == 0}
		if planned.Before != nil {
			change.Replaces, change.Was, change.Differences = rules.TagOf(planned.Before), planned.Before.Version, differences(planned.Before, planned.After)
		}
		page.Changes = append(page.Changes, change)
	}
	return h.Render(c, status, "presets", page)
}

// previewTraps fills in what the traps of a preset would have caught. If the preview fails, the
// page is shown without it.
func (h *presetHandler) previewTraps(c *httpserver.Call, page *presetsPage, preset presets.Preset) error {
	if !page.May("admin") || !admin.CanPreview(preset.Policies) {
		return nil
	}
	if page.Last = c.Query("last"); spans[page.Last].length == 0 {
		page.Last = "24h"
	}
	previews, err := h.Policies.PreviewTraps(c.Context(), preset.Policies, spans[page.Last].length)
	var known *fault.Error
	if errors.As(err, &known) {
		page.TrapProblem = known.Message
		return nil
	}
	for _, t := range previews {
		page.Traps = append(page.Traps, trapPreview{t})
	}
	return err
}

// trapPreview formats a preview for the pages.
type trapPreview struct{ wire.TrapPreview }

// Between returns the time range of the recorded traffic.
func (t trapPreview) Between() format.Sentence {
	return format.TimeRange{From: t.FirstAt.Time, To: t.LastAt.Time}.Between()
}

// Catching returns the entries that would have caught something, those with most first.
func (t trapPreview) Catching() []wire.TrapEntry {
	entries := slices.DeleteFunc(slices.Clone(t.Entries), func(e wire.TrapEntry) bool { return e.Requests == 0 })
	slices.SortStableFunc(entries, func(a, b wire.TrapEntry) int { return cmp.Compare(b.Requests, a.Requests) })
	return entries
}

// Idle returns how many entries would have caught nothing.
func (t trapPreview) Idle() int { return len(t.Entries) - len(t.Catching()) }
