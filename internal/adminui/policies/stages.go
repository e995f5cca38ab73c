package policies

import (
	"context"
	"strings"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/rules"
)

// beside compares the shown policy with its draft in shadow mode.
type beside struct {
	*admin.DraftComparison
	Changes []difference
	// Ask is the name to type to promote the draft, and Reason why; "" for neither.
	Ask, Reason string
}

// Tag identifies the draft that was shown.
func (b *beside) Tag() etag.Tag { return rules.TagOf(b.Draft) }

// ActiveChecks and DraftChecks are the checks that each decided.
func (b *beside) ActiveChecks() int64 { return b.Active.Checks() }
func (b *beside) DraftChecks() int64  { return b.Drafted.Checks() }

// addBeside shows the draft of the policy of a page, if it has one.
func (h *Handler) addBeside(ctx context.Context, page *policyPage) error {
	draft, err := h.Policies.Draft(ctx, page.Policy.Name)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	compared, err := admin.CompareDraft(ctx, h.Detection, page.Policy, draft, h.Now())
	if err != nil {
		return err
	}
	promoted := *draft
	promoted.Mode = page.Policy.Mode
	page.Beside = &beside{DraftComparison: compared, Changes: differences(page.Policy, &promoted)}
	if page.May("admin") {
		promoted.Name, promoted.Mode = page.Policy.Name, rules.Enforce
		if page.Beside.Reason, err = h.Policies.ConfirmReason(ctx, page.Policy.Name, &promoted); page.Beside.Reason != "" {
			page.Beside.Ask = page.Policy.Name
		}
	}
	return err
}

// changed reads a form about a policy in the path and the state that it showed.
func changed(c *httpserver.Call) (name string, expect etag.Tag, confirm, to string, err error) {
	values := form.Values(c)
	expect, err = site.Expected(values)
	return c.Params("name"), expect, strings.TrimSpace(values.Get("confirm")), strings.TrimSpace(values.Get("to")), err
}

// promote puts the draft of a policy in force.
func (h *Handler) promote(c *httpserver.Call) error {
	name, expect, confirm, _, err := changed(c)
	if err != nil {
		return err
	}
	if _, err := h.Policies.Promote(c.Context(), site.CallerOf(c), name, expect, confirm); err != nil {
		return err
	}
	return h.Redirect(c, policyPath(name)+"?done=promoted")
}

// discard deletes the draft of a policy.
func (h *Handler) discard(c *httpserver.Call) error {
	name, expect, _, _, err := changed(c)
	if err != nil {
		return err
	}
	if err := h.Policies.Delete(c.Context(), site.CallerOf(c), rules.DraftName(name), expect, ""); err != nil {
		return err
	}
	return h.Redirect(c, policyPath(name)+"?done=discarded")
}

// rename gives a policy another name.
func (h *Handler) rename(c *httpserver.Call) error {
	name, expect, _, to, err := changed(c)
	if err != nil {
		return err
	}
	renamed, err := h.Policies.Rename(c.Context(), site.CallerOf(c), name, to, expect)
	if err != nil {
		return err
	}
	return h.Redirect(c, policyPath(renamed.Name)+"?done=renamed")
}

// policyToast says what was done to the policy of a page, and offers to undo it.
func (h *Handler) policyToast(ctx context.Context, c *httpserver.Call, page *policyPage) error {
	p := page.Policy
	if p == nil {
		return nil
	}
	version := phrase.Number(p.Version)
	page.Toast = site.DoneToast(c, map[string]string{
		"saved":     "Version " + version + " of " + p.Name + " is active on every node.",
		"same":      "Nothing differs from version " + version + ", so no new version was saved.",
		"drafted":   "The draft is saved in shadow. " + p.Name + " goes on as before.",
		"promoted":  "The draft is in force: version " + version + " of " + p.Name + " is active on every node.",
		"discarded": "The draft is deleted. " + p.Name + " goes on as before.",
		"renamed":   "The policy is named " + p.Name + " now. Checks that name it must use this name.",
	})
	if page.Toast == nil || !h.CanUndo {
		return nil
	}
	about := p.Name
	switch c.Query("done") {
	case "same":
		return nil
	case "drafted", "discarded":
		about = rules.DraftName(p.Name)
	}
	var err error
	page.Toast.Undo, page.Toast.Fields, err = site.UndoOf(ctx, h.Audit.Find, &page.Frame, "policy", about, "policy.create", "policy.replace", "policy.delete", "policy.rename")
	return err
}
