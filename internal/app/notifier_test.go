package app

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

// embeddedNode is a node with an SQLite file and a webhook. It never sends to the webhook,
// because it does not run.
func embeddedNode(t *testing.T) (*App, *servers.Output) {
	t.Helper()
	s, err := Load([]string{"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", filepath.Join(t.TempDir(), "data"),
		"--notify-allow-private", "true"}, []string{"STINT_ADMIN_TOKEN=" + testToken, "STINT_NOTIFY_WEBHOOK_URL=http://127.0.0.1:9/"})
	if err != nil {
		t.Fatal(err)
	}
	log := &servers.Output{}
	a, err := New(context.Background(), s, io.Discard, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.close)
	return a, log
}

func TestEscalationEventsAreNotified(t *testing.T) {
	at := time.UnixMilli(1_780_000_000_000).UTC()
	event := func(kind offences.EscalationEventKind, key string) offences.EscalationEvent {
		return offences.EscalationEvent{ID: "event of " + key, At: at, Policy: 7, Name: "login", Key: key, Kind: kind, Level: 2, Offences: 12,
			Length: 20 * time.Minute, BlockID: "block of " + key, Detail: "12 offences of " + key}
	}
	burst := make([]offences.EscalationEvent, 0, notify.MaxItems+3)
	for i := range notify.MaxItems + 3 {
		burst = append(burst, event(offences.EscalationBlocked, fmt.Sprintf("k:%02d", i)))
	}
	one := event(offences.EscalationBlocked, "k:x")
	for name, test := range map[string]struct {
		events   []offences.EscalationEvent
		subjects []string // of the notifications, in the order in which they are sent
		logged   int
	}{
		"no event":            {nil, nil, 0},
		"a shadow policy":     {[]offences.EscalationEvent{event(offences.EscalationWouldBlock, "k:x")}, nil, 0},
		"resumed by a person": {[]offences.EscalationEvent{event(offences.EscalationResumed, "")}, nil, 0},
		"one block":           {[]offences.EscalationEvent{one}, []string{"k:x is blocked for 20 min"}, 0},
		"a pause goes first":  {[]offences.EscalationEvent{one, event(offences.EscalationPaused, "")}, []string{"The automatic blocks of policy login have stopped", "k:x is blocked for 20 min"}, 1},
		"the pause alone":     {[]offences.EscalationEvent{event(offences.EscalationPaused, "")}, []string{"The automatic blocks of policy login have stopped"}, 1},
		"the maximum number":  {burst[:notify.MaxItems], blockedSubjects(notify.MaxItems), 0},
		"a burst":             {burst, append(blockedSubjects(notify.MaxItems), "3 more keys are blocked automatically"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			a, log := embeddedNode(t)
			a.escalated(test.events)
			if n := log.Count("an escalation is paused"); n != test.logged {
				t.Errorf("the log has %d pauses, want %d: %s", n, test.logged, log)
			}
			all, err := a.backends.store.Outbox.Deliveries(t.Context(), 100)
			if err != nil || len(all) != len(test.subjects) {
				t.Fatalf("got %d notifications, want %d; %v", len(all), len(test.subjects), err)
			}
			happenings := 0
			for i, want := range test.subjects {
				got := all[len(all)-1-i].Notification // the newest is first
				happenings += max(got.Happenings, 1)
				if got.Subject != want || !got.At.Equal(at) || got.Text == "" || len(got.Facts) == 0 {
					t.Errorf("notification %d is %+v, want %q", i, got, want)
				}
			}
			if name == "a burst" && happenings != len(test.events) {
				t.Errorf("the notifications report %d blocks, want %d", happenings, len(test.events))
			}
			if name == "one block" {
				got := all[0]
				want := map[string]string{"key": "k:x", "policy": "login", "level": "2", "offences": "12", "length": "20m", "block": "block of k:x"}
				if got.Kind != notify.AutomaticBlock || got.Text != one.Detail || fmt.Sprint(got.Facts) != fmt.Sprint(want) {
					t.Errorf("got %+v, want the facts %v", got, want)
				}
			}
		})
	}
}

