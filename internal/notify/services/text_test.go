package services

import (
	"context"
	"errors"
	"testing"

	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/notify/egress"
)

func TestMarkupInKeysIsEscaped(t *testing.T) {
	m := notify.Message{Subject: "user:\u202eevil", Total: 1, Items: []notify.Notification{{Text: "user:[x](https://evil.example) **a** @everyone <@1>\nip"}}}
	if subject, text := cleaner(false)(m.Subject), m.Lines(maxText, cleaner(false)); subject != "user:U+202Eevil" || text != m.Items[0].Text {
		t.Errorf("got %q, %q", subject, text)
	}
	want := "user:\\[x\\]\\(https://evil.example\\) \\*\\*a\\*\\* @\u200beveryone \\<@\u200b1\\>\nip"
	if got := m.Lines(maxText, cleaner(true)); got != want {
		t.Errorf("text for Discord: got %q, want %q", got, want)
	}
}

func TestTelegramMessageStopsWaitingWhenTheContextEnds(t *testing.T) {
	const target = "telegram://110201543:AAsecretsecretsecretsecretsecretsec@telegram?chats=@ops"
	c, err := New("phone", target, egress.New(egress.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	shared <- struct{}{} // another message is being sent
	defer func() { <-shared }()
	ended, end := context.WithCancel(t.Context())
	end()
	if err := c.Send(ended, notify.Message{Items: []notify.Notification{{Text: "x"}}}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := New("phone", target+"&parsemode=markdown", egress.New(egress.Options{})); err == nil {
		t.Error("a parse mode is accepted")
	}
}
