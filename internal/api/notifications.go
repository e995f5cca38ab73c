package api

import (
	"context"
	"net/http"

	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/wire"
)

// notificationHandler lists notifications and tests their channels.
type notificationHandler struct {
	notifier Notifier // nil if the node sends no notifications
	outbox   Outbox
}

func (h *notificationHandler) routes() []route {
	return []route{
		onAdmin(get, wire.PathNotifications, identity.Read, h.listNotifications, opListNotifications),
		onAdmin(post, wire.PathNotifications+"/test", identity.Admin, h.testNotification, opTestNotification),
	}
}

var (
	opListNotifications = &openapi.Operation{
		ID: "listNotifications", Tag: "notifications", Summary: "List what people were told, or are about to be.",
		Query: []openapi.Param{limitParam}, Answers: ok("The newest.", wire.Notifications{}),
	}
	opTestNotification = &openapi.Operation{
		ID: "testNotification", Tag: "notifications", Summary: "Send a test message over one channel.",
		Body: wire.TestRequest{}, Answers: ok("What came of it.", wire.TestAnswer{}),
	}
)

// Outbox shows what is on its way to people.
type Outbox interface {
	// Deliveries returns the newest deliveries.
	Deliveries(ctx context.Context, limit int) ([]notify.Delivery, error)
}

// Notifier tests the channels.
type Notifier interface {
	Channels() []string
	// Test sends a message over one channel now; a *fault.Error where there is
	// no such channel, another error where it did not arrive.
	Test(ctx context.Context, channel string) error
}

var errNoNotifications = fault.New(fault.NotFound, "This node sends no notifications.")

func (h *notificationHandler) listNotifications(c *httpserver.Call) error {
	q := c.ParseQuery("limit")
	limit := q.Limit()
	if q.Err() != nil {
		return q.Err()
	}
	if h.notifier == nil || h.outbox == nil {
		return errNoNotifications
	}
	if limit == 0 {
		limit = 100
	}
	all, err := h.outbox.Deliveries(c.Context(), limit)
	if err != nil {
		return err
	}
	answer := wire.Notifications{Channels: append([]string{}, h.notifier.Channels()...), Items: []wire.Delivery{}}
	for _, d := range all {
		answer.Items = append(answer.Items, fromDelivery(d))
	}
	return c.SendJSON(http.StatusOK, answer)
}

// testNotification sends a message over one channel. One that does not arrive
// is the answer, not an error: nothing is wrong with the request.
func (h *notificationHandler) testNotification(c *httpserver.Call) error {
	var request wire.TestRequest
	if err := c.DecodeJSON(&request); err != nil {
		return err
	}
	if h.notifier == nil {
		return errNoNotifications
	}
	if err := httpserver.CheckLine("channel", request.Channel, 128); err != nil {
		return err
	}
	err := h.notifier.Test(context.Background(), request.Channel)
	if fault.Is(err, fault.NotFound) {
		return fault.Field("channel", "there is no channel %q; the channels are listed by GET %s", request.Channel, wire.PathNotifications)
	}
	answer := wire.TestAnswer{Channel: request.Channel, Sent: err == nil}
	if err != nil {
		answer.Error = wire.NullString(escape.Log(err.Error()))
	}
	return c.SendJSON(http.StatusOK, answer)
}

// fromDelivery returns a delivery as the API shows it.
func fromDelivery(d notify.Delivery) wire.Delivery {
	out := wire.Delivery{
		ID: d.ID, Kind: string(d.Kind), At: wire.At(d.At), Subject: d.Subject, Text: d.Text, Channel: d.Channel, Attempts: d.Attempts,
		SentAt: wire.At(d.Sent), FailedAt: wire.At(d.Failed), Error: wire.NullString(d.Err),
	}
	if d.Sent.IsZero() && d.Failed.IsZero() {
		out.NextAt = wire.At(d.Next)
	}
	return out
}
