// Package profiles contains the page of the keys with a profile (plans, labels, notes and own
// limits), the page that imports profiles, and their actions on the page of a key.
package profiles

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	use "github.com/stint-dev/stint/internal/admin/profiles"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/profiles"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// Path is the path of the page.
const Path = "/keys"

// Handler shows and changes the profiles of keys.
type Handler struct {
	*site.Site
	Profiles *use.Profiles
	Choices  []form.Choice // the durations of a limit
}

// Routes returns the page and its actions.
func (h *Handler) Routes() []httpserver.Route {
	imports := &importHandler{Site: h.Site, profiles: h.Profiles}
	return append(imports.routes(), []httpserver.Route{
		h.InMenu(site.Enforce, 4, "Keys", h.Get(Path, identity.Read, h.showKeys)),
		h.Post(site.KeyPath+"/profile", identity.Operate, h.setProfile),
		h.Post(limitPath, identity.Operate, h.setLimit),
		h.Post(limitPath+"/end", identity.Operate, h.endLimit),
	}...)
}

// keysPage lists the keys with a profile.
type keysPage struct {
	site.Frame
	Plan, Label, Search string
	Limited             bool
	Plans               []plan
	Keys                []Row
	Total               int
	Next                string // the address of the next page, "" on the last
}

// plan is one plan of the filter.
type plan struct {
	use.PlanUse
	Address string
	Current bool
}

// Row is one key.
type Row struct {
	*profiles.Profile
	// Own is the key's active own limit, nil for none.
	Own *profiles.Limit
}

func (h *Handler) showKeys(c *httpserver.Call) error {
	q, err := site.ReadQuery(c, "plan", "label", "search", "limited", "cursor")
	if err != nil {
		return err
	}
	page := keysPage{
		Frame: h.NewFrame(c, "Keys", Path),
		Plan:  q.Get("plan"), Label: q.Get("label"), Search: q.Get("search"), Limited: q.Get("limited") != "",
	}
	found, err := h.Profiles.List(c.Context(), profiles.Filter{
		Plan: page.Plan, Label: page.Label, Search: page.Search, Limited: page.Limited, Cursor: q.Get("cursor"), Limit: site.RowsPerPage,
	})
	if err != nil {
		return err
	}
	page.Total = found.Total
	for _, p := range found.Items {
		page.Keys = append(page.Keys, Row{p, p.LimitAt(h.Now())})
	}
	if found.Next != "" {
		page.Next = page.address("cursor", found.Next)
	}
	plans, err := h.Profiles.Plans(c.Context())
	if err != nil {
		return err
	}
	for _, p := range plans {
		page.Plans = append(page.Plans, plan{p, Path + "?" + url.Values{"plan": {p.Plan}}.Encode(), p.Plan == page.Plan})
	}
	return h.Render(c, http.StatusOK, "keys", page)
}

// address returns the address of the page with its filter and one more parameter.
func (p *keysPage) address(name, value string) string {
	q := p.filter()
	q.Set(name, value)
	return Path + "?" + q.Encode()
}

// Export returns the URL of the filtered list as CSV.
func (p keysPage) Export() string { return wire.PathProfiles + "/export?" + p.filter().Encode() }

// filter returns the filter as the parameters of the page and of the API.
func (p *keysPage) filter() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"plan": p.Plan, "label": p.Label, "search": p.Search} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if p.Limited {
		q.Set("limited", "true")
	}
	return q
}

// Filtered reports whether the list shows only some keys.
func (p keysPage) Filtered() bool {
	return p.Plan != "" || p.Label != "" || p.Search != "" || p.Limited
}

