package slack

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/notify/egress"
)

func TestMarkupIsEscaped(t *testing.T) {
	var text []byte
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ = io.ReadAll(r.Body)
	}))
	defer receiver.Close()
	c := New(receiver.URL, egress.New(egress.Options{AllowPrivate: true}))
	m := notify.Message{Subject: "Blocked", Total: 30, Items: []notify.Notification{
		{Subject: "token:<!channel> *bold* <http://evil|click> @everyone [ok](https://evil.example) a\u202eb"}, {Subject: strings.Repeat("x", 4000)},
	}}
	if err := c.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	var body struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(text, &body); err != nil {
		t.Fatal(err)
	}
	for _, markup := range []string{"<!channel>", "<http", "*bold*", "@everyone", "](", "\u202e"} {
		if strings.Contains(body.Text, markup) {
			t.Errorf("%q is sent as markup: %s", markup, body.Text)
		}
	}
	if len(body.Text) > maxText+100 || !strings.Contains(body.Text, "and 29 more") {
		t.Errorf("got %d bytes: %s", len(body.Text), body.Text)
	}
}
