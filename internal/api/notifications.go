package api

import (
	"context"
	"net/http"

	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/wire"
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

func (s *API) listNotifications(c *httpserver.Call) error {
	q := c.ParseQuery("limit")
	limit := q.Limit()
	if q.Err() != nil {
		return q.Err()
	}
	if s.Notifier == nil || s.Outbox == nil {
		return errNoNotifications
	}
	if limit == 0 {
		limit = 100
	}
	ctx := c.Context()
	all, err := s.Outbox.Deliveries(ctx, limit)
	if err != nil {
		return err
	}
	answer := wire.Notifications{Channels: append([]string{}, s.Notifier.Channels()...), Items: []wire.Delivery{}}
	for _, d := range all {
		answer.Items = append(answer.Items, fromDelivery(d))
	}
	return c.SendJSON(http.StatusOK, answer)
}

// testNotification sends a message over one channel. One that does not arrive
// is the answer, not an error: nothing is wrong with the request.
func (s *API) testNotification(c *httpserver.Call) error {
	var request wire.TestRequest
	if err := c.DecodeJSON(&request); err != nil {
		return err
	}
	if s.Notifier == nil {
		return errNoNotifications
	}
	if err := httpserver.CheckLine("channel", request.Channel, 128); err != nil {
		return err
	}
	err := s.Notifier.Test(context.Background(), request.Channel)
	if fault.Is(err, fault.NotFound) {
		return fault.Field("channel", "there is no channel %q; the channels are listed by GET %s", request.Channel, wire.PathNotifications)
	}
	answer := wire.TestAnswer{Channel: request.Channel, Sent: err == nil}
	if err != nil {
		answer.Error = wire.NullString(escape.Log(err.Error()))
	}
	return c.SendJSON(http.StatusOK, answer)
}
