// Package services sends notifications to push and chat services: ntfy, Gotify, Discord,
// Telegram and Pushover. The library shoutrrr implements their protocols and the syntax of
// their URLs. Its requests go through the client of package egress, which refuses private
// addresses and redirects, always verifies certificates, and decides by the status of the
// response.
package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nicholas-fedor/shoutrrr/pkg/services/chat/discord"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/chat/telegram"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/push/gotify"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/push/ntfy"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/push/pushover"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"
	"github.com/nicholas-fedor/shoutrrr/pkg/util/jsonclient"

	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/notify/egress"
)

// Channel sends to one service.
type Channel struct {
	name   string
	url    *url.URL
	client *egress.Client
}

// hosts are the hosts of the services with a fixed one; "" if the URL names the server.
var hosts = map[string]string{
	ntfy.Scheme: "", gotify.Scheme: "", discord.Scheme: "discord.com", telegram.Scheme: "api.telegram.org", pushover.Scheme: "api.pushover.net",
}

// New returns the channel of a URL in shoutrrr's syntax, for example
// ntfy://user:password@host/topic. Its error contains no part of the URL.
func New(name, target string, client *egress.Client) (*Channel, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, errors.New("this is not a URL")
	}
	c := &Channel{name: name, url: u, client: client}
	if _, known := hosts[u.Scheme]; !known {
		return nil, fmt.Errorf("the URL must begin with the name of a service, one of %s", strings.Join(slices.Sorted(maps.Keys(hosts)), ", "))
	}
	if _, err := c.service(http.DefaultClient); err != nil {
		// The library's error contains the token.
		return nil, fmt.Errorf("the URL is not a valid URL of %s", u.Scheme)
	}
	return c, nil
}

// Host returns the host to which requests for a valid URL of a service are sent.
func Host(u *url.URL) string {
	if host := hosts[u.Scheme]; host != "" {
		return host
	}
	return u.Host
}

// Name returns the name that operators gave the channel.
func (c *Channel) Name() string { return c.name }

// maxText and maxPushover keep a message within the length that the services and Pushover show.
// maxTitle keeps a title within what Pushover (250 characters) and Discord (256) accept: they
// refuse a message with a longer one.
const (
	maxText     = 3000
	maxPushover = 1024
	maxTitle    = 250
)

// Send sends m as a title and plain text.
func (c *Channel) Send(ctx context.Context, m notify.Message) error {
	sent := &transport{ctx: ctx, client: c.client}
	client := &http.Client{Transport: sent}
	if c.url.Scheme == telegram.Scheme {
		// This service has no client of its own; the library shares one client among all.
		select {
		case shared <- struct{}{}:
			defer func() { <-shared }()
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func(before jsonclient.Client) { jsonclient.DefaultClient = before }(jsonclient.DefaultClient)
		jsonclient.DefaultClient = jsonclient.NewWithHTTPClient(client)
	}
	// A new one for each message: the library's services keep parameters of the previous
	// message.
	service, err := c.service(client)
	if err != nil {
		return notify.Permanent(errors.New("the URL is not a valid URL of its service"))
	}
	clean, most := cleaner(c.url.Scheme == discord.Scheme), maxText
	if c.url.Scheme == pushover.Scheme {
		most = maxPushover
	}
	subject, text := m.Title(maxTitle, clean), m.Lines(most, clean)
	params := &types.Params{}
	if c.url.Scheme == telegram.Scheme {
		text = subject + "\n" + text // a title would switch to HTML
	} else {
		params.SetTitle(subject)
	}
	err = service.Send(text, params)
	switch {
	case sent.failed != nil:
		return sent.failed
	case err != nil && sent.answers > 0:
		return notify.Permanent(errors.New("the receiver answered, but not as " + c.url.Scheme + " does"))
	case err != nil || sent.answers == 0:
		// The library's error may contain the URL, and for some failures it returns no error.
		return notify.Permanent(errors.New("the message could not be created for " + c.url.Scheme))
	}
	return nil
}

// shared is a lock for the library's shared client.
var shared = make(chan struct{}, 1)

// service returns the library's service with client. Its error may contain the URL.
func (c *Channel) service(client *http.Client) (types.Service, error) {
	u := *c.url // the library writes to it
	switch u.Scheme {
	case ntfy.Scheme:
		s := &ntfy.Service{}
		err := s.Initialize(&u, nil)
		s.SetHTTPClient(client)
		return s, err
	case gotify.Scheme:
		s := &gotify.Service{}
		if err := s.Initialize(&u, nil); err != nil {
			return nil, err
		}
		*s.GetHTTPClient() = http.Client{Transport: client.Transport}
		return s, nil
	case discord.Scheme:
		s := &discord.Service{}
		err := s.Initialize(&u, nil)
		s.HTTPClient, s.Sleeper = client, noSleep{}
		if err == nil && s.Config.JSON {
			err = errors.New("it takes text, not JSON")
		}
		return s, err
	case telegram.Scheme:
		s := &telegram.Service{}
		err := s.Initialize(&u, nil)
		if err == nil && s.Config.ParseMode != telegram.ParseModes.None {
			err = errors.New("it takes text without markup")
		}
		return s, err
	default:
		s := &pushover.Service{}
		err := s.Initialize(&u, nil)
		s.Client = client
		return s, err
	}
}

// noSleep prevents retries by the library: the outbox retries, also after a restart.
type noSleep struct{}

func (noSleep) Sleep(time.Duration) {}

// maxAnswer bounds how much of a response is read, in bytes.
const maxAnswer = 64 << 10

// transport sends the requests of one message. It keeps the first failure, after which it sends
// no more.
type transport struct {
	ctx     context.Context
	client  *egress.Client
	answers int
	failed  error
}

var errEnded = errors.New("the message has failed")

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.failed != nil {
		return nil, errEnded
	}
	response, err := t.client.Do(r.WithContext(t.ctx))
	if err != nil {
		t.failed = err
		return nil, errEnded
	}
	if t.failed = egress.CheckStatus(response.StatusCode); t.failed != nil {
		response.Body.Close()
		return nil, errEnded
	}
	t.answers++
	response.Body = limited{io.LimitReader(response.Body, maxAnswer), response.Body}
	return response, nil
}

type limited struct {
	io.Reader
	io.Closer
}

// discordSigns escapes Discord's markup, and breaks mentions and links.
var discordSigns = strings.NewReplacer("\\", "\\\\", "*", "\\*", "_", "\\_", "~", "\\~", "`", "\\`", "|", "\\|", ">", "\\>", "<", "\\<",
	"#", "\\#", "-", "\\-", "[", "\\[", "]", "\\]", "(", "\\(", ")", "\\)", "@", "@\u200b")

// cleaner returns a function that writes invisible characters as code points and, for Discord,
// escapes its markup: attackers choose the keys in a text.
func cleaner(isDiscord bool) func(string) string {
	return func(text string) string {
		if text = escape.Visible(text); isDiscord {
			text = discordSigns.Replace(text)
		}
		return text
	}
}
