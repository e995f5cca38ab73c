package policies

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/presets"
	"github.com/stint-dev/stint/internal/rules"
)

const presetsPath = "/presets"

// presetsPage shows the policy files that Stint ships, and what one would change.
type presetsPage struct {
	site.Frame
	Presets []presets.Preset
	Preset  presets.Preset
	Changes []presetChange
	Changed int  // of them, how many change something
	Shadow  bool // the policies only count whom they would refuse
	// Confirm is what has to be typed and ConfirmReason why; Error is what was wrong
	// with what was typed.
	Confirm, ConfirmReason, Error string
}

// presetChange is what a preset does to one policy.
type presetChange struct {
	*rules.Policy
	Replaces int64 // the version that it takes the place of, 0 for none
	Same     bool  // it is as the preset says already
	// Differences is what changes of the policy that it takes the place of.
	Differences []difference
}

func (h *Handler) listPresets(c *httpserver.Call) error {
	return h.showPlan(c, presets.All()[0].Name)
}

func (h *Handler) showPreset(c *httpserver.Call) error {
	name, err := site.PathParam(c, "name")
	if err != nil {
		return err
	}
	return h.showPlan(c, name)
}

func (h *Handler) showPlan(c *httpserver.Call, name string) error {
	preset, err := findPreset(name)
	if err != nil {
		return err
	}
	shadow := c.Query("mode") == string(rules.Shadow)
	plan, err := h.Policies.Plan(c.Context(), wantedOf(preset, shadow), false, nil)
	if err != nil {
		return err
	}
	return h.renderPreset(c, http.StatusOK, preset, shadow, plan, "")
}

// applyPreset makes the changes that the page showed: the form has the versions.
func (h *Handler) applyPreset(c *httpserver.Call) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	name, err := site.PathParam(c, "name")
	if err != nil {
		return err
	}
	preset, err := findPreset(name)
	if err != nil {
		return err
	}
	expect, err := expectedVersions(values)
	if err != nil {
		return err
	}
	shadow := values.Get("mode") == string(rules.Shadow)
	plan, err := h.Policies.Plan(c.Context(), wantedOf(preset, shadow), false, expect)
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
func wantedOf(preset presets.Preset, shadow bool) []*rules.Policy {
	wanted := make([]*rules.Policy, len(preset.Policies))
	for i, p := range preset.Policies {
		policy := *p
		if shadow {
			policy.Mode = rules.Shadow
		}
		wanted[i] = &policy
	}
	return wanted
}

// expectedVersions reads the versions that the page showed, each as "version name".
func expectedVersions(values url.Values) (map[string]int64, error) {
	expect := map[string]int64{}
	for _, text := range values["expect"] {
		version, name, found := strings.Cut(text, " ")
		n, err := strconv.ParseInt(version, 10, 64)
		if !found || err != nil || n < 1 {
			return nil, fault.Field("expect", "is not a version that the page had")
		}
		expect[name] = n
	}
	return expect, nil
}

func (h *Handler) renderPreset(c *httpserver.Call, status int, preset presets.Preset, shadow bool, plan *admin.PolicyPlan, wrong string) error {
	page := presetsPage{
		Frame: h.NewFrame(c, "Presets", "/policies"), Presets: presets.All(), Preset: preset, Changed: len(plan.Changed()), Shadow: shadow,
		Confirm: plan.Confirm, ConfirmReason: plan.ConfirmReason, Error: wrong,
	}
	for i := range plan.Changes {
		planned := &plan.Changes[i]
		change := presetChange{Policy: planned.After, Same: len(planned.Fields) == 0}
		if planned.Before != nil {
			change.Replaces, change.Differences = planned.Before.Version, differences(planned.Before, planned.After)
		}
		page.Changes = append(page.Changes, change)
	}
	return h.Render(c, status, "presets", page)
}
