package app

import (
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/notify/egress"
	"github.com/stint-dev/stint/internal/notify/email"
	"github.com/stint-dev/stint/internal/notify/slack"
	"github.com/stint-dev/stint/internal/notify/webhook"
)

// channels returns the notification channels of the settings.
func channels(s NotifySettings) ([]notify.Channel, error) {
	var all []notify.Channel
	client := egress.New(egress.Options{AllowPrivate: s.AllowPrivate})
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
