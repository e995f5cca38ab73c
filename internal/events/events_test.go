package events_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/events"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

var key, pattern = keytest.Key, keytest.Pattern

// decided returns a decision on a key at this moment.
func decided(t testing.TB, text string, outcome gate.Outcome) *gate.Decision {
	return &gate.Decision{
		Check: gate.Check{Key: key(t, text)}, Outcome: outcome, Policy: &rules.Policy{Name: "default"},
		Answer: gate.Answer{At: time.Now(), Rule: -1},
	}
}

// received returns the names of the events in a listener's queue, and "end" if nothing follows.
func received(l *events.Listener) string {
	var all []string
	for {
		taken, open := l.Take()
		for _, e := range taken {
			all = append(all, name(e))
		}
		if !open {
			return strings.Join(append(all, "end"), " ")
		}
		if len(taken) == 0 {
			return strings.Join(all, " ")
		}
	}
}

// reader returns the events of a listener one by one.
type reader struct {
	*events.Listener
	taken []*events.Event
}

func (r *reader) next() *events.Event {
	for len(r.taken) == 0 {
		<-r.Woken()
		r.taken, _ = r.Take()
	}
	e := r.taken[0]
	r.taken = r.taken[1:]
	return e
}

func name(e *events.Event) string {
	switch e.Kind {
	case events.Notice:
		return fmt.Sprintf("notice(%d)", e.Skipped)
	case events.Decision:
		return e.Key.String()
	default:
		return e.Entry.Action
	}
}

func names(all []events.Event) string {
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = name(&all[i])
	}
	return strings.Join(texts, " ")
}

func TestListenerReceivesEventsItsFilterSelects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := events.New(events.Options{})
		shadowed := decided(t, "token:shadow", gate.Allowed)
		shadowed.Shadow = &gate.Shadow{Outcome: gate.Limited, Policy: &rules.Policy{Name: "trial"}}
		listeners := map[string]*events.Listener{}
		for name, f := range map[string]events.Filter{
			"all":       {},
			"decisions": {Kinds: []events.Kind{events.Decision}},
			"refusals":  {Outcomes: []gate.Outcome{gate.Limited, gate.Blocked}},
			"trial":     {Policy: "trial"},
			"addresses": {Pattern: pattern(t, "ip:203.0.113.0/24")},
		} {
			l := h.Listen(f, "")
			if missed := l.Missed(); missed != nil {
				t.Fatalf("Missed() = %v, want nil", missed)
			}
			listeners[name] = l
		}
		h.Record(decided(t, "token:a", gate.Allowed))
		h.Record(decided(t, "ip:203.0.113.7", gate.Limited))
		h.Record(decided(t, "ip:2001:db8::7", gate.Blocked))
		h.Record(shadowed)
		h.Publish(events.Event{Kind: events.Block, Entry: &audit.Record{Action: "block.add", Object: "block"}, Patterns: []keys.Pattern{pattern(t, "ip:203.0.0.0/16")}})
		h.Publish(events.Event{Kind: events.Change, Entry: &audit.Record{Action: "policy.put", Object: "policy", ObjectID: "trial"}})
		for who, want := range map[string]string{
			"all":       "token:a ip:203.0.113.7 ip:2001:db8::/64 token:shadow block.add policy.put",
			"decisions": "token:a ip:203.0.113.7 ip:2001:db8::/64 token:shadow",
			"refusals":  "ip:203.0.113.7 ip:2001:db8::/64 block.add policy.put",
			"trial":     "token:shadow policy.put",
			"addresses": "ip:203.0.113.7 block.add",
		} {
			if got := received(listeners[who]); got != want {
				t.Errorf("listener %s received %q, want %q", who, got, want)
			}
		}
	})
}

func TestHubSamplesDecisionsUnderLoadAndSendsNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := events.New(events.Options{PerSecond: 3})
		l := h.Listen(events.Filter{}, "")
		for i := range 10 {
			h.Record(decided(t, fmt.Sprintf("token:%d", i), gate.Allowed))
		}
		h.Record(decided(t, "token:refused", gate.Limited))
		if got := received(l); got != "token:0 token:1 token:2 token:refused" {
			t.Fatalf("received %q", got)
		}
		time.Sleep(time.Second)
		h.Record(decided(t, "token:next", gate.Allowed))
		h.Record(decided(t, "token:refused", gate.Limited))
		if got := received(l); got != "notice(7) token:next token:refused" {
			t.Fatalf("received %q", got)
		}
	})
}

