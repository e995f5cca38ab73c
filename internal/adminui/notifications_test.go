package adminui_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/adminui"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/notify/channels"
	"github.com/stint-dev/stint/internal/notify/egress"
	"github.com/stint-dev/stint/internal/notify/webhook"
)

// webhookNode is a node with a webhook, whose receiver responds with a status.
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
		d.Notifications.Preset = []operations.Channel{{Preset: true, Settings: []string{"STINT_NOTIFY_WEBHOOK_URL"}, Config: notify.Config{
			Name: "webhook", Type: notify.Webhook, Host: "hooks.example.com",
		}}}
	})
	return n, received
}

func TestNotificationsPageTestsChannelsAndHidesSecrets(t *testing.T) {
	status := &atomic.Int32{}
	status.Store(http.StatusOK)
	n, received := webhookNode(t, status)
	admin := n.as(t, "maria")
	admin.get("/notifications").is(http.StatusOK).holds("Send a test message over webhook").lacks("test message over slack").holds("STINT_NOTIFY_WEBHOOK_URL").
		lacks("hook-of-a-secret").lacks("signing-secret").holds("No message has been sent yet.")
	test := url.Values{"channel": {"webhook"}}
	admin.post("/notifications/test", test).is(http.StatusOK).holds("The test message was sent over webhook.")
	if received.Load() != 1 {
		t.Errorf("the webhook received %d messages", received.Load())
	}
	status.Store(http.StatusNotFound)
	admin.post("/notifications/test", test).is(http.StatusOK).holds("did not arrive over webhook").holds("404").lacks("hook-of-a-secret").lacks("signing-secret")
	admin.post("/notifications/test", url.Values{"channel": {"pigeon"}}).is(http.StatusUnprocessableEntity)
	if all := n.entries(t, audit.Filter{Action: "notification.test"}); len(all) != 2 {
		t.Errorf("got %d audit records of tests, want 2", len(all))
	}
	viewer := n.as(t, "vic")
	viewer.get("/notifications").is(http.StatusOK).lacks("Send a test")
	viewer.post("/notifications/test", test).is(http.StatusForbidden)
	if received.Load() != 2 {
		t.Errorf("the webhook received %d messages", received.Load())
	}
}