// An operator who reads only the message can block the source with one click, or one command.
func TestAttackNotificationSaysHowToBlockItsSource(t *testing.T) {
	began := time.Date(2026, time.March, 2, 10, 0, 0, 0, time.UTC)
	source := offences.CourseSource{Pattern: "ip:203.0.113.0/24", Policy: "website", Rule: "20/1m"}
	blocked := source
	blocked.IsBlocked = true
	const form = "https://stint.example.com/blocks/new?pattern=ip%3A203.0.113.0%2F24&reason=attack+since+2+Mar%2C+10%3A00+UTC"
	for name, c := range map[string]struct {
		pages   string
		what    offences.News
		sources []offences.CourseSource
		kind    notify.Kind
		text    string // after the news
	}{
		"it began":            {"https://stint.example.com", offences.AttackBegan, []offences.CourseSource{source}, notify.AttackBegan, "\nBlock it: " + form},
		"without a URL":       {"", offences.AttackBegan, []offences.CourseSource{source}, notify.AttackBegan, "\nBlock it: stint-admin block add 'ip:203.0.113.0/24' --for 24h --reason attack"},
		"from many clients":   {"", offences.AttackBegan, nil, notify.AttackBegan, ""},
		"from another source": {"https://stint.example.com", offences.SourceChanged, []offences.CourseSource{{Pattern: "token:a"}, source}, notify.AttackSource, "\nBlock it: " + form},
		"it is blocked":       {"https://stint.example.com", offences.SourceChanged, []offences.CourseSource{blocked}, notify.AttackSource, ""},
		"it ended":            {"https://stint.example.com", offences.AttackEnded, []offences.CourseSource{source}, notify.AttackEnded, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := embeddedNode(t)
			a.notifier.pages = c.pages
			a.notifier.attack(t.Context(), admin.AttackNews{What: c.what, Subject: "An attack", Text: "News.", Attack: &offences.AttackCourse{ID: "x", Began: began, Sources: c.sources}})
			all, err := a.backends.store.Outbox.Deliveries(t.Context(), 10)
			if err != nil || len(all) != 1 {
				t.Fatalf("%d notifications, %v", len(all), err)
			}
			if got := all[0]; got.Kind != c.kind || !got.Kind.Urgent() || got.Text != "News."+c.text || got.Facts["attack"] != "x" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func blockedSubjects(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("k:%02d is blocked for 20 min", i))
	}
	return all
}

// slowLoader is a store of channels that responds after it is released.
type slowLoader struct {
	channelLoader
	asked, released chan struct{}
}

func (s *slowLoader) LoadChannels(ctx context.Context) ([]notify.Config, error) {
	s.asked <- struct{}{}
	<-s.released
	return s.channelLoader.LoadChannels(ctx)
}

// mustNotBlock fails the test if do does not return.
func mustNotBlock(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal(what + " did not return within a minute")
	}
}

func TestReadingChannelsDoesNotBlockRefresh(t *testing.T) {
	a, _ := embeddedNode(t)
	loader := &slowLoader{channelLoader: a.notifier.store, asked: make(chan struct{}, 10), released: make(chan struct{})}
	a.notifier.store = loader
	silence := func(reason string) {
		s := notify.Silence{Kind: notify.Report, Reason: reason, Until: time.Now().Add(time.Hour)}
		if _, err := a.backends.store.Channels.AddSilence(t.Context(), audit.SystemActor("test"), s, func([]notify.Silence) error { return nil }); err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	mustNotBlock(t, "a change", func() { silence("first") })
	ended := make(chan struct{})
	go func() { defer close(ended); a.notifier.run(ctx) }()
	mustNotBlock(t, "the reading of the channels", func() { <-loader.asked })
	mustNotBlock(t, "a change while the channels are read", func() { silence("second") })
	mustNotBlock(t, "a refresh", func() {
		if err := a.catalog.Refresh(t.Context()); err != nil {
			t.Error(err)
		}
	})
	close(loader.released)
	servers.Await(t, "the second silence applies", func() bool { return len(a.notifier.dispatcher.Silences()) == 2 })
	cancel()
	<-ended
}

func TestSilenceAppliesWhenAddReturns(t *testing.T) {
	a, _ := embeddedNode(t)
	admins := admin.Caller{Actor: audit.SystemActor("test"), Access: []identity.Access{identity.Admin}}
	use := notificationsOf(a)
	made, err := use.AddSilence(t.Context(), admins, wire.SilenceRequest{Kind: string(notify.Report), Reason: "quiet", ExpiresIn: wire.Duration(time.Hour)})
	if err != nil || len(use.ActiveSilences()) != 1 {
		t.Fatalf("got %d active silences, %v", len(use.ActiveSilences()), err)
	}
	if _, err := use.EndSilence(t.Context(), admins, wire.ByID{ID: made.ID}); err != nil || len(use.ActiveSilences()) != 0 {
		t.Fatalf("got %d active silences, %v", len(use.ActiveSilences()), err)
	}
}
