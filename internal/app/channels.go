package app

import (
	"fmt"
	"net/url"
	"time"

	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/notify/egress"
	"github.com/stint-dev/stint/internal/notify/email"
	"github.com/stint-dev/stint/internal/notify/slack"
	"github.com/stint-dev/stint/internal/notify/webhook"
)

// settingsChannels returns the notification channels that the settings define.
func settingsChannels(s NotifySettings, client *egress.Client) ([]notify.Channel, error) {
	var all []notify.Channel
	if s.WebhookURL != "" {
		all = append(all, webhook.New(s.WebhookURL, s.WebhookSecret, client, time.Now))
	}
	if s.SlackURL != "" {
		all = append(all, slack.New(s.SlackURL, client))
	}
	if s.SMTPURL != "" {
		mail, err := email.New(email.Options{URL: s.SMTPURL, From: s.EmailFrom, To: s.EmailTo})
		if err != nil {
			return nil, fmt.Errorf("notifications by mail: %w", err)
		}
		all = append(all, mail)
	}
	return all, nil
}

// presetChannels returns those channels for display on the pages.
func presetChannels(s NotifySettings) []operations.Channel {
	var all []operations.Channel
	for _, one := range []struct {
		kind     notify.Type
		url      string
		settings []string
	}{
		{notify.Webhook, s.WebhookURL, []string{"STINT_NOTIFY_WEBHOOK_URL", "STINT_NOTIFY_WEBHOOK_SECRET"}},
		{notify.Slack, s.SlackURL, []string{"STINT_NOTIFY_SLACK_URL"}},
		{notify.Email, s.SMTPURL, []string{"STINT_NOTIFY_SMTP_URL", "STINT_NOTIFY_EMAIL_FROM", "STINT_NOTIFY_EMAIL_TO"}},
	} {
		if one.url == "" {
			continue
		}
		c := operations.Channel{Preset: true, Settings: one.settings, Config: notify.Config{Name: string(one.kind), Type: one.kind}}
		if u, err := url.Parse(one.url); err == nil {
			c.Host = u.Host
		}
		if one.kind == notify.Email {
			c.From, c.To = s.EmailFrom, s.EmailTo
		}
		all = append(all, c)
	}
	return all
}
