package services_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/notify/egress"
	"github.com/stint-dev/stint/internal/notify/services"
)

var message = notify.Message{Kind: notify.Outage, Subject: "Redis is unreachable from node a", Total: 1, Link: "https://stint.example.com/",
	Items: []notify.Notification{{Kind: notify.Outage, Subject: "Redis is unreachable from node a", Text: "Checks of <b>it</b> are decided locally."}}}

const text = "Checks of <b>it</b> are decided locally.\nhttps://stint.example.com/"

func newChannel(t *testing.T, target string, private bool) *services.Channel {
	t.Helper()
	c, err := services.New("phone", target, egress.New(egress.Options{AllowPrivate: private}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestMessagesArriveInTheFormatOfTheService sends to receivers that answer as ntfy and
// Gotify do.
func TestMessagesArriveInTheFormatOfTheService(t *testing.T) {
	t.Run("ntfy", func(t *testing.T) {
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			user, password, _ := r.BasicAuth()
			if r.Method != http.MethodPost || r.URL.Path != "/alerts" || r.Header.Get("Title") != message.Subject || string(body) != text || user+password != "mepass" {
				t.Errorf("got %s %s, the title %q, the user %q and %q", r.Method, r.URL.Path, r.Header.Get("Title"), user, body)
			}
			io.WriteString(w, `{"id":"hwQ2YpKdmg","time":1635528741,"event":"message","topic":"alerts","message":"x"}`)
		}))
		defer receiver.Close()
		c := newChannel(t, strings.Replace(receiver.URL, "http://", "ntfy://me:pass@", 1)+"/alerts?disabletls=yes", true)
		for range 2 {
			if err := c.Send(t.Context(), message); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("gotify", func(t *testing.T) {
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var got struct {
				Title, Message string
			}
			if err := json.UnmarshalRead(r.Body, &got, json.MatchCaseInsensitiveNames(true)); err != nil {
				t.Error(err)
			}
			if r.URL.Path != "/message" || r.URL.Query().Get("token") != "AbcdefghijklmnO" || got.Title != message.Subject || got.Message != text {
				t.Errorf("got %s %q", r.URL, got)
			}
			io.WriteString(w, `{"id":25,"appid":5,"message":"x","title":"y","priority":0,"date":"2026-02-27T19:36:10Z"}`)
		}))
		defer receiver.Close()
		c := newChannel(t, strings.Replace(receiver.URL, "http://", "gotify://", 1)+"/AbcdefghijklmnO?disabletls=yes", true)
		if err := c.Send(t.Context(), message); err != nil {
			t.Fatal(err)
		}
	})
}

// TestTitleOfALongKeyIsCut sends to a receiver that refuses long titles, as Discord and Pushover
// do: a key that somebody chose must not keep its block from being notified.
func TestTitleOfALongKeyIsCut(t *testing.T) {
	for _, sign := range []string{"a", "*", "\x01", "\u202e", "é"} {
		subject := "token:" + strings.Repeat(sign, 500/len(sign)) + " is blocked for 1h"
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			title := r.Header.Get("Title")
			if len(title) > 250 {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			if !strings.HasPrefix(title, "token:") || !strings.HasSuffix(title, "...") {
				t.Errorf("%q: got the title %q", sign, title)
			}
			io.WriteString(w, `{"id":"hwQ2YpKdmg","time":1635528741,"event":"message","topic":"alerts","message":"x"}`)
		}))
		c := newChannel(t, strings.Replace(receiver.URL, "http://", "ntfy://", 1)+"/alerts?disabletls=yes", true)
		m := notify.Message{Subject: subject, Total: 1, Items: []notify.Notification{{Subject: subject, Text: subject}}}
		if err := c.Send(t.Context(), m); err != nil {
			t.Errorf("%q: %v", sign, err)
		}
		receiver.Close()
	}
}

// TestStatusDecidesWhetherToRetry also checks that the library neither
// retries nor follows a redirect.
func TestStatusDecidesWhetherToRetry(t *testing.T) {
	for status, permanent := range map[int]bool{403: true, 404: true, 302: true, 429: false, 500: false, 503: false} {
		var calls atomic.Int32
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			calls.Add(1)
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			io.WriteString(w, `{"code":40301,"http":403,"error":"forbidden"}`)
		}))
		for _, scheme := range []string{"ntfy", "gotify"} {
			calls.Store(0)
			err := newChannel(t, strings.Replace(receiver.URL, "http", scheme, 1)+"/AbcdefghijklmnO?disabletls=yes", true).Send(t.Context(), message)
			if err == nil || notify.IsPermanent(err) != permanent || calls.Load() != 1 {
				t.Errorf("%s, status %d: got %v, permanent %v, after %d requests", scheme, status, err, notify.IsPermanent(err), calls.Load())
			}
		}
		receiver.Close()
	}
}

func TestAnswerOfAnotherServerIsAPermanentError(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>Welcome") }))
	defer receiver.Close()
	err := newChannel(t, strings.Replace(receiver.URL, "http", "ntfy", 1)+"/topic?disabletls=yes", true).Send(t.Context(), message)
	if err == nil || !notify.IsPermanent(err) || !strings.Contains(err.Error(), "not as ntfy does") {
		t.Errorf("got %v", err)
	}
}

// urls contain the word secret in place of each secret.
var urls = []string{
	"ntfy://me:secret@ntfy.example.com/secret", "gotify://gotify.example.com/Asecretsecretse", "discord://secret@123456",
	"telegram://110201543:AAsecretsecretsecretsecretsecretsec@telegram?chats=@ops", "pushover://shoutrrr:secret@secret",
}

// TestSendReportsEveryFailure needs no network: the context has ended before the first
// request. The library returns no error for Telegram in this case.
func TestSendReportsEveryFailure(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for _, target := range urls {
		err := newChannel(t, target, false).Send(ended, message)
		if err == nil || strings.Contains(err.Error(), "secret") || notify.IsPermanent(err) {
			t.Errorf("%s: got %v", target, err)
		}
	}
}

func TestPrivateAddressIsRefused(t *testing.T) {
	for _, target := range []string{"ntfy://169.254.169.254/latest?disabletls=yes", "gotify://127.0.0.1:1/AbcdefghijklmnO?disabletls=yes"} {
		err := newChannel(t, target, false).Send(t.Context(), message)
		if err == nil || !notify.IsPermanent(err) || !strings.Contains(err.Error(), "the setting notify-allow-private") {
			t.Errorf("%s: got %v", target, err)
		}
	}
}

func TestNewRejectsBadURLsWithoutShowingSecrets(t *testing.T) {
	for _, target := range []string{
		"", "secret", "https://secret", "ntfy://secret", "discord://secret", "discord://secret@1/raw", "telegram://secret@telegram?chats=@ops", "pushover://secret",
		"ntfy://secret@host/topic?nothing=secret", "smtp://secret", "gotify://%zzsecret",
	} {
		_, err := services.New("phone", target, egress.New(egress.Options{}))
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v", target, err)
		}
	}
}
