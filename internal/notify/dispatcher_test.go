package notify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

func TestMain(m *testing.M) { servers.Main(m) }

// recorder is a channel that keeps its messages, or fails with an error.
type recorder struct {
	sent   []notify.Message
	fail   error
	during func() // called while a message is sent
}

func (r *recorder) Name() string { return "recorder" }

func (r *recorder) Send(_ context.Context, m notify.Message) error {
	if r.fail != nil {
		return r.fail
	}
	r.sent = append(r.sent, m)
	if r.during != nil {
		r.during()
	}
	return nil
}

type fixture struct {
	*notify.Dispatcher
	t       *testing.T
	store   *sqlstore.Store
	channel *recorder
	ms      atomic.Int64
}

func (f *fixture) now() time.Time          { return time.UnixMilli(f.ms.Load()).UTC() }
func (f *fixture) advance(d time.Duration) { f.ms.Add(d.Milliseconds()) }

func (f *fixture) dispatcher(node string) *notify.Dispatcher {
	return notify.New(notify.Options{Store: f.store.Outbox, Channels: []notify.Channel{f.channel}, Node: node,
		Now: f.now, Log: slog.New(slog.DiscardHandler)})
}

func (f *fixture) notify(kind notify.Kind, subject string) {
	f.t.Helper()
	if err := f.Notify(f.t.Context(), notify.Notification{Kind: kind, Subject: subject, Facts: map[string]string{"key": subject}}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) flush() {
	f.t.Helper()
	if err := f.Flush(f.t.Context(), f.channel); err != nil {
		f.t.Fatal(err)
	}
}

func bothDatabases(t *testing.T, test func(f *fixture)) {
	for name, url := range map[string]func(t *testing.T) string{
		"SQLite":   func(t *testing.T) string { return storetest.Migrated.SQLite(t) },
		"Postgres": func(t *testing.T) string { return storetest.Migrated.Postgres(t).URL },
	} {
		t.Run(name, func(t *testing.T) {
			store, err := sqlstore.Open(t.Context(), url(t), sqlstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { store.Close() })
			f := &fixture{t: t, store: store, channel: &recorder{}}
			f.ms.Store(1_795_000_000_000)
			f.Dispatcher = f.dispatcher("a")
			test(f)
		})
	}
}

func TestNotificationsOfAnAttackAreGrouped(t *testing.T) {
	bothDatabases(t, func(f *fixture) {
		for i := range 100 {
			f.notify(notify.AutomaticBlock, fmt.Sprintf("Blocked ip:203.0.113.%d", i))
		}
		f.notify(notify.Proposal, "Block 203.0.113.0/24?")
		f.flush()
		if len(f.channel.sent) != 0 {
			f.t.Fatalf("got %d messages before the group interval, want none", len(f.channel.sent))
		}
		f.advance(notify.GroupWait)
		f.flush()
		if len(f.channel.sent) != 2 {
			f.t.Fatalf("got %d messages, want 2", len(f.channel.sent))
		}
		m := f.channel.sent[1] // proposals are sent first
		if m.Total != 100 || len(m.Items) != notify.MaxItems || m.Items[0].Facts["key"] != "Blocked ip:203.0.113.0" ||
			m.Subject != "Blocked ip:203.0.113.0, and 99 more like it" {
			f.t.Errorf("got %d items of %d with the subject %q", len(m.Items), m.Total, m.Subject)
		}
		f.notify(notify.AutomaticBlock, "Blocked ip:198.51.100.1")
		f.advance(notify.GroupWait)
		f.flush()
		if len(f.channel.sent) != 2 {
			f.t.Error("a second message of the kind was sent before its interval")
		}
		f.advance(notify.GroupInterval)
		f.flush()
		if len(f.channel.sent) != 3 {
			f.t.Error("the second message was not sent after its interval")
		}
	})
}

func TestFailedMessageIsRetriedLaterAndSentOnce(t *testing.T) {
	bothDatabases(t, func(f *fixture) {
		f.notify(notify.Outage, "Redis is unreachable")
		f.advance(notify.GroupWait)
		f.channel.fail = errors.New("connection refused")
		f.flush()
		f.channel.fail = nil
		f.flush()
		if len(f.channel.sent) != 0 {
			f.t.Error("the message was retried at once")
		}
		f.advance(2 * notify.FirstRetry)
		f.flush()
		f.flush()
		if len(f.channel.sent) != 1 {
			f.t.Errorf("the message was sent %d times, want 1", len(f.channel.sent))
		}
		all, err := f.store.Outbox.Deliveries(f.t.Context(), 10)
		if err != nil || len(all) != 1 || all[0].Attempts != 2 || !all[0].Sent.Equal(f.now()) || all[0].Err != "" {
			f.t.Errorf("Deliveries: got %+v, %v", all, err)
		}
	})
}

func TestPermanentErrorIsRecordedAndNotRetried(t *testing.T) {
	bothDatabases(t, func(f *fixture) {
		f.notify(notify.Outage, "Redis is unreachable")
		f.advance(notify.GroupWait)
		f.channel.fail = notify.Permanent(errors.New("the receiver answered 404"))
		f.flush()
		f.channel.fail = nil
		f.advance(notify.GiveUpAfter)
		f.flush()
		all, err := f.store.Outbox.Deliveries(f.t.Context(), 10)
		if err != nil || len(f.channel.sent) != 0 || all[0].Failed.IsZero() || !strings.Contains(all[0].Err, "404") {
			f.t.Errorf("sent %d messages; Deliveries: got %+v, %v", len(f.channel.sent), all, err)
		}
	})
}

func TestOutboxIsSentByAnotherNode(t *testing.T) {
	bothDatabases(t, func(f *fixture) {
		f.notify(notify.EscalationPaused, "The escalation of default is paused")
		f.advance(notify.GroupWait)
		f.Dispatcher = f.dispatcher("b")
		f.flush()
		if len(f.channel.sent) != 1 || f.channel.sent[0].Node != "b" {
			f.t.Errorf("got %+v", f.channel.sent)
		}
	})
}

func TestTwoNodesWithOneNameSendEachMessageOnce(t *testing.T) {
	bothDatabases(t, func(f *fixture) {
		f.notify(notify.Outage, "Redis is unreachable")
		f.notify(notify.EscalationPaused, "The escalation of default is paused")
		f.advance(notify.GroupWait)
		other := f.dispatcher("a")
		sending := 0
		f.channel.during = func() {
			if sending++; sending > 2 {
				return // messages of the other dispatcher
			}
			f.advance(50 * time.Second) // two messages together outlast a lease
			if err := other.Flush(f.t.Context(), f.channel); err != nil {
				f.t.Error(err)
			}
		}
		f.flush()
		if len(f.channel.sent) != 2 {
			f.t.Errorf("got %d messages for two notifications, want 2", len(f.channel.sent))
		}
	})
}

func TestTestMessageIsSentAtOnceAndUnknownChannelIsRefused(t *testing.T) {
	bothDatabases(t, func(f *fixture) {
		if err := f.Test(f.t.Context(), "recorder"); err != nil || len(f.channel.sent) != 1 {
			f.t.Errorf("Test: got %v, sent %d messages", err, len(f.channel.sent))
		}
		if err := f.Test(f.t.Context(), "pigeon"); !fault.Is(err, fault.NotFound) {
			f.t.Errorf("got the error %v", err)
		}
	})
}

func TestSendNowBypassesTheOutboxAndReturnsErrors(t *testing.T) {
	channel := &recorder{}
	d := notify.New(notify.Options{Channels: []notify.Channel{channel}, Node: "a"}) // no outbox at all
	n := notify.Notification{Kind: notify.Outage, Subject: "The database is unreachable"}
	if err := d.SendNow(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if len(channel.sent) != 1 || channel.sent[0].Subject != n.Subject || channel.sent[0].Items[0].At.IsZero() {
		t.Errorf("sent %+v", channel.sent)
	}
	channel.fail = errors.New("no route")
	if err := d.SendNow(t.Context(), n); !errors.Is(err, channel.fail) {
		t.Errorf("got the error %v", err)
	}
}

func TestSendNowLogsSilencedNotifications(t *testing.T) {
	var log bytes.Buffer
	channel := &recorder{}
	d := notify.New(notify.Options{Channels: []notify.Channel{channel}, Node: "a", Log: slog.New(slog.NewTextHandler(&log, nil))})
	d.Configure(nil, []notify.Silence{{Author: "olu", Until: time.Now().Add(time.Hour)}})
	if err := d.SendNow(t.Context(), notify.Notification{Kind: notify.Outage, Subject: "The database is unreachable"}); err != nil || len(channel.sent) != 0 {
		t.Fatalf("sent %+v, %v", channel.sent, err)
	}
	for _, part := range []string{"notification silenced", "The database is unreachable", "olu", "channel=recorder"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log does not contain %q: %s", part, &log)
		}
	}
}

// panicking is a channel with a bug.
type panicking struct{}

func (panicking) Name() string                               { return "panicking" }
func (panicking) Send(context.Context, notify.Message) error { panic("a bug in the channel") }

func TestPanickingChannelIsRetriedLikeAFailingOne(t *testing.T) {
	bothDatabases(t, func(f *fixture) {
		d := notify.New(notify.Options{Store: f.store.Outbox, Channels: []notify.Channel{panicking{}, f.channel}, Node: "a",
			Now: f.now, Log: slog.New(slog.DiscardHandler)})
		if err := d.Notify(f.t.Context(), notify.Notification{Kind: notify.Outage, Subject: "Redis is unreachable"}); err != nil {
			f.t.Fatal(err)
		}
		f.advance(notify.GroupWait)
		for _, c := range []notify.Channel{panicking{}, f.channel} {
			if err := d.Flush(f.t.Context(), c); err != nil {
				f.t.Fatal(err)
			}
		}
		all, err := f.store.Outbox.Deliveries(f.t.Context(), 10)
		if err != nil || len(all) != 2 || len(f.channel.sent) != 1 {
			f.t.Fatalf("Deliveries: got %+v, %v; sent %d messages", all, err, len(f.channel.sent))
		}
		for _, one := range all {
			if one.Channel == "panicking" && (one.Attempts != 1 || !strings.Contains(one.Err, "panicked")) {
				f.t.Errorf("got %+v", one)
			}
		}
		if err := d.SendNow(f.t.Context(), notify.Notification{Kind: notify.Outage}); err == nil || len(f.channel.sent) != 2 {
			f.t.Errorf("SendNow: got %v, sent %d messages", err, len(f.channel.sent))
		}
	})
}

// phone is a recorder with another name.
type phone struct{ *recorder }

func (phone) Name() string { return "phone" }

func TestOutletSendsOnlyItsKinds(t *testing.T) {
	bothDatabases(t, func(f *fixture) {
		for name, one := range map[string]struct {
			outlet notify.Outlet
			want   int
		}{
			"all": {notify.Outlet{}, 3}, "two kinds": {notify.Outlet{Kinds: []notify.Kind{notify.Outage, notify.Report}}, 2},
			"urgent kinds": {notify.Outlet{UrgentOnly: true}, 1}, "urgent only, of a kind that is not": {notify.Outlet{UrgentOnly: true, Kinds: []notify.Kind{notify.Report}}, 0},
		} {
			receiver := &recorder{}
			one.outlet.Channel = phone{receiver}
			f.Configure([]notify.Outlet{one.outlet}, nil)
			for _, kind := range []notify.Kind{notify.Outage, notify.Report, notify.Proposal} {
				f.notify(kind, "x")
			}
			f.advance(notify.GroupInterval)
			if err := f.Flush(f.t.Context(), one.outlet); err != nil {
				f.t.Fatal(err)
			}
			if len(receiver.sent) != one.want {
				f.t.Errorf("%s: %d messages, want %d", name, len(receiver.sent), one.want)
			}
		}
	})
}

func TestSilenceSuppressesMessagesUntilItEnds(t *testing.T) {
	bothDatabases(t, func(f *fixture) {
		until := f.now().Add(time.Hour)
		f.Configure(nil, []notify.Silence{{Channel: "recorder", Kind: notify.Outage, Reason: "a move", Author: "olu", Until: until}})
		f.notify(notify.Outage, "silenced")
		f.notify(notify.JobFailed, "of another kind")
		f.advance(notify.UrgentWait)
		f.flush()
		if len(f.channel.sent) != 1 || f.channel.sent[0].Kind != notify.JobFailed {
			f.t.Fatalf("sent %+v", f.channel.sent)
		}
		if err := f.SendNow(f.t.Context(), notify.Notification{Kind: notify.Outage, Subject: "past the outbox"}); err != nil || len(f.channel.sent) != 1 {
			f.t.Fatalf("SendNow during a silence: sent %v, %v", f.channel.sent, err)
		}
		if err := f.Test(f.t.Context(), "recorder"); err != nil || len(f.channel.sent) != 2 {
			f.t.Fatalf("Test during a silence: got %v", err)
		}
		all, err := f.store.Outbox.Deliveries(f.t.Context(), 10)
		if err != nil || len(all) != 2 || !strings.HasPrefix(all[1].Err, "silenced by olu until ") || !strings.HasSuffix(all[1].Err, "a move") {
			f.t.Fatalf("got %+v, %v", all, err)
		}
		f.advance(time.Hour)
		if len(f.Silences()) != 0 {
			f.t.Error("the silence has not ended")
		}
		f.notify(notify.Outage, "later")
		f.advance(notify.UrgentWait)
		f.flush()
		if len(f.channel.sent) != 3 || f.channel.sent[2].Subject != "later" {
			f.t.Fatalf("sent %+v", f.channel.sent)
		}
	})
}

// TestRunPicksUpConfiguredChannels configures a channel while Run is running.
func TestRunPicksUpConfiguredChannels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		outbox := &memoryOutbox{}
		d := notify.New(notify.Options{Store: outbox, Node: "a", Log: slog.New(slog.DiscardHandler)})
		ended := make(chan struct{})
		go func() {
			d.Run(ctx)
			close(ended)
		}()
		time.Sleep(3 * notify.Tick)
		d.Configure([]notify.Outlet{{Channel: phone{&recorder{}}}}, nil)
		time.Sleep(3 * notify.Tick)
		if outbox.calls.Load() == 0 {
			t.Error("Run does not read the outbox of a new channel")
		}
		d.Configure(nil, nil)
		time.Sleep(3 * notify.Tick)
		before := outbox.calls.Load()
		time.Sleep(5 * notify.Tick)
		if outbox.calls.Load() != before {
			t.Error("Run reads the outbox of a removed channel")
		}
		end()
		<-ended
	})
}

// memoryOutbox is an empty outbox that counts the calls of Due.
type memoryOutbox struct {
	notify.Store
	calls atomic.Int64
}

func (m *memoryOutbox) Due(context.Context, string, time.Time) ([]notify.Due, error) {
	m.calls.Add(1)
	return nil, nil
}