func TestHubSendsNoticeOfSkippedDecisionsAfterBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := events.New(events.Options{PerSecond: 3})
		l := h.Listen(events.Filter{}, "")
		for range 10 {
			h.Record(decided(t, "token:0", gate.Allowed))
		}
		time.Sleep(time.Minute)
		if got := received(l); got != "token:0 token:0 token:0 notice(7)" {
			t.Fatalf("received %q", got)
		}
		h.Record(decided(t, "token:next", gate.Allowed))
		if got := received(l); got != "token:next" {
			t.Errorf("received %q, want no second notice", got)
		}
	})
}

func TestListenerResumesFromItsTokenWithinTheRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := events.New(events.Options{Ring: 4})
		l := h.Listen(events.Filter{}, "")
		h.Record(decided(t, "token:0", gate.Allowed))
		seen := (&reader{Listener: l}).next()
		token := h.Token(seen)
		l.Stop()
		if got := received(l); got != "end" {
			t.Fatalf("received %q after Stop, want the end", got)
		}
		for i := range 3 {
			h.Record(decided(t, fmt.Sprintf("token:%d", i+1), gate.Allowed))
		}
		back := h.Listen(events.Filter{}, token)
		if got := names(back.Missed()); got != "token:1 token:2 token:3" {
			t.Fatalf("Missed() = %q", got)
		}
		back.Stop()
		for i := range 3 {
			h.Record(decided(t, fmt.Sprintf("token:%d", i+4), gate.Allowed))
		}
		back = h.Listen(events.Filter{}, token)
		if got := names(back.Missed()); got != "notice(2) token:3 token:4 token:5 token:6" {
			t.Fatalf("Missed() = %q", got)
		}
		back.Stop()
		for _, elsewhere := range []string{"another-5", "nonsense", strings.Split(token, "-")[0] + "-999"} {
			back = h.Listen(events.Filter{}, elsewhere)
			if got := names(back.Missed()); got != "notice(0)" {
				t.Fatalf("Missed() after the token %q = %q, want one notice", elsewhere, got)
			}
			back.Stop()
		}
		time.Sleep(events.Linger + time.Second)
		h.Record(decided(t, "token:unheard", gate.Allowed))
		last := h.Listen(events.Filter{}, token)
		if got := names(last.Missed()); got != "notice(2) token:3 token:4 token:5 token:6" {
			t.Fatalf("Missed() = %q: decisions are kept long after the last listener has stopped", got)
		}
		last.Stop()
	})
}

// Missed events are not copied for a listener that does not read them: events it reads too
// late are reported as lost.
func TestMissedReadsEventsLazilyAndReportsLostOnes(t *testing.T) {
	h := events.New(events.Options{Ring: 40})
	first := h.Listen(events.Filter{}, "")
	h.Record(decided(t, "token:0", gate.Allowed))
	token := h.Token((&reader{Listener: first}).next())
	first.Stop()
	record := func(from, n int) {
		for i := range n {
			h.Record(decided(t, fmt.Sprintf("token:%d", from+i), gate.Allowed))
		}
	}
	record(1, 30)
	l := h.Listen(events.Filter{}, token)
	if got := len(l.Missed()); got != 16 {
		t.Errorf("the first Missed() has %d events, want 16", got)
	}
	record(31, 30) // not missed; 17 to 20 have left the ring now
	if got := names(l.Missed()); !strings.HasPrefix(got, "notice(4) token:21 token:22 ") || strings.Contains(got, "token:31") {
		t.Errorf("the second Missed() = %q", got)
	}
	if got := l.Missed(); got != nil {
		t.Errorf("the third Missed() = %q, want nil", names(got))
	}
	if got := received(l); !strings.HasPrefix(got, "token:31 ") || !strings.HasSuffix(got, "token:60") {
		t.Errorf("then received %q, want token:31 to token:60", got)
	}
	l = h.Listen(events.Filter{}, token)
	record(61, 100)
	if got := names(l.Missed()); got != "notice(60)" {
		t.Errorf("a late Missed() = %q, want one notice", got)
	}
	if got := l.Missed(); got != nil {
		t.Errorf("Missed() after the notice = %q, want nil", names(got))
	}
}