// setProfile sets the plan, the labels and the note of a key. If all three are empty, it
// deletes the profile, unless the key has its own limit.
func (h *Handler) setProfile(c *httpserver.Call) error {
	values := form.Values(c)
	expect, err := site.Expected(values)
	if err != nil {
		return err
	}
	by, key := site.CallerOf(c), values.Get("key")
	change := wire.ProfileRequest{Key: key, IfMatch: string(expect), Plan: strings.TrimSpace(values.Get("plan")), Labels: use.SplitLabels(values.Get("labels")), Note: values.Get("note")}
	if change.Plan == "" && len(change.Labels) == 0 && strings.TrimSpace(change.Note) == "" && values.Get("delete") != "" {
		if _, err := h.Profiles.Delete(c.Context(), by, wire.DeleteProfileRequest{Key: key, IfMatch: string(expect)}); err != nil {
			return h.answerConflict(c, key, change, values.Get("back"), err)
		}
		return h.ReturnTo(c, values.Get("back"), "unprofiled", nil)
	}
	if _, err := h.Profiles.Put(c.Context(), by, change); err != nil {
		return h.answerConflict(c, key, change, values.Get("back"), err)
	}
	return h.ReturnTo(c, values.Get("back"), "profiled", nil)
}

// conflictPage shows the present profile of a key next to what the user typed.
type conflictPage struct {
	site.Frame
	Key    string
	Theirs *Panel
	Yours  wire.ProfileRequest
	Labels string // labels of Yours
	Back   string
}

// answerConflict shows the conflict if somebody else saved or deleted in the meantime. Any other
// error is that of answerInvalid.
func (h *Handler) answerConflict(c *httpserver.Call, key string, yours wire.ProfileRequest, back string, failed error) error {
	status, isDeleted := httpserver.StatusOf(failed), fault.Is(failed, fault.NotFound)
	switch {
	case isDeleted:
		status = http.StatusConflict
	case !fault.Is(failed, fault.Outdated) && !fault.Is(failed, fault.NeedVersion):
		return h.answerInvalid(c, failed)
	}
	now, err := h.Profiles.Find(c.Context(), key)
	if isDeleted && fault.Is(err, fault.NotFound) {
		now, err = &profiles.Profile{Key: key}, nil
	}
	if err != nil {
		return err
	}
	return h.Render(c, status, "profile-conflict", conflictPage{
		Frame: h.NewFrame(c, "Changed by someone else", Path), Key: now.Key, Theirs: NewPanel(now, nil, h.Now()),
		Yours: yours, Labels: strings.Join(yours.Labels, " "), Back: site.OwnPath(back),
	})
}

func (h *Handler) setLimit(c *httpserver.Call) error {
	values := form.Values(c)
	expiry, err := site.ExpiryOf(values.Get("for"), values.Get("until"), h.Now())
	if err != nil {
		return h.answerInvalid(c, err)
	}
	if _, err := h.Profiles.SetLimit(c.Context(), site.CallerOf(c), wire.OwnLimitRequest{
		Key: values.Get("key"), Rules: rules.SplitRules(values.Get("rules")), Reason: values.Get("reason"),
		ExpiresIn: wire.Duration(expiry.For), ExpiresAt: wire.At(expiry.Until),
	}); err != nil {
		return h.answerInvalid(c, err)
	}
	return h.ReturnTo(c, values.Get("back"), "ownlimit", nil)
}

func (h *Handler) endLimit(c *httpserver.Call) error {
	values := form.Values(c)
	if _, err := h.Profiles.EndLimit(c.Context(), site.CallerOf(c), wire.EndLimitRequest{Key: values.Get("key"), Reason: values.Get("reason")}); err != nil {
		return err
	}
	return h.ReturnTo(c, values.Get("back"), "ownlimitended", nil)
}

// Panel is the profile on the page of a key.
type Panel struct {
	Kept    *profiles.Profile // empty if there is no profile
	Own     *profiles.Limit   // the active limit, nil for none
	Choices []form.Choice
}

// NewPanel returns the panel of a key with the profile p, nil for none.
func NewPanel(p *profiles.Profile, choices []form.Choice, now time.Time) *Panel {
	if p == nil {
		p = &profiles.Profile{}
	}
	return &Panel{Kept: p, Own: p.LimitAt(now), Choices: choices}
}

// Tag identifies the state of the profile, for the forms that change it.
func (p *Panel) Tag() etag.Tag { return profiles.TagOf(p.Kept) }

// Labels returns the labels in the syntax of the form.
func (p *Panel) Labels() string { return strings.Join(p.Kept.Labels, " ") }
