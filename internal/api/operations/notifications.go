package operations

import (
	"net/http"

	use "github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// notificationHandler lists notifications and tests their channels.
type notificationHandler struct {
	notifications *use.Notifications
}

func (h *notificationHandler) routes() []openapi.Route {
	return []openapi.Route{
		routes.OnAdmin(http.MethodGet, wire.PathNotifications, identity.Read, h.listNotifications, opListNotifications),
		routes.OnAdmin(http.MethodPost, wire.PathNotifications+"/test", identity.Admin, h.testNotification, opTestNotification),
	}
}

var (
	opListNotifications = &openapi.Operation{
		ID: "listNotifications", Tag: "notifications", Summary: "List the notifications that were sent or are waiting.",
		Query: []openapi.Param{routes.Limit}, Answers: routes.OK("The newest.", wire.Notifications{}),
	}
	opTestNotification = &openapi.Operation{
		ID: "testNotification", Tag: "notifications", Summary: "Send a test message over one channel.",
		Body: wire.TestRequest{}, Answers: routes.OK("The result.", wire.TestAnswer{}),
	}
)

func (h *notificationHandler) listNotifications(c *httpserver.Call) error {
	q := c.ParseQuery("limit")
	limit := q.Limit()
	if q.Err() != nil {
		return q.Err()
	}
	if limit == 0 {
		limit = 100
	}
	channels, all, err := h.notifications.List(c.Context(), limit)
	if err != nil {
		return err
	}
	answer := wire.Notifications{Channels: append([]string{}, channels...), Items: []wire.Delivery{}}
	for _, d := range all {
		answer.Items = append(answer.Items, fromDelivery(d))
	}
	return c.SendJSON(http.StatusOK, answer)
}

// testNotification sends a message over one channel. A delivery that fails is reported in the
// response and is not an error, since the request was valid.
func (h *notificationHandler) testNotification(c *httpserver.Call) error {
	var request wire.TestRequest
	if err := c.DecodeJSON(&request); err != nil {
		return err
	}
	unsent, err := h.notifications.Test(c.Context(), routes.CallerOf(c), request.Channel)
	if err != nil {
		return err
	}
	answer := wire.TestAnswer{Channel: request.Channel, Sent: unsent == nil}
	if unsent != nil {
		answer.Error = wire.NullString(escape.Log(unsent.Error()))
	}
	return c.SendJSON(http.StatusOK, answer)
}

// fromDelivery returns a delivery as the API shows it.
func fromDelivery(d use.Delivery) wire.Delivery {
	out := wire.Delivery{
		ID: d.ID, Kind: string(d.Kind), At: wire.At(d.At), Subject: d.Subject, Text: d.Text, Channel: d.Channel, Attempts: d.Attempts,
		SentAt: wire.At(d.Sent), FailedAt: wire.At(d.Failed), Error: wire.NullString(d.Err),
	}
	if d.Sent.IsZero() && d.Failed.IsZero() {
		out.NextAt = wire.At(d.Next)
	}
	return out
}
