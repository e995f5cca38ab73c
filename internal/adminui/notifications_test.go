package adminui_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/notify/egress"
	"github.com/stint-dev/stint/internal/notify/webhook"
)

// webhookNode is a node with a webhook, whose receiver answers with a status.
func webhookNode(t *testing.T, status *atomic.Int32) (n *node, received *atomic.Int32) {
	received = &atomic.Int32{}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		received.Add(1)
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(receiver.Close)
	n = newNode(t, func(d *adminui.Deps) {
		channel := webhook.New(receiver.URL+"/hook-of-a-secret", "signing-secret", egress.New(egress.Options{AllowPrivate: true}), d.Now)
		d.Notifications.Notifier = notify.New(notify.Options{Channels: []notify.Channel{channel}, Node: "a", Now: d.Now})
	})
	return n, received
}

func TestChannelsAreShownAndTestedWithoutTheirSecrets(t *testing.T) {
	status := &atomic.Int32{}
	status.Store(http.StatusOK)
	n, received := webhookNode(t, status)
	admin := n.as(t, "maria")
	admin.get("/notifications").is(http.StatusOK).holds("Send a test message over webhook").lacks("test message over slack").holds("STINT_NOTIFY_SLACK_URL").
		lacks("hook-of-a-secret").lacks("signing-secret").holds("Nothing was sent yet.")
	test := url.Values{"channel": {"webhook"}}
	admin.post("/notifications/test", test).is(http.StatusOK).holds("The test message was sent over webhook.")
	if received.Load() != 1 {
		t.Errorf("%d messages arrived", received.Load())
	}
	status.Store(http.StatusNotFound)
	admin.post("/notifications/test", test).is(http.StatusOK).holds("did not arrive over webhook").holds("404").lacks("hook-of-a-secret").lacks("signing-secret")
	admin.post("/notifications/test", url.Values{"channel": {"pigeon"}}).is(http.StatusUnprocessableEntity)
	if all := n.entries(t, audit.Filter{Action: "notification.test"}); len(all) != 2 {
		t.Errorf("the audit has %d tests", len(all))
	}
	viewer := n.as(t, "vic")
	viewer.get("/notifications").is(http.StatusOK).lacks("Send a test")
	viewer.post("/notifications/test", test).is(http.StatusForbidden)
	if received.Load() != 2 {
		t.Errorf("%d messages arrived", received.Load())
	}
}
