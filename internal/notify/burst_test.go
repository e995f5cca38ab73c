package notify_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/notify/egress"
	"github.com/stint-dev/stint/internal/notify/webhook"
	"github.com/stint-dev/stint/test/servers"
)

// receiver is an HTTP server that keeps the messages it receives from webhooks.
type receiver struct {
	mu     sync.Mutex
	got    []received
	answer func(received) int // the status; nil for 200
	url    string
}

type received struct {
	Kind    notify.Kind `json:"kind"`
	Subject string      `json:"subject"`
	Total   int         `json:"total"`
	Link    string      `json:"link"`
	Items   []struct {
		Subject string `json:"subject"`
	} `json:"items"`
	gone <-chan struct{} // closed when the sender has given up
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		text, err := io.ReadAll(q.Body)
		var m received
		if err != nil || json.Unmarshal(text, &m) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		m.gone = q.Context().Done()
		r.mu.Lock()
		answer := r.answer
		r.mu.Unlock()
		if answer != nil {
			if status := answer(m); status != http.StatusOK {
				w.WriteHeader(status)
				return
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, m)
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *receiver) of(kind notify.Kind) (all []received) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.got {
		if m.Kind == kind {
			all = append(all, m)
		}
	}
	return all
}

func (f *fixture) webhook(r *receiver, node string) (*notify.Dispatcher, notify.Channel) {
	c := webhook.New(r.url, "", egress.New(egress.Options{AllowPrivate: true}), f.now)
	return notify.New(notify.Options{Store: f.store.Outbox, Channels: []notify.Channel{c}, Node: node, Pages: "https://stint.example",
		Now: f.now, Log: slog.New(slog.DiscardHandler)}), c
}

func TestBlocksAreGroupedWithoutDelayingAnOutage(t *testing.T) {
	bothDatabases(t, func(f *fixture) {
		r := newReceiver(f.t)
		d, c := f.webhook(r, "a")
		send := func(all ...notify.Notification) {
			f.t.Helper()
			if err := d.Notify(f.t.Context(), all...); err != nil {
				f.t.Fatal(err)
			}
		}
		flush := func() {
			f.t.Helper()
			if err := d.Flush(f.t.Context(), c); err != nil {
				f.t.Fatal(err)
			}
		}
		burst := func(n int) {
			all := make([]notify.Notification, n)
			for i := range all {
				all[i] = notify.Notification{Kind: notify.AutomaticBlock, Subject: fmt.Sprintf("k:%d is blocked", i)}
			}
			send(all...)
		}
		burst(600)
		send(notify.Notification{Kind: notify.AutomaticBlock, Subject: "400 more keys", Happenings: 400})
		f.advance(notify.GroupWait)
		flush()
		if got := r.of(notify.AutomaticBlock); len(got) != 1 || got[0].Total != 1000 || len(got[0].Items) != notify.MaxItems ||
			got[0].Subject != "k:0 is blocked, and 999 more like it" || got[0].Link != "https://stint.example/blocks" {
			f.t.Fatalf("got the messages %+v for the first burst", got)
		}
		// When Redis goes down, the outbox has only a second burst,
		// which has to wait for its interval.
		burst(600)
		send(notify.Notification{Kind: notify.Outage, Subject: "Redis is unreachable"})
		f.advance(notify.UrgentWait)
		d, c = f.webhook(r, "b") // started again
		flush()
		if got := r.of(notify.Outage); len(got) != 1 {
			f.t.Errorf("got %d messages of the outage after %s, want 1", len(got), notify.UrgentWait)
		}
		if got := r.of(notify.AutomaticBlock); len(got) != 1 {
			f.t.Errorf("got %d messages of blocks within their interval, want 1", len(got))
		}
		f.advance(notify.GroupInterval)
		flush()
		if got := r.of(notify.AutomaticBlock); len(got) != 2 || got[1].Total != 600 {
			f.t.Errorf("got the messages %+v after the second burst", got)
		}
		if all, err := f.store.Outbox.Due(f.t.Context(), "webhook", f.now().Add(notify.GiveUpAfter)); err != nil || len(all) != 0 {
			f.t.Errorf("the outbox still has %d messages, %v", len(all), err)
		}
	})
}

func TestRetriedMessagesDelayNoOthers(t *testing.T) {
	bothDatabases(t, func(f *fixture) {
		r := newReceiver(f.t)
		r.answer = func(m received) int {
			if strings.HasPrefix(m.Subject, "refused") {
				return http.StatusServiceUnavailable
			}
			return http.StatusOK
		}
		d, c := f.webhook(r, "a")
		steps := []notify.Notification{
			{Kind: notify.Proposal, Subject: "refused proposal"}, {Kind: notify.Outage, Subject: "refused outage"},
			{Kind: notify.Proposal, Subject: "proposal"}, {Kind: notify.Outage, Subject: "outage"},
			{Kind: notify.AutomaticBlock, Subject: "block"}, {Kind: notify.JobFailed, Subject: "job"},
		}
		for _, n := range steps {
			if err := d.Notify(f.t.Context(), n); err != nil {
				f.t.Fatal(err)
			}
			f.advance(notify.GroupWait)
			if err := d.Flush(f.t.Context(), c); err != nil {
				f.t.Fatal(err)
			}
		}
		for _, kind := range []notify.Kind{notify.Proposal, notify.Outage, notify.AutomaticBlock, notify.JobFailed} {
			if got := r.of(kind); len(got) != 1 {
				f.t.Errorf("got %d messages of %s, want 1", len(got), kind)
			}
		}
	})
}

// TestSlowReceiverDoesNotDelayUrgentMessages runs the dispatcher with
// a receiver that hangs on a message of blocks.
func TestSlowReceiverDoesNotDelayUrgentMessages(t *testing.T) {
	bothDatabases(t, func(f *fixture) {
		r := newReceiver(f.t)
		hanging, released := make(chan (<-chan struct{}), 1), make(chan struct{})
		r.answer = func(m received) int {
			if m.Kind == notify.AutomaticBlock {
				hanging <- m.gone
				<-released
			}
			return http.StatusOK
		}
		d, _ := f.webhook(r, "a")
		ctx, cancel := context.WithCancel(f.t.Context())
		var running sync.WaitGroup
		running.Go(func() { d.Run(ctx) })
		defer running.Wait()
		defer cancel()
		defer close(released)
		send := func(kind notify.Kind) {
			f.t.Helper()
			if err := d.Notify(f.t.Context(), notify.Notification{Kind: kind, Subject: string(kind)}); err != nil {
				f.t.Fatal(err)
			}
			f.advance(notify.GroupWait)
		}
		send(notify.AutomaticBlock)
		gone := <-hanging
		send(notify.Outage)
		servers.Await(f.t, "the outage is sent", func() bool { return len(r.of(notify.Outage)) > 0 })
		select {
		case <-gone:
			f.t.Error("the outage was sent only after the message of blocks had been given up")
		default:
		}
	})
}
