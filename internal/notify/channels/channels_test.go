package channels_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/notify/channels"
	"github.com/stint-dev/stint/internal/notify/egress"
)

// secret is in every URL and signing secret of the tests, so that an error may be searched
// for it.
const secret = "hunter2-4f9c"

// TestBuildErrorNamesTheFieldAndNoSecret builds channels with invalid configurations.
func TestBuildErrorNamesTheFieldAndNoSecret(t *testing.T) {
	const mail = "smtp://user:" + secret + "@mail.example:587"
	to := []string{"ops@example.org"}
	tests := []struct {
		name, field string
		config      notify.Config
	}{
		{"an unknown type", "type", notify.Config{Type: "pager", Secrets: notify.Secrets{URL: "https://host/" + secret}}},
		{"no type", "type", notify.Config{Secrets: notify.Secrets{URL: "https://host/" + secret}}},
		{"a webhook without a URL", "url", notify.Config{Type: notify.Webhook}},
		{"a webhook of another scheme", "url", notify.Config{Type: notify.Webhook, Secrets: notify.Secrets{URL: "ftp://host/" + secret}}},
		{"a webhook without a host", "url", notify.Config{Type: notify.Webhook, Secrets: notify.Secrets{URL: "https:///" + secret}}},
		{"a webhook whose URL does not parse", "url", notify.Config{Type: notify.Webhook, Secrets: notify.Secrets{URL: "https://user:" + secret + "@host/%zz"}}},
		{"a webhook whose port does not parse", "url", notify.Config{Type: notify.Webhook, Secrets: notify.Secrets{URL: "https://host:" + secret + "/"}}},
		{"a webhook with recipients", "to", notify.Config{Type: notify.Webhook, To: to, Secrets: notify.Secrets{URL: "https://host/" + secret}}},
		{"a webhook with a sender", "to", notify.Config{Type: notify.Webhook, From: to[0], Secrets: notify.Secrets{URL: "https://host/" + secret}}},
		{"Slack that signs", "signing_secret", notify.Config{Type: notify.Slack, Secrets: notify.Secrets{URL: "https://host/" + secret, Signing: secret}}},
		{"Slack of another scheme", "url", notify.Config{Type: notify.Slack, Secrets: notify.Secrets{URL: "slack://" + secret + "@host"}}},
		{"mail without recipients", "to", notify.Config{Type: notify.Email, From: to[0], Secrets: notify.Secrets{URL: mail}}},
		{"mail to an invalid address", "to", notify.Config{Type: notify.Email, From: to[0], To: []string{"ops"}, Secrets: notify.Secrets{URL: mail}}},
		{"mail without a sender", "from", notify.Config{Type: notify.Email, To: to, Secrets: notify.Secrets{URL: mail}}},
		{"mail over another scheme", "url", notify.Config{Type: notify.Email, From: to[0], To: to, Secrets: notify.Secrets{URL: "https://user:" + secret + "@mail.example"}}},
		{"mail that signs", "signing_secret", notify.Config{Type: notify.Email, From: to[0], To: to, Secrets: notify.Secrets{URL: mail, Signing: secret}}},
		{"ntfy with the URL of a webhook", "url", notify.Config{Type: notify.Ntfy, Secrets: notify.Secrets{URL: "https://host/" + secret}}},
		{"Gotify with the URL of Discord", "url", notify.Config{Type: notify.Gotify, Secrets: notify.Secrets{URL: "discord://" + secret + "@1"}}},
		{"Discord without a token", "url", notify.Config{Type: notify.Discord, Secrets: notify.Secrets{URL: "discord://" + secret}}},
		{"Telegram without chats", "url", notify.Config{Type: notify.Telegram, Secrets: notify.Secrets{URL: "telegram://" + secret + "@telegram"}}},
		{"Pushover without a user", "url", notify.Config{Type: notify.Pushover, Secrets: notify.Secrets{URL: "pushover://shoutrrr:" + secret + "@"}}},
	}
	b := channels.Builder{Client: egress.New(egress.Options{})}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.config.Name = "ops"
			made, host, err := b.Build(test.config)
			var refused *fault.Error
			if !errors.As(err, &refused) || refused.Field != test.field {
				t.Fatalf("Build: got %v, %q and %v, want a fault of %s", made, host, err, test.field)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error contains the secret: %s", err)
			}
		})
	}
}

// TestBuildAcceptsTheExampleURLOfEachType builds a channel of every type from a URL in the
// format that errors show.
func TestBuildAcceptsTheExampleURLOfEachType(t *testing.T) {
	b := channels.Builder{Client: egress.New(egress.Options{})}
	examples := map[notify.Type]string{
		notify.Gotify: "gotify://host/AzyoeNS.D4iJLVa", notify.Telegram: "telegram://110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw@telegram?chats=@channel",
	}
	for _, of := range notify.Types() {
		kind := of.Type
		t.Run(string(kind), func(t *testing.T) {
			form := of.URL
			scheme, _, _ := strings.Cut(form, "://")
			config := notify.Config{Name: "ops", Type: kind, Secrets: notify.Secrets{URL: form}}
			if example, is := examples[kind]; is { // tokens have a form of their own
				config.Secrets.URL = example
			}
			if !strings.HasPrefix(config.Secrets.URL, scheme+"://") {
				t.Fatalf("the format of the URL is %s, the example %s", form, config.Secrets.URL)
			}
			if kind == notify.Email {
				config.From, config.To = "stint@example.org", []string{"ops@example.org"}
			}
			made, host, err := b.Build(config)
			if err != nil {
				t.Fatal(err)
			}
			if made.Name() != "ops" || host == "" {
				t.Errorf("Build: got the channel %q at %q", made.Name(), host)
			}
		})
	}
}
