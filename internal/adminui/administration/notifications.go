package administration

import (
	"net/http"
	"slices"

	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// shownDeliveries is how many deliveries the page shows.
const shownDeliveries = 50

type notificationsPage struct {
	site.Frame
	Channels   []channelRow
	Deliveries []wire.Delivery
	// Tested is the channel that was just tested, "" for none. Unsent is why its message did
	// not arrive, "" if it did.
	Tested, Unsent string
	// The submitted form of a silence.
	Silence     wire.SilenceRequest
	For, Until  string
	FieldErrors form.FieldErrors
}

// channelRow is one channel over which notifications are sent.
type channelRow struct {
	operations.Channel
	Last *wire.Delivery // its newest delivery among the shown ones, nil for none
}

// Kinds returns the choices of the silence's form.
func (notificationsPage) Kinds() []form.Choice { return kindChoices() }

// Lengths returns the durations that the silence's form offers.
func (notificationsPage) Lengths() []form.Choice {
	return form.Choices("30m", "30 min", "1h", "1 hour", "4h", "4 hours", "24h", "1 day", "until", "Until (UTC)")
}

var kindNames = map[operations.NotificationKind]string{
	"outage": "Outages", "redis.eviction": "Keys that Redis evicted", "escalation.paused": "Paused escalations", "recovery": "Ends of outages",
	"attack.began": "Attacks", "attack.source": "New sources of attacks", "attack.ended": "Ends of attacks",
	"job.failed": "Failed jobs", "proposal": "Proposals", "block.automatic": "Automatic blocks", "report": "Reports",
}

func kindChoices() []form.Choice {
	var all []form.Choice
	for _, k := range operations.NotificationKinds() {
		all = append(all, form.Choice{Value: string(k), Word: kindNames[k]})
	}
	return all
}

// notificationsHandler shows the notifications; it tests and silences their channels.
type notificationsHandler struct {
	*site.Site
	notifications *operations.Notifications
}

func init() {
	add(func(s *site.Site, d Deps) handler {
		return &notificationsHandler{Site: s, notifications: d.Notifications}
	}, "notification", "silence")
}

func (h *notificationsHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.InMenu(site.Administration, 4, "Notifications", h.Get("/notifications", identity.Read, h.showNotifications)),
		h.Post("/notifications/test", identity.Admin, h.testChannel),
		h.Post("/notifications/silences", identity.Operate, h.addSilence),
		h.Post("/notifications/silences/:id/end", identity.Operate, h.endSilence),
	}
}

var notificationToasts = map[string]string{
	"added": "The channel is added. Send a test to try it.", "changed": "The channel is changed.", "deleted": "The channel is deleted.",
	"silenced": "Silenced: every page says so until it ends.", "ended": "The silence is ended.",
}

func (h *notificationsHandler) showNotifications(c *httpserver.Call) error {
	page := &notificationsPage{For: "1h"}
	return h.renderNotifications(c, http.StatusOK, page)
}

func (h *notificationsHandler) renderNotifications(c *httpserver.Call, status int, page *notificationsPage) error {
	page.Frame = h.NewFrame(c, "Notifications", "/notifications")
	page.Toast = site.DoneToast(c, notificationToasts)
	newest, err := h.notifications.List(c.Context(), site.CallerOf(c), wire.NotificationList{Limit: shownDeliveries})
	if err != nil {
		return err
	}
	channels, err := h.notifications.AllChannels(c.Context())
	if err != nil {
		return err
	}
	page.Deliveries = newest.Items
	for _, channel := range channels {
		row := channelRow{Channel: channel}
		if at := slices.IndexFunc(newest.Items, func(d wire.Delivery) bool { return d.Channel == row.Name }); at >= 0 {
			row.Last = &newest.Items[at]
		}
		page.Channels = append(page.Channels, row)
	}
	return h.Render(c, status, "notifications", page)
}

// testChannel sends a message over one channel, and shows the result.
func (h *notificationsHandler) testChannel(c *httpserver.Call) error {
	page := &notificationsPage{Tested: form.Values(c).Get("channel"), For: "1h"}
	answer, err := h.notifications.Test(c.Context(), site.CallerOf(c), wire.TestRequest{Channel: page.Tested})
	if err != nil {
		return err
	}
	page.Unsent = string(answer.Error)
	return h.renderNotifications(c, http.StatusOK, page)
}

func (h *notificationsHandler) addSilence(c *httpserver.Call) error {
	values := form.Values(c)
	page := &notificationsPage{For: values.Get("for"), Until: values.Get("until"), FieldErrors: form.FieldErrors{}}
	page.Silence = wire.SilenceRequest{Channel: values.Get("channel"), Kind: values.Get("kind"), Reason: values.Get("reason")}
	until, err := h.ParseExpiry(page.For, page.Until, h.Now())
	if err == nil {
		page.Silence.ExpiresAt = wire.At(until)
		_, err = h.notifications.AddSilence(c.Context(), site.CallerOf(c), page.Silence)
	}
	if err != nil {
		status := httpserver.StatusOf(err)
		if err := page.FieldErrors.Add(err); err != nil {
			return err
		}
		return h.renderNotifications(c, status, page)
	}
	return h.Redirect(c, "/notifications?done=silenced")
}

func (h *notificationsHandler) endSilence(c *httpserver.Call) error {
	if _, err := h.notifications.EndSilence(c.Context(), site.CallerOf(c), wire.ByID{ID: c.Params("id")}); err != nil {
		return err
	}
	return h.Redirect(c, "/notifications?done=ended")
}
