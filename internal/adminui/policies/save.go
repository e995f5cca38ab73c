package policies

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/rules"
)

// save puts a draft in the place of the version that it was made from. What
// was typed is never lost: fieldErrors and somebody else's version show it again.
func (h *Handler) save(c *httpserver.Call, p *rules.Policy, d *draft) error {
	wanted := d.policy(h.Catalog.Parser(), p)
	if wanted == nil {
		return h.renderPolicy(c, site.StatusInvalidForm, p, d, nil)
	}
	ctx := c.Context()
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	if strings.TrimSpace(values.Get("confirm")) != wanted.Name && d.askBroad(p, wanted) {
		return h.renderPolicy(c, site.StatusInvalidForm, p, d, nil)
	}
	saved, err := h.Policies.PutPolicy(ctx, c.Actor(), wanted, d.Expect)
	switch {
	case fault.Is(err, fault.Outdated):
		return h.renderConflict(c, p, wanted, d)
	case fault.Is(err, fault.NeedVersion):
		d.FieldErrors["name"] = "There is a policy of this name; choose another, or edit that one."
		return h.renderPolicy(c, site.StatusInvalidForm, p, d, nil)
	case fault.Is(err, fault.Conflict):
		d.noteTaken(err)
		return h.renderPolicy(c, httpserver.StatusOf(err), p, d, nil)
	case err != nil:
		return err
	}
	done := "saved"
	if p != nil && saved.Version == p.Version {
		done = "same"
	}
	return h.Redirect(c, policyPath(saved.Name)+"?done="+done)
}

// askBroad makes a draft ask for its name where it is broad, and reports whether
// it did. before is nil for a new policy.
func (d *draft) askBroad(before, wanted *rules.Policy) bool {
	why := blocklist.BroadPolicy(before, wanted)
	if why == "" {
		return false
	}
	d.Ask, d.FieldErrors["confirm"] = wanted.Name, "Nothing was changed: "+why+". To go on, type "+wanted.Name+"."
	return true
}

// noteTaken puts a pattern that belongs to another policy beside its field.
func (d *draft) noteTaken(err error) {
	var invalid *fault.Error
	if !errors.As(err, &invalid) {
		return
	}
	n := 0
	for i := range d.Match {
		if d.Match[i].Text == "" {
			continue
		}
		if invalid.Field == "match["+strconv.Itoa(n)+"]" {
			d.Match[i].Error = invalid.Message
			return
		}
		n++
	}
	d.FieldErrors["match"] = invalid.Message
}

// conflictPage shows two edits of one version side by side.
type conflictPage struct {
	site.Frame
	Base         string
	Policy       *rules.Policy // what decides now: theirs
	From         int64         // the version that both were made from
	Theirs       []difference
	Yours        []difference
	ResetsCounts string       // as in policyPage, where yours takes the place of theirs
	Fields       []site.Field // of yours, whole
}

// Next is the number of the version that saving yours makes.
func (p conflictPage) Next() int64 { return p.Policy.Version + 1 }

func (h *Handler) renderConflict(c *httpserver.Call, now, wanted *rules.Policy, d *draft) error {
	ctx := c.Context()
	all, err := h.Policies.PolicyVersions(ctx, now.Name)
	if err != nil {
		return err
	}
	page := conflictPage{Frame: h.NewFrame(c, "Changed by someone else", "/policies"), Base: policyPath(now.Name), Policy: now, From: d.Expect}
	at := slices.IndexFunc(all, func(v *rules.Policy) bool { return v.Version == d.Expect })
	if at < 0 {
		return fault.Field("expect", "is not a version of this policy")
	}
	page.Theirs, page.Yours = differences(all[at], now), differences(all[at], wanted)
	page.ResetsCounts = resetsCounts(now, wanted)
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	for _, name := range []string{"mode", "limit", "window", "match", "algorithm", "burst", "count_refused", "window_start", "variant", "on_failure", "escalation", "threshold", "offence_window", "duration", "factor", "max_duration", "decay_after"} {
		for _, value := range values[name] {
			page.Fields = append(page.Fields, site.Field{Name: name, Value: value})
		}
	}
	return h.Render(c, http.StatusPreconditionFailed, "policy-conflict", page)
}

// returnToVersion puts an old version in the place of the one that decides.
func (h *Handler) returnToVersion(c *httpserver.Call) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	name, err := site.PathParam(c, "name")
	if err != nil {
		return err
	}
	wanted, err := strconv.ParseInt(values.Get("version"), 10, 64)
	if err != nil {
		return fault.Field("version", "is not a number")
	}
	expect, err := strconv.ParseInt(values.Get("expect"), 10, 64)
	if err != nil || expect < 1 {
		return fault.Field("expect", "is not a version that the page had")
	}
	ctx := c.Context()
	all, err := h.Policies.PolicyVersions(ctx, name)
	if err != nil {
		return err
	}
	for _, v := range all {
		if v.Version != wanted {
			continue
		}
		now, err := h.Policies.FindPolicyByName(ctx, name)
		if err != nil {
			return err
		}
		if d := draftOf(v); d.askBroad(now, v) {
			d.Expect = expect
			return h.renderPolicy(c, site.StatusInvalidForm, now, d, nil)
		}
		if _, err := h.Policies.PutPolicy(ctx, c.Actor(), v, expect); err != nil {
			return err
		}
		return h.Redirect(c, policyPath(name)+"?done=saved")
	}
	return fault.New(fault.NotFound, "The policy %s has no version %d.", name, wanted)
}

func (h *Handler) deletePolicy(c *httpserver.Call) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	name, err := site.PathParam(c, "name")
	if err != nil {
		return err
	}
	if values.Get("confirm") != name {
		return fault.New(fault.NeedConfirm, "Nothing was deleted. To delete the policy, type its name, %s.", name)
	}
	expect, err := strconv.ParseInt(values.Get("expect"), 10, 64)
	if err != nil || expect < 1 {
		return fault.Field("expect", "is not a version that the page had")
	}
	ctx := c.Context()
	if err := h.Policies.DeletePolicy(ctx, c.Actor(), name, expect); err != nil {
		return err
	}
	return h.Redirect(c, "/policies?done=deleted")
}
