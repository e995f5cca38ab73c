// Package channels builds the channels that operators configured.
package channels

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/notify/egress"
	"github.com/stint-dev/stint/internal/notify/email"
	"github.com/stint-dev/stint/internal/notify/services"
	"github.com/stint-dev/stint/internal/notify/slack"
	"github.com/stint-dev/stint/internal/notify/webhook"
)

// Builder builds channels that use its client.
type Builder struct{ Client *egress.Client }

// named is a channel with the name that operators gave it.
type named struct {
	notify.Channel
	name string
}

// Name returns the operators' name.
func (n named) Name() string { return n.name }

// Build returns the channel of c and the host that it sends to. The error is a *fault.Error
// that names the field. Errors contain no secret.
func (b Builder) Build(c notify.Config) (notify.Channel, string, error) {
	t, known := notify.FindType(c.Type)
	if !known {
		return nil, "", fault.Field("type", "must be one of %s", strings.Join(notify.TypeNames(), ", "))
	}
	if c.Secrets.Signing != "" && c.Type != notify.Webhook {
		return nil, "", fault.Field("signing_secret", "signs webhooks only; leave it empty")
	}
	if c.Type != notify.Email && (c.From != "" || len(c.To) > 0) {
		return nil, "", fault.Field("to", "is for channels of the type email only")
	}
	u, err := url.Parse(c.Secrets.URL)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return nil, "", fault.Field("url", "is not a URL; write %s", t.URL)
	}
	switch c.Type {
	case notify.Webhook, notify.Slack:
		if u.Scheme != "https" && u.Scheme != "http" {
			return nil, "", fault.Field("url", "must begin with https:// or http://")
		}
		if c.Type == notify.Slack {
			return named{slack.New(c.Secrets.URL, b.Client), c.Name}, u.Host, nil
		}
		return named{webhook.New(c.Secrets.URL, c.Secrets.Signing, b.Client, time.Now), c.Name}, u.Host, nil
	case notify.Email:
		made, err := email.New(email.Options{URL: c.Secrets.URL, From: c.From, To: c.To, DialContext: b.Client.DialContext})
		if err != nil {
			return nil, "", emailFault(err)
		}
		return named{made, c.Name}, u.Host, nil
	default:
		if u.Scheme != string(c.Type) {
			return nil, "", fault.Field("url", "does not fit the type; write %s", t.URL)
		}
		made, err := services.New(c.Name, c.Secrets.URL, b.Client)
		if err != nil {
			return nil, "", fault.Field("url", "is refused: %s; write %s", err, t.URL)
		}
		return made, services.Host(u), nil
	}
}

// emailFault returns the fault for an error of a mail channel, with the field that it concerns.
func emailFault(err error) error {
	field := "url"
	switch {
	case errors.Is(err, email.ErrSender):
		field = "from"
	case errors.Is(err, email.ErrRecipients):
		field = "to"
	}
	return fault.Field(field, "is refused: %s", err)
}
