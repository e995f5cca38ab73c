// Package slack posts notifications as JSON for Slack's incoming webhooks. Mattermost,
// Rocket.Chat and Discord's /slack accept it too.
package slack

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/escape"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/notify/egress"
)

// Channel is an incoming webhook.
type Channel struct {
	url    string
	client *egress.Client
}

// New returns the channel of an incoming webhook's URL.
func New(url string, client *egress.Client) *Channel { return &Channel{url, client} }

// Name returns "slack".
func (*Channel) Name() string { return "slack" }

// maxText keeps a message within the length that Slack shows in full.
const maxText = 3000

// Send posts m.
func (c *Channel) Send(ctx context.Context, m notify.Message) error {
	var text strings.Builder
	fmt.Fprintf(&text, "*%s*", plain(m.Subject))
	text.WriteString("\n" + m.Lines(maxText, plain))
	body, err := json.Marshal(map[string]string{"text": text.String()})
	if err != nil {
		return notify.Permanent(fmt.Errorf("encode: %w", err))
	}
	return c.client.Post(ctx, c.url, "application/json", body, nil)
}

// plain writes invisible characters as code points, and prevents text from being read as
// markup: it applies Slack's three escapes, and breaks the formatting signs, mentions and links
// of the others with a zero-width space.
func plain(s string) string { return signs.Replace(escape.Visible(s)) }

var signs = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;",
	"*", "*\u200b", "_", "_\u200b", "~", "~\u200b", "`", "`\u200b", "@", "@\u200b", "]", "]\u200b", "|", "|\u200b")
