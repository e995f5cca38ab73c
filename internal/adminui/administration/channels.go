package administration

import (
	"net/http"
	"strings"

	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// channelPage is the form of one notification channel. It never contains a secret: those fields
// are always shown empty.
type channelPage struct {
	site.Frame
	Name        string
	Is          string // the name of the changed channel, "" for a new one
	Host        string // the current host, to which it sends
	Type        string
	From, To    string
	Kinds       map[string]bool
	Urgent      bool
	Enabled     bool
	FieldErrors form.FieldErrors
	Expect      string        // the ETag of the state on which the form is based
	Theirs      *wire.Channel // what somebody else saved in the meantime, nil for nothing
}

// Types are the types that the form offers, each with the form of its URL.
func (channelPage) Types() []operations.ChannelType { return operations.ChannelTypes() }

// KindChoices are the kinds that the form offers.
func (channelPage) KindChoices() []form.Choice { return kindChoices() }

// channelsHandler adds, changes and deletes notification channels.
type channelsHandler struct {
	*site.Site
	notifications *operations.Notifications
}

func init() {
	add(func(s *site.Site, d Deps) handler { return &channelsHandler{Site: s, notifications: d.Notifications} }, "channel")
}

func (h *channelsHandler) routes() []httpserver.Route {
	const channel = "/notifications/channels/:name"
	return []httpserver.Route{
		h.Get("/notifications/channels", identity.Admin, h.newChannel),
		h.Post("/notifications/channels", identity.Admin, h.addChannel),
		h.Get(channel, identity.Admin, h.editChannel),
		h.Post(channel, identity.Admin, h.changeChannel),
		h.Post(channel+"/enable", identity.Admin, h.enable(true)),
		h.Post(channel+"/disable", identity.Admin, h.enable(false)),
		h.Post(channel+"/delete", identity.Admin, h.deleteChannel),
	}
}

func (h *channelsHandler) render(c *httpserver.Call, status int, page *channelPage) error {
	title := "Add a channel"
	if page.Is != "" {
		title = "Channel " + page.Is
	}
	page.Frame = h.NewFrame(c, title, "/notifications")
	return h.Render(c, status, "channel", page)
}

func (h *channelsHandler) newChannel(c *httpserver.Call) error {
	return h.render(c, http.StatusOK, &channelPage{Type: "webhook", Enabled: true})
}

func (h *channelsHandler) editChannel(c *httpserver.Call) error {
	found, err := h.notifications.FindChannel(c.Context(), site.CallerOf(c), wire.ByName{Name: c.Params("name")})
	if err != nil {
		return err
	}
	if found.ETag == "" { // it is of the settings
		return h.Redirect(c, "/notifications")
	}
	page := &channelPage{
		Name: found.Name, Is: found.Name, Host: found.Host, Type: found.Type, From: found.From, To: strings.Join(found.To, ", "),
		Kinds: map[string]bool{}, Urgent: found.UrgentOnly, Enabled: found.Enabled, Expect: found.Tag(),
	}
	for _, k := range found.Kinds {
		page.Kinds[k] = true
	}
	return h.render(c, http.StatusOK, page)
}

// sentChannel reads the submitted form.
func sentChannel(c *httpserver.Call) (page *channelPage, set wire.ChannelPatch, err error) {
	values := form.Values(c)
	expect, err := site.Expected(values)
	if err != nil {
		return nil, set, err
	}
	page = &channelPage{
		Expect: string(expect),
		Name:   strings.TrimSpace(values.Get("name")), Type: values.Get("type"), From: values.Get("from"), To: values.Get("to"),
		Kinds: map[string]bool{}, Urgent: values.Get("urgent_only") != "", Enabled: values.Get("enabled") != "", FieldErrors: form.FieldErrors{},
	}
	to, kinds := strings.FieldsFunc(page.To, func(r rune) bool { return r == ',' || r == ' ' }), values["kinds"]
	for _, k := range kinds {
		page.Kinds[k] = true
	}
	if page.Type != "email" { // the form keeps the fields of a type when another type is chosen
		page.From, to = "", nil
	}
	if page.Type != "webhook" {
		values.Del("signing_secret")
	}
	set = wire.ChannelPatch{
		IfMatch: page.Expect, Type: wire.To(page.Type), URL: wire.To(strings.TrimSpace(values.Get("url_secret"))),
		From: wire.To(page.From), To: wire.To(to), Kinds: wire.To(kinds), UrgentOnly: wire.To(page.Urgent), Enabled: wire.To(page.Enabled),
	}
	if secret := values.Get("signing_secret"); secret != "" || values.Get("unsigned") == "" {
		set.SigningSecret = wire.To(&secret)
	} else {
		set.SigningSecret = wire.To[*string](nil)
	}
	return page, set, nil
}

func (h *channelsHandler) addChannel(c *httpserver.Call) error {
	page, set, err := sentChannel(c)
	if err != nil {
		return err
	}
	_, err = h.notifications.AddChannel(c.Context(), site.CallerOf(c), wire.ChannelRequest{
		Name: page.Name, Type: page.Type, URL: set.URL.Value, SigningSecret: secretOf(set), From: page.From, To: set.To.Value, Kinds: set.Kinds.Value,
		UrgentOnly: page.Urgent, Disabled: !page.Enabled,
	})
	return h.answer(c, page, "added", err)
}

// secretOf returns the signing secret of a form, "" for none.
func secretOf(set wire.ChannelPatch) string {
	if set.SigningSecret.Value == nil {
		return ""
	}
	return *set.SigningSecret.Value
}

func (h *channelsHandler) changeChannel(c *httpserver.Call) error {
	name := c.Params("name")
	page, set, err := sentChannel(c)
	if err != nil {
		return err
	}
	page.Name, page.Is, set.Name = name, name, name
	_, err = h.notifications.ChangeChannel(c.Context(), site.CallerOf(c), set)
	return h.answer(c, page, "changed", err)
}

// answer redirects to the list, or shows the form again with its errors.
func (h *channelsHandler) answer(c *httpserver.Call, page *channelPage, done string, err error) error {
	if err == nil {
		return h.Redirect(c, "/notifications?done="+done)
	}
	status := httpserver.StatusOf(err)
	if fault.Is(err, fault.Outdated) {
		return h.showConflict(c, status, page)
	}
	if err := page.FieldErrors.Add(err); err != nil {
		return err
	}
	if page.Is != "" {
		if found, err := h.notifications.FindChannel(c.Context(), site.CallerOf(c), wire.ByName{Name: page.Is}); err == nil {
			page.Host = found.Host
		}
	}
	return h.render(c, status, page)
}

// showConflict shows the form again with what was typed, and with what somebody else saved in
// the meantime. Saving the form again replaces that.
func (h *channelsHandler) showConflict(c *httpserver.Call, status int, page *channelPage) error {
	now, err := h.notifications.FindChannel(c.Context(), site.CallerOf(c), wire.ByName{Name: page.Is})
	if err != nil {
		return err
	}
	page.Host, page.Expect, page.Theirs = now.Host, now.Tag(), &now
	return h.render(c, status, page)
}

func (h *channelsHandler) enable(enabled bool) httpserver.Handler {
	return func(c *httpserver.Call) error {
		if _, err := h.notifications.ChangeChannel(c.Context(), site.CallerOf(c), wire.ChannelPatch{Name: c.Params("name"), IfMatch: "*", Enabled: wire.To(enabled)}); err != nil {
			return err
		}
		return h.Redirect(c, "/notifications?done=changed")
	}
}

func (h *channelsHandler) deleteChannel(c *httpserver.Call) error {
	expect, err := site.Expected(form.Values(c))
	if err != nil {
		return err
	}
	if _, err := h.notifications.DeleteChannel(c.Context(), site.CallerOf(c), wire.DeleteChannelRequest{Name: c.Params("name"), IfMatch: string(expect)}); err != nil {
		return err
	}
	return h.Redirect(c, "/notifications?done=deleted")
}
