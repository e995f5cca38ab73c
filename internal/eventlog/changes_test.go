package eventlog

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

func TestChangesAreWrittenOnceByOneNodeAndGoOnAfterItsDeath(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		out := &buffer{}
		node := func(name string) *Changes {
			l := newLog(t, Options{Settings: Settings{To: Target{Stdout: true}}, Stdout: out, Now: f.Clock.Now})
			return NewChanges(l, f.Audit, name, slog.New(slog.DiscardHandler))
		}
		a, b := node("a"), node("b")
		look := func(c *Changes) {
			t.Helper()
			if err := c.look(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		add := func(pattern string) { storetest.AddEntry(t, f, storetest.NewBlock(t, pattern, time.Time{}), "") }
		messages := func() (all []string) {
			for _, l := range linesOf(t, out.text) {
				all = append(all, l.Event.Action+" "+l.Message)
			}
			return all
		}
		add("ip:192.0.2.1")
		look(a) // it begins with the changes from now on
		if got := messages(); len(got) != 0 {
			t.Errorf("got %q, want nothing of before", got)
		}
		add("ip:192.0.2.2")
		add("ip:192.0.2.3")
		look(b)
		look(a)
		look(b)
		look(a)
		got := messages()
		if len(got) != 2 || got[0] == got[1] {
			t.Fatalf("got %q, want the two changes once", got)
		}
		if lines := linesOf(t, out.text); lines[0].Event.ID == "" || !slices.Equal(lines[0].Event.Type, []string{"creation"}) || lines[0].Event.Dataset != "stint.audit" {
			t.Errorf("got %+v", lines[0])
		}

		// What could not be written is written later, and once.
		out.err = errors.New("no space")
		add("ip:192.0.2.4")
		if err := a.look(t.Context()); err == nil {
			t.Error("a failed write was taken as written")
		}
		out.err = nil
		look(a)
		if got = messages(); len(got) != 3 {
			t.Errorf("got %q, want the third change too", got)
		}
		add("ip:192.0.2.5")
		f.Exec(t, "UPDATE leases SET expires_at = 0") // a has died
		look(b)
		if got = messages(); len(got) != 4 {
			t.Errorf("got %q, want the fourth change by the other node", got)
		}
	})
}

func TestChangesRunWhenTheyAreMade(t *testing.T) {
	f := storetest.Open(t, storetest.Migrated.SQLite(t))
	out := &buffer{}
	l := newLog(t, Options{Settings: Settings{To: Target{Stdout: true}}, Stdout: out, Now: f.Clock.Now})
	c := NewChanges(l, f.Audit, "a", slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	servers.Await(t, "the beginning", func() bool {
		_, known, err := f.Audit.WrittenUntil(ctx)
		return known && err == nil
	})
	storetest.AddEntry(t, f, storetest.NewBlock(t, "ip:192.0.2.2", time.Time{}), "")
	c.Changed(catalog.Changed{})
	servers.Await(t, "the change", func() bool {
		out.mu.Lock()
		defer out.mu.Unlock()
		return len(out.text) > 0
	})
	cancel()
	running.Wait()
}