func TestChannelIsAddedTestedAndSilencedOnPage(t *testing.T) {
	var arrived atomic.Int32
	var path, title atomic.Value
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived.Add(1)
		path.Store(r.URL.Path)
		title.Store(r.Header.Get("Title"))
		w.Write([]byte(`{"id":"1","event":"message"}`))
	}))
	t.Cleanup(receiver.Close)
	n := newNode(t)
	admin := n.as(t, "maria")
	target := strings.Replace(receiver.URL, "http://", "ntfy://me:hunter2@", 1) + "/topic-of-a-secret?disabletls=yes"
	fields := url.Values{"name": {"phone"}, "type": {"ntfy"}, "url_secret": {target}, "kinds": {"outage", "recovery"}, "enabled": {"yes"}}
	lacks := func(a *answer) *answer { return a.lacks("hunter2").lacks("topic-of-a-secret") }
	admin.get("/notifications/channels").is(http.StatusOK).holds("Add the channel")
	for field, value := range map[string]string{"name": "No Name", "url_secret": "https://topic-of-a-secret/hunter2", "kinds": "weather", "type": "pigeon"} {
		wrong := maps.Clone(fields)
		wrong[field] = []string{value}
		lacks(admin.post("/notifications/channels", wrong)).is(http.StatusUnprocessableEntity).holds(`class="field-error"`)
	}
	admin.post("/notifications/channels", fields).is(http.StatusSeeOther)
	lacks(admin.get("/notifications")).is(http.StatusOK).holds("Send a test message over phone").holds("outage, recovery").holds("127.0.0.1")
	lacks(admin.get("/notifications/channels/phone")).is(http.StatusOK).holds(`name="url_secret" type="password"`)
	lacks(admin.post("/notifications/test", url.Values{"channel": {"phone"}})).is(http.StatusOK).holds("The test message was sent over phone.")
	if arrived.Load() != 1 || path.Load() != "/topic-of-a-secret" || title.Load() != "Test of Stint's notifications" {
		t.Errorf("received %d messages, the last at %v with the title %v", arrived.Load(), path.Load(), title.Load())
	}
	// A change without a URL keeps the stored one.
	changed := url.Values{"type": {"ntfy"}, "urgent_only": {"yes"}, "enabled": {"yes"}}
	admin.post("/notifications/channels/phone", changed).is(http.StatusPreconditionRequired)
	seen := admin.get("/notifications/channels/phone").expects()
	changed.Set("expect", seen)
	lacks(admin.post("/notifications/channels/phone", changed)).is(http.StatusSeeOther)
	admin.get("/notifications").holds("all kinds, only urgent")
	admin.post("/notifications/test", url.Values{"channel": {"phone"}}).holds("The test message was sent")
	admin.post("/notifications/channels/phone/disable", nil).is(http.StatusSeeOther)
	admin.post("/notifications/test", url.Values{"channel": {"phone"}}).is(http.StatusUnprocessableEntity)
	admin.post("/notifications/channels/phone/enable", nil).is(http.StatusSeeOther)

	operator, viewer := n.as(t, "olu"), n.as(t, "vic")
	operator.post("/notifications/channels", fields).is(http.StatusForbidden)
	// With one channel, silencing it would hide all alarms.
	desk := maps.Clone(fields)
	desk["name"], desk["kinds"] = []string{"desk"}, []string{"outage", "proposal"}
	operator.post("/notifications/silences", url.Values{"channel": {"phone"}, "for": {"1h"}, "reason": {"quiet"}}).is(http.StatusForbidden).holds("leave no alarm of an attack that is still sent")
	admin.post("/notifications/channels", desk).is(http.StatusSeeOther)
	operator.post("/notifications/silences", url.Values{"channel": {"phone"}, "for": {"1h"}}).is(http.StatusUnprocessableEntity).holds("say why")
	operator.post("/notifications/silences", url.Values{"channel": {"phone"}, "for": {"1h"}, "reason": {"the <rack> moves"}}).is(http.StatusSeeOther)
	for _, page := range []string{"/", "/audit", "/notifications", "/blocks"} {
		viewer.get(page).is(http.StatusOK).holds("Silenced: all notifications over phone").holds("the &lt;rack&gt; moves").holds("olu")
	}
	viewer.post("/notifications/silences", url.Values{"for": {"1h"}, "reason": {"none"}}).is(http.StatusForbidden)
	n.clock.advance(61 * time.Minute)
	viewer = n.as(t, "vic")
	viewer.get("/").is(http.StatusOK).lacks("the &lt;rack&gt; moves")
	// An edit of a channel that has changed since shows both, and can then be saved.
	admin = n.as(t, "maria")
	admin.post("/notifications/channels/phone/delete", url.Values{"expect": {seen}}).is(http.StatusPreconditionFailed)
	late := url.Values{"type": {"ntfy"}, "kinds": {"recovery"}, "enabled": {"yes"}, "expect": {seen}}
	conflict := lacks(admin.post("/notifications/channels/phone", late)).is(http.StatusPreconditionFailed).
		holds("saved this channel").holds("all, urgent ones only").holds(`value="recovery" checked`)
	admin.get("/notifications").holds("all kinds, only urgent")
	late.Set("expect", conflict.expects())
	admin.post("/notifications/channels/phone", late).is(http.StatusSeeOther)
	admin.post("/notifications/channels/phone/delete", url.Values{"expect": {admin.get("/notifications/channels/phone").expects()}}).is(http.StatusSeeOther)
	viewer.get("/notifications").is(http.StatusOK).lacks(">phone<")
	for _, e := range n.entries(t, audit.Filter{Limit: 1000}) {
		if text := e.Summary + string(e.Before) + string(e.After); strings.Contains(text, "hunter2") || strings.Contains(text, "topic-of-a") {
			t.Errorf("the audit record of %s contains a secret: %s", e.Action, text)
		}
	}
	if logged := n.logs.String(); strings.Contains(logged, "hunter2") {
		t.Errorf("the log contains a secret: %s", logged)
	}
}

