// Package webhook posts notifications as JSON, signed.
package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/notify/egress"
)

// SignatureHeader contains "t=<Unix seconds>,v1=<hex>": the HMAC-SHA256, with the shared
// secret, of the seconds, a dot and the body. A receiver should refuse signatures older than a
// few minutes, so that requests cannot be replayed.
const SignatureHeader = "Stint-Signature"

// Channel is a webhook.
type Channel struct {
	url    string
	secret []byte
	client *egress.Client
	now    func() time.Time
}

// New returns the webhook at url; an empty secret means no signature.
func New(url, secret string, client *egress.Client, now func() time.Time) *Channel {
	return &Channel{url, []byte(secret), client, now}
}

// Name returns "webhook".
func (*Channel) Name() string { return "webhook" }

type body struct {
	Kind    notify.Kind `json:"kind"`
	Subject string      `json:"subject"`
	Node    string      `json:"node"`
	Total   int         `json:"total"`
	Items   []item      `json:"items"`
	Link    string      `json:"link,omitzero"`
}

type item struct {
	ID      int64             `json:"id"`
	At      string            `json:"at"`
	Subject string            `json:"subject"`
	Text    string            `json:"text"`
	Facts   map[string]string `json:"facts"`
}

// Send posts m.
func (c *Channel) Send(ctx context.Context, m notify.Message) error {
	b := body{Kind: m.Kind, Subject: m.Subject, Node: m.Node, Total: m.Total, Link: m.Link}
	for _, n := range m.Items {
		b.Items = append(b.Items, item{n.ID, n.At.UTC().Format("2006-01-02T15:04:05.000Z"), n.Subject, n.Text, n.Facts})
	}
	text, err := json.Marshal(b, json.Deterministic(true))
	if err != nil {
		return notify.Permanent(fmt.Errorf("encode: %w", err))
	}
	header := http.Header{}
	if len(c.secret) > 0 {
		header.Set(SignatureHeader, Sign(c.secret, c.now(), text))
	}
	return c.client.Post(ctx, c.url, "application/json", text, header)
}

// Sign returns the value of SignatureHeader.
func Sign(secret []byte, at time.Time, body []byte) string {
	seconds := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(seconds + "."))
	mac.Write(body)
	return "t=" + seconds + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}