func TestSlowListenerIsDroppedWithNotice(t *testing.T) {
	h := events.New(events.Options{Queue: 2})
	slow := h.Listen(events.Filter{}, "")
	quick := h.Listen(events.Filter{}, "")
	for i := range 4 {
		h.Record(decided(t, fmt.Sprintf("token:%d", i), gate.Limited))
		quick.Take()
	}
	if got := received(slow); got != "token:0 token:1 end" {
		t.Errorf("the slow listener received %q", got)
	}
	if notice, said := slow.Farewell(); !said || !strings.Contains(notice.Text, "too slowly") {
		t.Errorf("Farewell() = %+v, want a notice that it was too slow", notice)
	}
	h.Close()
	if got := received(quick); got != "end" {
		t.Errorf("the quick listener received %q, want the end", got)
	}
	if _, said := quick.Farewell(); said {
		t.Error("the quick listener was dropped as slow")
	}
	late := h.Listen(events.Filter{}, "")
	if got := received(late); got != "end" {
		t.Errorf("a listener after Close received %q, want the end", got)
	}
}

// A listener that stays for weeks, as a firewall does, costs checks nothing.
func TestListenerOfBlocksKeepsNoDecisionsInRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := events.New(events.Options{})
		blocks := h.Listen(events.Filter{Kinds: []events.Kind{events.Block, events.Change}}, "")
		h.Record(decided(t, "token:1", gate.Limited))
		all := h.Listen(events.Filter{}, "")
		h.Record(decided(t, "token:2", gate.Limited))
		if got := received(all); got != "token:2" {
			t.Errorf("received %q", got)
		}
		all.Stop()
		time.Sleep(events.Linger + time.Second)
		h.Record(decided(t, "token:3", gate.Limited))
		kept := h.Newest(events.Filter{}, 10)
		if len(kept) != 1 || kept[0].Key != key(t, "token:2") {
			t.Errorf("Newest() = %v, want token:2 only", kept)
		}
		if got := received(blocks); got != "" {
			t.Errorf("the listener of blocks received %q, want nothing", got)
		}
	})
}

func TestRecordCopiesKeyFromRequestBuffer(t *testing.T) {
	buffer := []byte("token:secret")
	text := unsafe.String(&buffer[0], len(buffer))
	h := events.New(events.Options{})
	l := &reader{Listener: h.Listen(events.Filter{}, "")}
	h.Record(decided(t, text, gate.Limited))
	copy(buffer, "token:others")
	e := l.next()
	if e.Key != key(t, "token:secret") {
		t.Errorf("got the key %v, want token:secret", e.Key)
	}
	h.Record(decided(t, "ip:2001:db8::7", gate.Limited))
	e = l.next()
	if network, _ := e.Key.Network(); network.Addr().String() != "2001:db8::7" {
		t.Errorf("got the network %v, want the full address 2001:db8::7", network)
	}
}

func TestFollowerPublishesChangesFromAuditLog(t *testing.T) {
	for kind, url := range map[string]string{"sqlite": filepath.Join(t.TempDir(), "stint.db"), "postgres": servers.Postgres(t).URL} {
		t.Run(kind, func(t *testing.T) {
			store, err := sqlstore.Open(t.Context(), url, sqlstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			by := audit.Actor{Kind: audit.User, Name: "ann"}
			h := events.New(events.Options{})
			f := events.NewFollower(h, store.Audit)
			l := &reader{Listener: h.Listen(events.Filter{}, "")}
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			defer running.Wait()
			defer cancel()
			running.Go(func() { f.Run(ctx) })
			// Run ignores changes from before its start, so
			// changes are made until one is received.
			running.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					b := blocks.Entry{Kind: blocks.Block, Pattern: pattern(t, fmt.Sprintf("token:%d", i))}
					if _, err := store.Entries.Add(ctx, by, blocks.Fail, b); err != nil && ctx.Err() == nil {
						t.Error(err)
						return
					}
					f.Changed(catalog.Changed{})
				}
			})
			first := l.next()
			second := l.next()
			if first.Kind != events.Block || first.Entry.Action != "block.add" || len(first.Patterns) != 1 || second.Entry.ID <= first.Entry.ID {
				t.Fatalf("received %+v, then %+v", first, second)
			}
		})
	}
}

func BenchmarkRecord(b *testing.B) {
	for _, c := range []struct {
		name   string
		listen int
	}{{"nobody listens", 0}, {"ten listen", 10}} {
		b.Run(c.name, func(b *testing.B) {
			h := events.New(events.Options{})
			for range c.listen {
				l := h.Listen(events.Filter{}, "")
				go discard(l)
			}
			defer h.Close()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				d := decided(b, "ip:203.0.113.7", gate.Allowed)
				for i := 0; pb.Next(); i++ {
					if i%1024 == 0 {
						d.At = time.Now()
					}
					h.Record(d)
				}
			})
		})
	}
}