// TestOnlyAdminsSilenceAllNotifications checks what the pages offer to an operator, and that the
// server refuses the rest.
func TestOnlyAdminsSilenceAllNotifications(t *testing.T) {
	n := newNode(t)
	admin, operator, viewer := n.as(t, "maria"), n.as(t, "olu"), n.as(t, "vic")
	const silences, sentence = "/notifications/silences", "only an admin can silence everything"
	all := func() url.Values { return url.Values{"for": {"1h"}, "reason": {"The node moves"}} }
	operator.get("/notifications").is(http.StatusOK).holds(sentence)
	admin.get("/notifications").is(http.StatusOK).lacks(sentence)
	operator.post(silences, all()).is(http.StatusForbidden).holds("only an admin silences everything").holds("The node moves")
	admin.post(silences, all()).is(http.StatusSeeOther)
	end := silences + "/" + n.entries(t, audit.Filter{Action: "silence.add"})[0].ObjectID + "/end"
	operator.get("/").is(http.StatusOK).holds("Silenced: all notifications").holds("Only an admin can end").lacks("End the silence")
	viewer.get("/").is(http.StatusOK).holds("Silenced: all notifications").lacks("Only an admin can end").lacks("End the silence")
	operator.post(end, nil).is(http.StatusForbidden)
	admin.get("/").is(http.StatusOK).holds("Silenced: all notifications").holds("End the silence")
	admin.post(end, nil).is(http.StatusSeeOther)
	admin.get("/").is(http.StatusOK).lacks("Silenced: all notifications")
	operator.post(silences, url.Values{"kind": {"report"}, "for": {"1h"}, "reason": {"The node moves"}}).is(http.StatusSeeOther)
	operator.get("/").is(http.StatusOK).holds("End the silence")
}

// TestSilenceNoticeIsAccessibleInBrowser inspects the notice of a silence, which is on all pages.
func TestSilenceNoticeIsAccessibleInBrowser(t *testing.T) {
	n := newNode(t)
	admin := n.as(t, "maria")
	for _, kind := range []string{"outage", "report"} {
		admin.post("/notifications/silences", url.Values{"kind": {kind}, "for": {"1h"}, "reason": {"The rack moves to another room"}}).is(http.StatusSeeOther)
	}
	b := newBrowser(t, n)
	b.withAxe()
	b.do(chromedp.EmulateViewport(390, 900), chromedp.Navigate(n.url+"/login"))
	b.logIn("maria")
	b.do(chromedp.Navigate(n.url + "/notifications"))
	b.audit("notifications")
	if over := run(b, chromedp.Evaluate[int]("document.documentElement.scrollWidth - innerWidth")); over > 0 {
		t.Errorf("the page is %d pixels too wide", over)
	}
	b.consoleIsClean()
}

// someNotifications are over channels that operators set up, which the node applies as
// package app does.
func someNotifications(n *node) *operations.Notifications {
	builder := channels.Builder{Client: egress.New(egress.Options{AllowPrivate: true})}
	dispatcher := notify.New(notify.Options{Store: n.store.Outbox, Node: "a", Now: n.clock.Now})
	apply := func(ctx context.Context) {
		stored, err := n.store.Channels.LoadChannels(ctx)
		if err != nil {
			return // the test fails because nothing is sent
		}
		silences, _ := n.store.Channels.FindSilences(ctx)
		var all []notify.Outlet
		for _, c := range stored {
			if made, _, err := builder.Build(c); err == nil && !c.Disabled {
				all = append(all, notify.Outlet{Channel: made, Kinds: c.Kinds, UrgentOnly: c.UrgentOnly})
			}
		}
		dispatcher.Configure(all, silences)
	}
	return &operations.Notifications{Notifier: dispatcher, Apply: apply, Outbox: n.store.Outbox, Channels: n.store.Channels, Builder: builder, Recorder: n.store.Audit, Now: n.clock.Now}
}
