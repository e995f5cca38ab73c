package app

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/notify"
	"github.com/stint-dev/stint/test/servers"
)

// savesPart returns the part "saves" of a node's readiness, and whether the node is ready.
func savesPart(t *testing.T, a *App) (ok bool, detail string, ready bool) {
	t.Helper()
	r := a.status.ready(t.Context())
	for _, p := range r.Parts {
		if p.Name == "saves" {
			return p.OK, p.Detail, r.Ready
		}
	}
	t.Fatal("the readiness has no part for saves")
	return false, "", false
}

func metricsOf(a *App) string {
	w := httptest.NewRecorder()
	a.metrics.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	return w.Body.String()
}

// Nothing can be written in the place of the snapshot, as on a full disk.
func TestSaveThatFailsIsSeenAndEndsTheNodeWithAnError(t *testing.T) {
	a, log := embeddedNode(t)
	a.snapshots.save()
	if ok, detail, _ := savesPart(t, a); !ok || !strings.Contains(detail, "snapshot 0s ago") {
		t.Errorf("while all is well: %t, %q", ok, detail)
	}
	path := a.backends.dir.snapshot()
	if err := errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "in the way"), 0o700)); err != nil {
		t.Fatal(err)
	}
	a.snapshots.save()
	if ok, detail, ready := savesPart(t, a); ok || !ready || !strings.HasPrefix(detail, "The snapshot of the logs cannot be written since ") || strings.Contains(detail, path) {
		t.Errorf("it fails: ok %t, ready %t, %q", ok, ready, detail)
	}
	if p := a.saves.health(); p.Trouble == "" {
		t.Errorf("the overview has %+v", p)
	}
	if text := metricsOf(a); !strings.Contains(text, `stint_save_failing{save="snapshot"} 1`) || !strings.Contains(text, `stint_save_failing{save="offences"} 0`) ||
		!strings.Contains(text, `stint_save_last_success_timestamp_seconds{save="snapshot"}`) {
		t.Errorf("the metrics are %s", text)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := a.Run(ctx); err == nil || !strings.Contains(err.Error(), "the logs could not be saved") {
		t.Errorf("Run returned %v; the log is %s", err, log)
	}
}

func TestSavesAreNotifiedWhenTheyFailAndWhenTheySucceedAgain(t *testing.T) {
	a, _ := embeddedNode(t)
	s := &save{name: "snapshot", what: "The snapshot of the logs"}
	all := saves{}
	all.add(s)
	watches := all.alerts(a.notifier)
	subjects := func() (found []string) {
		deliveries, err := a.backends.store.Outbox.Deliveries(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range slices.Backward(deliveries) {
			found = append(found, string(d.Kind)+" "+d.Subject)
		}
		return found
	}
	s.done(time.Now().Add(-time.Minute), errors.New("no space left on device"))
	watches[0].check(t.Context())
	watches[0].check(t.Context())
	s.done(time.Now(), nil)
	watches[0].check(t.Context())
	node := a.settings.NodeName
	if got, want := subjects(), []string{
		string(notify.Outage) + " The snapshot of the logs cannot be written from node " + node, string(notify.Recovery) + " The snapshot of the logs is written again for node " + node,
	}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestOneNodeNotifiesOfTheOutbox: the outbox is the same for all nodes.
func TestOneNodeNotifiesOfTheOutbox(t *testing.T) {
	a, _ := embeddedNode(t)
	other := a.settings
	other.NodeName = "another"
	second, err := newNotifier(other, a.backends.store, a.log)
	if err != nil {
		t.Fatal(err)
	}
	state := saveState{err: errBacklog, since: time.Now().Add(-time.Minute)}
	all := saves{{"notifications", "A message to a notification channel", sent, func() saveState { return state }}}
	alerts := append(all.alerts(a.notifier), all.alerts(second)...)
	for _, now := range []saveState{state, {}} {
		state = now
		for _, alert := range alerts {
			alert.check(t.Context())
		}
	}
	deliveries, err := a.backends.store.Outbox.Deliveries(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []notify.Kind
	for _, d := range slices.Backward(deliveries) {
		kinds = append(kinds, d.Kind)
	}
	if !slices.Equal(kinds, []notify.Kind{notify.Outage, notify.Recovery}) {
		t.Errorf("the nodes sent %q, want one outage and one recovery", kinds)
	}
}

func TestMissingOrDamagedSnapshotIsReportedAtTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		change func(path string) error
		log    string
	}{
		"missing": {os.Remove, "missing beside a database that was used"},
		"damaged": {func(path string) error {
			text, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, text[:len(text)-4], 0o600))
		}, "the snapshot of the logs is damaged"},
		"another file": {func(path string) error { return os.WriteFile(path, []byte("something else, and long enough"), 0o600) }, "cannot be read and is ignored"},
		"as it was":    {func(string) error { return nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "data")
			start := func() (*App, *servers.Output) {
				s, err := Load([]string{"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", folder}, []string{"STINT_ADMIN_TOKEN=" + testToken})
				if err != nil {
					t.Fatal(err)
				}
				log := &servers.Output{}
				a, err := New(t.Context(), s, io.Discard, log)
				if err != nil {
					t.Fatal(err)
				}
				return a, log
			}
			a, log := start()
			if log.Count("snapshot") > 0 || a.backends.lostLogs != "" {
				t.Errorf("the first start logged %s", log)
			}
			path := a.backends.dir.snapshot()
			if err := a.snapshots.saveLast(); err != nil {
				t.Fatal(err)
			}
			a.close()
			if err := c.change(path); err != nil {
				t.Fatal(err)
			}
			a, log = start()
			defer a.close()
			if c.log == "" && (log.Count("snapshot") > 0 || a.backends.lostLogs != "") || c.log != "" && (log.Count(c.log) != 1 || a.backends.lostLogs == "") {
				t.Errorf("the log is %s; lost: %q", log, a.backends.lostLogs)
			}
		})
	}
}

func TestMessageThatCannotBeDeliveredIsInTheReadiness(t *testing.T) {
	a, _ := embeddedNode(t)
	a.notifier.dispatcher.Configure([]notify.Outlet{{Channel: deafChannel{}}}, nil)
	add := func(age time.Duration) {
		t.Helper()
		n := []notify.Notification{{Kind: notify.Outage, At: time.Now().Add(-age), Subject: "s"}}
		if err := a.backends.store.Outbox.AddNotifications(t.Context(), n, []string{"deaf"}); err != nil {
			t.Fatal(err)
		}
		a.notifier.measure(t.Context())
	}
	add(time.Minute)
	if ok, detail, _ := savesPart(t, a); !ok || !strings.Contains(detail, "notifications 0s ago") {
		t.Errorf("a message of a minute ago: %t, %q", ok, detail)
	}
	add(maxBacklogAge)
	if ok, detail, ready := savesPart(t, a); ok || !ready || !strings.HasPrefix(detail, "A message to a notification channel cannot be delivered since ") {
		t.Errorf("an old message: ok %t, ready %t, %q", ok, ready, detail)
	}
	if p := a.saves.health(); !strings.Contains(p.Text, "The page Notifications") || strings.Contains(p.Text, "disk") {
		t.Errorf("the overview has %+v", p)
	}
	if text := metricsOf(a); !strings.Contains(text, `stint_save_failing{save="notifications"} 1`) {
		t.Errorf("the metrics are %s", text)
	}
}

// deafChannel never sends; the node of the test does not run.
type deafChannel struct{}

func (deafChannel) Name() string                               { return "deaf" }
func (deafChannel) Send(context.Context, notify.Message) error { return errors.New("deaf") }
