package policies

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/rules"
)

// save replaces the version that a draft was made from. What was typed is never lost: with
// errors or after a change by somebody else, the form is shown again.
func (h *Handler) save(c *httpserver.Call, p *rules.Policy, d *draft) error {
	wanted := d.policy(h.Catalog.Parser(), p)
	if wanted == nil {
		return h.renderPolicy(c, site.StatusInvalidForm, p, d, nil)
	}
	saved, err := wanted, error(nil)
	if d.AsDraft {
		_, err = h.Policies.PutDraft(c.Context(), site.CallerOf(c), wanted)
	} else {
		saved, err = h.Policies.Put(c.Context(), site.CallerOf(c), wanted, d.Expect, strings.TrimSpace(form.Values(c).Get("confirm")))
	}
	switch {
	case d.askConfirm(wanted.Name, err):
		return h.renderPolicy(c, site.StatusInvalidForm, p, d, nil)
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
	if d.AsDraft {
		done = "drafted"
	} else if p != nil && saved.Version == p.Version {
		done = "same"
	}
	return h.Redirect(c, policyPath(saved.Name)+"?done="+done)
}

// askConfirm makes a draft ask for the policy's name if err says that a confirmation is needed.
// It reports whether that is so.
func (d *draft) askConfirm(name string, err error) bool {
	_, reason, asks := site.NeededConfirmation(err)
	if asks {
		d.Ask, d.FieldErrors["confirm"] = name, "Nothing was changed: "+reason+". To go on, type "+name+"."
	}
	return asks
}

// noteTaken shows that a pattern belongs to another policy at the pattern's field.
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
	Policy       *rules.Policy // the active version: theirs
	From         int64         // the common base version, 0 if the policy was deleted and created again
	Theirs       []difference
	Yours        []difference
	ResetsCounts string       // see policyPage, for yours replacing theirs
	Fields       []site.Field // all fields of yours
}

// Tag identifies theirs, which saving yours replaces.
func (p conflictPage) Tag() etag.Tag { return rules.TagOf(p.Policy) }

// Next is the version number after saving yours.
func (p conflictPage) Next() int64 { return p.Policy.Version + 1 }

func (h *Handler) renderConflict(c *httpserver.Call, now, wanted *rules.Policy, d *draft) error {
	ctx := c.Context()
	all, err := h.Policies.PolicyVersions(ctx, now.Name)
	if err != nil {
		return err
	}
	page := conflictPage{Frame: h.NewFrame(c, "Changed by someone else", "/policies"), Base: policyPath(now.Name), Policy: now}
	from := now
	if at := slices.IndexFunc(all, func(v *rules.Policy) bool { return rules.TagOf(v) == d.Expect }); at >= 0 {
		from, page.From = all[at], all[at].Version
	}
	page.Theirs, page.Yours = differences(from, now), differences(from, wanted)
	page.ResetsCounts = now.DescribeReset(wanted)
	page.Fields = draftFields(form.Values(c))
	return h.Render(c, http.StatusPreconditionFailed, "policy-conflict", page)
}

// draftFields returns the fields of a form that describe the policy, for a form that sends them
// again. It omits those of the request itself, which the new form sets.
func draftFields(values url.Values) (all []site.Field) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch name {
		case "csrf", "expect", "confirm", "do", "name":
			continue
		}
		for _, value := range values[name] {
			all = append(all, site.Field{Name: name, Value: value})
		}
	}
	return all
}

// returnToVersion replaces the active version by an old one.
func (h *Handler) returnToVersion(c *httpserver.Call) error {
	values := form.Values(c)
	name := c.Params("name")
	wanted, err := strconv.ParseInt(values.Get("version"), 10, 64)
	if err != nil {
		return fault.Field("version", "is not a number")
	}
	expect, err := site.Expected(values)
	if err != nil {
		return err
	}
	ctx := c.Context()
	all, err := h.Policies.PolicyVersions(ctx, name)
	if err != nil {
		return err
	}
	_, err = h.Policies.Rollback(ctx, site.CallerOf(c), name, wanted, expect, "")
	if _, _, asks := site.NeededConfirmation(err); asks {
		now, findErr := h.Policies.FindPolicyByName(ctx, name)
		if findErr != nil {
			return findErr
		}
		d := draftOf(all[slices.IndexFunc(all, func(v *rules.Policy) bool { return v.Version == wanted })])
		d.askConfirm(name, err)
		d.Expect = expect
		return h.renderPolicy(c, site.StatusInvalidForm, now, d, nil)
	}
	if err != nil {
		return err
	}
	return h.Redirect(c, policyPath(name)+"?done=saved")
}

func (h *Handler) deletePolicy(c *httpserver.Call) error {
	values := form.Values(c)
	name := c.Params("name")
	if values.Get("confirm") != name {
		return fault.New(fault.NeedConfirm, "Nothing was deleted. To delete the policy, type its name, %s.", name)
	}
	expect, err := site.Expected(values)
	if err != nil {
		return err
	}
	if err := h.Policies.Delete(c.Context(), site.CallerOf(c), name, expect, name); err != nil {
		return err
	}
	return h.Redirect(c, "/policies?done=deleted")
}
