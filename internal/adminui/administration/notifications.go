package administration

import (
	"net/http"
	"slices"

	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

// shownDeliveries is how many deliveries the page shows.
const shownDeliveries = 50

type notificationsPage struct {
	site.Frame
	Channels   []channelRow
	Deliveries []operations.Delivery
	// Tested is the channel that was just tried, "" for none, and Unsent why its message did
	// not arrive, "" if it did.
	Tested, Unsent string
}

// channelRow is one channel over which notifications can be sent.
type channelRow struct {
	Name     string
	Receives string
	Settings []string // that set it up
	On       bool
	Last     *operations.Delivery // its newest delivery among those shown, nil for none
}

// channelRows are the channels of this release.
var channelRows = []channelRow{
	{Name: "webhook", Receives: "JSON by POST, signed with the secret", Settings: []string{"STINT_NOTIFY_WEBHOOK_URL", "STINT_NOTIFY_WEBHOOK_SECRET"}},
	{Name: "slack", Receives: "Slack, Mattermost, Rocket.Chat, or Discord’s /slack", Settings: []string{"STINT_NOTIFY_SLACK_URL"}},
	{Name: "email", Receives: "mail over SMTP", Settings: []string{"STINT_NOTIFY_SMTP_URL", "STINT_NOTIFY_EMAIL_FROM", "STINT_NOTIFY_EMAIL_TO"}},
}

// notificationsHandler shows the notifications and tests their channels.
type notificationsHandler struct {
	*site.Site
	notifications *operations.Notifications
}

func (h *notificationsHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.Get("/notifications", identity.Read, h.showNotifications),
		h.Post("/notifications/test", identity.Admin, h.testChannel),
	}
}

func (h *notificationsHandler) showNotifications(c *httpserver.Call) error {
	return h.renderNotifications(c, &notificationsPage{})
}

func (h *notificationsHandler) renderNotifications(c *httpserver.Call, page *notificationsPage) error {
	page.Frame = h.NewFrame(c, "Notifications", "/notifications")
	on, newest, err := h.notifications.List(c.Context(), shownDeliveries)
	if err != nil {
		return err
	}
	page.Channels, page.Deliveries = slices.Clone(channelRows), newest
	for i := range page.Channels {
		row := &page.Channels[i]
		row.On = slices.Contains(on, row.Name)
		if at := slices.IndexFunc(newest, func(d operations.Delivery) bool { return d.Channel == row.Name }); at >= 0 {
			row.Last = &newest[at]
		}
	}
	return h.Render(c, http.StatusOK, "notifications", page)
}

// testChannel sends a message over one channel, and shows what came of it.
func (h *notificationsHandler) testChannel(c *httpserver.Call) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	page := &notificationsPage{Tested: values.Get("channel")}
	unsent, err := h.notifications.Test(c.Context(), site.CallerOf(c), page.Tested)
	if err != nil {
		return err
	}
	if unsent != nil {
		page.Unsent = unsent.Error()
	}
	return h.renderNotifications(c, page)
}
