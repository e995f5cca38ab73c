package sources_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/admin/sources"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/notify/egress"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/storetest"
)

func TestMain(m *testing.M) { servers.Main(m) }

var ann = admin.Caller{Actor: audit.Actor{Kind: audit.User, Name: "ann"}, Access: []identity.Access{identity.Admin}}

// publisher is a server of one list.
type publisher struct {
	*httptest.Server
	mu      sync.Mutex
	text    string
	answer  http.HandlerFunc // replaces text, nil for nothing
	headers []http.Header    // of the requests
}

func newPublisher(t *testing.T, text string) *publisher {
	p := &publisher{text: text}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		text, answer := p.text, p.answer
		p.headers = append(p.headers, r.Header)
		p.mu.Unlock()
		if answer != nil {
			answer(w, r)
			return
		}
		tag := fmt.Sprintf("%q", fmt.Sprint(len(text), text[:min(8, len(text))]))
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *publisher) publish(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text, p.answer = text, nil
}

func (p *publisher) answerWith(h http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = h
}

func (p *publisher) requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.headers)
}

// fixture is a node with its sources. Its clock is moved by tests.
type fixture struct {
	*sources.Sources
	node   *storetest.Node
	now    time.Time
	alarms []string
}

func onBoth(t *testing.T, test func(t *testing.T, f *fixture)) {
	storetest.OnBothURLs(t, func(t *testing.T, url string) { test(t, newFixture(t, url, "node")) })
}

func newFixture(t *testing.T, url, name string) *fixture {
	t.Helper()
	f := &fixture{now: time.Now()}
	now := func() time.Time { return f.now }
	f.node = storetest.OpenNode(t, url, now)
	client := egress.New(egress.Options{AllowPrivate: true, Timeout: 20 * time.Minute})
	f.Sources = &sources.Sources{
		Store: f.node.Store.BlockSources, Entries: f.node.Store.Entries, Leases: f.node.Store.Jobs, View: f.node.Catalog, Node: name, Now: now, Log: slog.New(slog.DiscardHandler),
		Own: func() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("203.0.113.99/32")} },
		Fetch: func(ctx context.Context, r sources.Request) (*sources.Answer, error) {
			a, err := client.Fetch(ctx, egress.Fetch{URL: r.URL, Header: r.Header, ETag: r.ETag, Modified: r.Modified})
			if err != nil {
				return nil, err
			}
			return &sources.Answer{Body: a.Body, IsSame: a.IsSame, ETag: a.ETag, Modified: a.Modified}, nil
		},
		Alarm: func(_ context.Context, isTrouble bool, subject, _ string) {
			f.alarms = append(f.alarms, fmt.Sprint(isTrouble, " ", subject))
		},
	}
	return f
}

func (f *fixture) add(t *testing.T, r wire.BlockSourceRequest) wire.BlockSource {
	t.Helper()
	s, err := f.Add(t.Context(), ann, r)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (f *fixture) get(t *testing.T, name string) wire.BlockSource {
	t.Helper()
	s, err := f.Get(t.Context(), ann, wire.ByName{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// due moves the clock by an hour and pulls what is due.
func (f *fixture) due(t *testing.T) {
	t.Helper()
	f.now = f.now.Add(time.Hour)
	if _, err := f.PullDue(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// active returns the patterns in force, sorted.
func (f *fixture) active(t *testing.T, filter blocks.Filter) (patterns []string) {
	t.Helper()
	filter.At = f.now
	for e, err := range f.node.Store.Entries.Each(t.Context(), filter) {
		if err != nil {
			t.Fatal(err)
		}
		patterns = append(patterns, e.Pattern.String())
	}
	slices.Sort(patterns)
	return patterns
}

func (f *fixture) wantActive(t *testing.T, filter blocks.Filter, want ...string) {
	t.Helper()
	if got := f.active(t, filter); !slices.Equal(got, want) {
		t.Errorf("in force are %q, want %q", got, want)
	}
}

var listed = blocks.Filter{Source: blocks.Listed}

func addresses(first, count int) string {
	var b strings.Builder
	for i := range count {
		fmt.Fprintf(&b, "198.51.%d.%d\n", (first+i)/256, (first+i)%256)
	}
	return b.String()
}

func TestASourceKeepsItsRowsEqualToTheList(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		p := newPublisher(t, "198.51.100.1\n198.51.100.2\n198.51.100.3\n")
		made := f.add(t, wire.BlockSourceRequest{Name: "bad", URL: p.URL})
		if made.State != "current" || made.Rows != 3 || made.Error != "" || made.As != "block" || made.Every != wire.Duration(time.Hour) {
			t.Fatalf("got %+v", made)
		}
		f.wantActive(t, listed, "ip:198.51.100.1", "ip:198.51.100.2", "ip:198.51.100.3")
		f.wantActive(t, blocks.Filter{}) // rows of lists are shown where somebody looks for them
		f.wantActive(t, blocks.Filter{Holder: "list/bad", Lists: true}, "ip:198.51.100.1", "ip:198.51.100.2", "ip:198.51.100.3")

		// The operator holds one of them too, and another list another.
		other := storetest.NewBlock(t, "ip:198.51.100.1", time.Time{})
		other.From = &blocks.Holder{Name: "ann"}
		if _, err := f.node.Store.Entries.Add(t.Context(), ann.Actor, blocks.Extend, other); err != nil {
			t.Fatal(err)
		}
		q := newPublisher(t, "198.51.100.2\n")
		f.add(t, wire.BlockSourceRequest{Name: "worse", URL: q.URL})
		p.publish("198.51.100.3\n198.51.100.4\n")
		f.due(t)
		f.wantActive(t, blocks.Filter{Lists: true}, "ip:198.51.100.1", "ip:198.51.100.2", "ip:198.51.100.3", "ip:198.51.100.4")
		f.wantActive(t, blocks.Filter{Holder: "list/bad", Lists: true}, "ip:198.51.100.3", "ip:198.51.100.4")
		f.wantActive(t, blocks.Filter{Holder: "list/worse", Lists: true}, "ip:198.51.100.2")
		if m := f.node.Catalog.Blocks().Match(key(t, "ip:198.51.100.4"), f.now); m.Block == nil || m.Block.ListOf() != "bad" {
			t.Errorf("the node does not refuse by the row: %+v", m)
		}
		before := p.requests()
		f.due(t)
		if last := p.headers[len(p.headers)-1]; p.requests() != before+1 || last.Get("If-None-Match") == "" || f.get(t, "bad").Rows != 2 {
			t.Errorf("an unchanged list was asked for with %v", last)
		}
		if _, err := f.Remove(t.Context(), ann, wire.ByName{Name: "bad"}); err != nil {
			t.Fatal(err)
		}
		f.wantActive(t, blocks.Filter{Lists: true}, "ip:198.51.100.1", "ip:198.51.100.2")
	})
}

func key(t *testing.T, text string) keys.Key {
	t.Helper()
	k, err := keys.Parser{}.Key(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestShadowRefusesNothingAndExemptAllows(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.add(t, wire.BlockSourceRequest{Name: "tried", URL: newPublisher(t, "198.51.100.0/24\n").URL, As: "shadow"})
		f.add(t, wire.BlockSourceRequest{Name: "bots", URL: newPublisher(t, `{"prefixes":[{"ipv4Prefix":"192.0.2.0/24"}]}`).URL, As: "exempt"})
		set := f.node.Catalog.Blocks()
		if m := set.MatchIn(key(t, "ip:198.51.100.7"), "", f.now); m.Block != nil {
			t.Errorf("a list in shadow mode refuses: %+v", m)
		}
		if e := set.Shadow().Match(key(t, "ip:198.51.100.7"), f.now).Block; e == nil || e.ListOf() != "tried" {
			t.Errorf("the shadow row is not found: %+v", e)
		}
		if m := set.Match(key(t, "ip:192.0.2.7"), f.now); m.Exemption == nil || m.Exemption.ListOf() != "bots" {
			t.Errorf("got %+v, want an exemption", m)
		}
	})
}

func TestRowsForAttacksRefuseOnlyInOne(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.add(t, wire.BlockSourceRequest{Name: "exits", URL: newPublisher(t, "198.51.100.0/24\n").URL, As: "attack"})
		log := memlog.New(memlog.Options{Now: func() time.Time { return f.now }})
		t.Cleanup(func() { log.Close() })
		g := gate.New(gate.Options{View: f.node.Catalog, Log: log, InAttack: f.node.Catalog.InAttack, Now: func() time.Time { return f.now }})
		for _, attack := range []bool{false, true, false} {
			f.node.Catalog.SetAttack(attack)
			d, err := g.Check(t.Context(), gate.Check{Key: key(t, "ip:198.51.100.7"), Cost: 1})
			x, explainErr := g.Explain(t.Context(), key(t, "ip:198.51.100.7"), "")
			if err != nil || explainErr != nil || (d.Outcome == gate.Blocked) != attack || (d.Block != nil) != attack || d.Never || (x.Outcome == gate.Blocked) != attack {
				t.Errorf("in an attack: %t; the check is %s, the explanation %s; %v, %v", attack, d.Outcome, x.Outcome, err, explainErr)
			}
		}
		f.wantActive(t, listed, "ip:198.51.100.0/24")
	})
}

// TestRowsChallengeBesideBlocks has one pattern in a list that challenges, in one that blocks, and in
// a block of an operator. None of them keeps another out, and bouncers get what refuses only.
func TestRowsChallengeBesideBlocks(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		const both, own = "ip:198.51.100.1", "ip:198.51.100.2"
		list := "198.51.100.1\n198.51.100.2\n198.51.100.3\n"
		if s := f.add(t, wire.BlockSourceRequest{Name: "tor", URL: newPublisher(t, list).URL, As: "challenge"}); s.As != "challenge" || s.Rows != 3 {
			t.Fatalf("got %+v", s)
		}
		f.add(t, wire.BlockSourceRequest{Name: "bad", URL: newPublisher(t, "198.51.100.1\n").URL})
		if _, err := f.node.Store.Entries.Add(t.Context(), ann.Actor, blocks.Fail, storetest.NewBlock(t, own, time.Time{})); err != nil {
			t.Fatalf("a row that challenges keeps an operator from blocking: %v", err)
		}
		set := f.node.Catalog.Blocks()
		for text, challenges := range map[string]bool{both: false, own: false, "ip:198.51.100.3": true} {
			for _, scope := range []string{"", "login"} {
				if m := set.MatchIn(key(t, text), scope, f.now); !m.Refuses() || m.Challenges() != challenges {
					t.Errorf("%s in the scope %q: got %+v", text, scope, m.Block)
				}
			}
			if m := set.Match(key(t, text), f.now); (m.Block == nil) != challenges {
				t.Errorf("what knows no challenges gets %+v for %s", m.Block, text)
			}
		}
		changes, err := f.node.Store.Entries.BouncerChanges(t.Context(), 0, time.Time{}, f.now, false)
		if err != nil {
			t.Fatal(err)
		}
		var sent []string
		for _, h := range changes.Entries {
			sent = append(sent, h.Entry.Pattern.String())
		}
		if slices.Sort(sent); !slices.Equal(sent, []string{both, own}) {
			t.Errorf("bouncers are sent %q", sent)
		}
		if _, err := f.Remove(t.Context(), ann, wire.ByName{Name: "bad"}); err != nil {
			t.Fatal(err)
		}
		if m := set.MatchIn(key(t, both), "", f.now); !m.Challenges() || m.Block.ListOf() != "tor" {
			t.Errorf("without the list that blocks: got %+v", m.Block)
		}
		if _, err := f.Remove(t.Context(), ann, wire.ByName{Name: "tor"}); err != nil {
			t.Fatal(err)
		}
		f.wantActive(t, blocks.Filter{Lists: true}, own)
	})
}

func TestAListThatFailsKeepsItsRows(t *testing.T) {
	endless := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat("# no end\n", 8192)); err != nil {
				return
			}
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"gone":        {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }, "answered 410"},
		"empty":       {func(http.ResponseWriter, *http.Request) {}, "the list is empty"},
		"redirecting": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, "redirects are not followed"},
		"endless":     {endless, "longer than 256 MiB"},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "198.51.100.1\n")
		}, "EOF"},
		"half a JSON": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"prefixes":[{"ipv4Prefix":"198.51.100.0/24"}`)
		}, "in the middle of its JSON"},
		"a page": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html>\n<body>\nMaintenance\n")
		}, "no list that can be read"},
		"too long": {func(w http.ResponseWriter, _ *http.Request) {
			for i := range 1_000_001 {
				_, _ = fmt.Fprintf(w, "11.%d.%d.%d\n", i>>16, i>>8&255, i&255)
			}
		}, "more than 1000000 rows"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, storetest.OpenSQLite(t).URL, "node")
			p := newPublisher(t, "198.51.100.1\n")
			f.add(t, wire.BlockSourceRequest{Name: "bad", URL: p.URL})
			p.answerWith(c.answer)
			f.due(t)
			got := f.get(t, "bad")
			if !strings.Contains(string(got.Error), c.want) || got.State != "failing" || got.Rows != 1 {
				t.Errorf("got %s: %s, want %q", got.State, got.Error, c.want)
			}
			f.wantActive(t, listed, "ip:198.51.100.1")
			for range 3 {
				p.answerWith(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
				f.due(t)
			}
			if got := f.get(t, "bad"); got.State != "stale" || !slices.Equal(f.alarms, []string{"true The source bad is stale"}) {
				t.Errorf("got %s and the alarms %q", got.State, f.alarms)
			}
			p.publish("198.51.100.1\n")
			f.due(t)
			if got := f.get(t, "bad"); got.State != "current" || got.Error != "" || len(f.alarms) != 2 {
				t.Errorf("got %s and the alarms %q", got.State, f.alarms)
			}
		})
	}
}

// A server that sends a row and then nothing ends the pull by its time limit.
func TestASlowListKeepsItsRows(t *testing.T) {
	f := newFixture(t, storetest.OpenSQLite(t).URL, "node")
	p := newPublisher(t, "198.51.100.1\n")
	f.add(t, wire.BlockSourceRequest{Name: "bad", URL: p.URL})
	f.Timeout = 100 * time.Millisecond
	p.answerWith(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "198.51.100.2\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	f.due(t)
	if got := f.get(t, "bad"); got.State != "failing" || string(got.Error) != "the server did not send the whole list in time" || got.Rows != 1 {
		t.Errorf("got %s: %s", got.State, got.Error)
	}
	f.wantActive(t, listed, "ip:198.51.100.1")
}

// A pull of a long list takes longer than a request may. It goes on, and its answer says what it did.
func TestAPullThatOutlastsItsRequestIsAnswered(t *testing.T) {
	f := newFixture(t, storetest.OpenSQLite(t).URL, "node")
	p := newPublisher(t, "198.51.100.1\n")
	ctx, cancel := context.WithCancel(t.Context())
	p.answerWith(func(w http.ResponseWriter, _ *http.Request) {
		cancel()
		_, _ = io.WriteString(w, "198.51.100.1\n198.51.100.2\n")
	})
	got, err := f.Add(ctx, ann, wire.BlockSourceRequest{Name: "bad", URL: p.URL})
	if err != nil || got.Rows != 2 || got.State != "current" {
		t.Errorf("got %s with %d rows, %v", got.State, got.Rows, err)
	}
}

func TestNoListBlocksWhatItMustNot(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		p := newPublisher(t, "0.0.0.0/0\n::/0\n10.1.2.3\n127.0.0.1\n192.168.0.0/16\n203.0.113.99\n203.0.113.0/24\n2000::/3\n*\n198.51.100.0/24\n198.51.100.7\n2001:db8::/32\nfe80::1\n")
		got := f.add(t, wire.BlockSourceRequest{Name: "poisoned", URL: p.URL})
		if got.Rows != 3 || got.LeftOut != 10 || len(got.Notes) == 0 {
			t.Errorf("got %+v", got)
		}
		f.wantActive(t, listed, "ip:198.51.100.0/24", "ip:198.51.100.7", "ip:2001:db8::/32")
	})
}

func TestRowsThatListsCannotHoldAreLeftOut(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		p := newPublisher(t, "pattern,scope\nip:198.51.100.1,\nip:198.51.100.2,login\n")
		if got := f.add(t, wire.BlockSourceRequest{Name: "scoped", URL: p.URL}); got.Rows != 1 || got.LeftOut != 1 {
			t.Errorf("got %+v", got)
		}
		f.wantActive(t, listed, "ip:198.51.100.1")
	})
}

// A list whose rows end by themselves is read again also where it did not change.
func TestRowsThatEndAreRenewed(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		p := newPublisher(t, "pattern,expires_in\nip:198.51.100.1,90m\n")
		f.add(t, wire.BlockSourceRequest{Name: "short", URL: p.URL})
		for range 3 {
			f.due(t)
			f.wantActive(t, listed, "ip:198.51.100.1")
		}
	})
}

func TestAValidatorOfNoTextStopsNoOtherList(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		p, q := newPublisher(t, "198.51.100.1\n"), newPublisher(t, "198.51.100.2\n")
		f.add(t, wire.BlockSourceRequest{Name: "a", URL: p.URL})
		f.add(t, wire.BlockSourceRequest{Name: "b", URL: q.URL})
		p.answerWith(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", "\"\xff\xfe\"")
			w.Header().Set("Last-Modified", "\x80")
			_, _ = io.WriteString(w, "198.51.100.3\n")
		})
		q.publish("198.51.100.44\n")
		f.due(t)
		f.wantActive(t, listed, "ip:198.51.100.3", "ip:198.51.100.44")
	})
}

func TestALargeChangeIsHeldUntilSomebodyAgrees(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		p := newPublisher(t, addresses(0, 100))
		if got := f.add(t, wire.BlockSourceRequest{Name: "bad", URL: p.URL}); got.Rows != 100 || got.Held != nil {
			t.Fatalf("the first pull: %+v", got)
		}
		if _, err := f.Agree(t.Context(), ann, wire.ByName{Name: "bad"}); !fault.Is(err, fault.Conflict) {
			t.Errorf("agreeing to nothing: %v", err)
		}
		for text, want := range map[string][2]int{addresses(0, 40): {0, 60}, addresses(0, 160): {60, 0}, addresses(300, 100): {100, 100}} {
			p.publish(text)
			f.due(t)
			got := f.get(t, "bad")
			if got.State != "held" || got.Held == nil || got.Held.Added != want[0] || got.Held.Ended != want[1] || got.Rows != 100 {
				t.Errorf("got %+v, %+v", got, got.Held)
			}
		}
		if n := len(f.active(t, listed)); n != 100 || len(f.alarms) != 1 {
			t.Errorf("%d rows are in force while a pull is held; alarms %q", n, f.alarms)
		}
		p.publish(addresses(0, 900)) // it changed since it was held
		if got, err := f.Agree(t.Context(), ann, wire.ByName{Name: "bad"}); err != nil || got.State != "held" {
			t.Errorf("got %+v, %v, want held again", got, err)
		}
		p.publish(addresses(0, 905))
		got, err := f.Agree(t.Context(), ann, wire.ByName{Name: "bad"})
		if err != nil || got.State != "current" || got.Rows != 905 || len(f.active(t, listed)) != 905 {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestOneNodePulls(t *testing.T) {
	storetest.OnBothURLs(t, func(t *testing.T, url string) {
		one, two := newFixture(t, url, "one"), newFixture(t, url, "two")
		p := newPublisher(t, addresses(0, 50))
		one.add(t, wire.BlockSourceRequest{Name: "bad", URL: p.URL})
		two.now = one.now.Add(time.Hour)
		one.now = two.now
		asked, answer := make(chan struct{}), make(chan struct{})
		p.answerWith(func(w http.ResponseWriter, _ *http.Request) {
			close(asked)
			<-answer
			_, _ = io.WriteString(w, addresses(0, 51))
		})
		done := make(chan error)
		go func() {
			_, err := one.PullDue(context.WithoutCancel(t.Context()))
			done <- err
		}()
		<-asked
		if did, err := two.PullDue(t.Context()); err != nil || did != "pulled 0 lists, of which 0 failed" {
			t.Errorf("the other node: %s, %v", did, err)
		}
		if _, err := two.Pull(t.Context(), ann, wire.ByName{Name: "bad"}); !fault.Is(err, fault.Conflict) {
			t.Errorf("pulling it at the same time: %v", err)
		}
		close(answer)
		if err := <-done; err != nil || two.get(t, "bad").Rows != 51 {
			t.Errorf("got %+v, %v", two.get(t, "bad"), err)
		}
		if did, err := two.PullDue(t.Context()); err != nil || did != "pulled 0 lists, of which 0 failed" {
			t.Errorf("the other node, after it: %s, %v", did, err)
		}
	})
}

func TestAPullThatIsInterruptedLeavesNothingHalf(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		p := newPublisher(t, addresses(0, 3000))
		f.add(t, wire.BlockSourceRequest{Name: "bad", URL: p.URL})
		ctx, cancel := context.WithCancel(t.Context())
		p.answerWith(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, addresses(1000, 1500))
			w.(http.Flusher).Flush()
			cancel()
		})
		f.now = f.now.Add(time.Hour)
		if _, err := f.PullDue(ctx); err == nil {
			t.Error("a pull that was interrupted reports success")
		}
		if n := len(f.active(t, listed)); n != 3000 || f.get(t, "bad").Error != "" {
			t.Errorf("%d rows are in force, want 3000; %+v", n, f.get(t, "bad"))
		}
	})
}

// unread is a database that commits pulls, and cannot be read afterwards.
type unread struct{ sources.EntryStore }

func (u unread) Pull(ctx context.Context, by audit.Actor, l blocks.ListRows, rows iter.Seq2[blocks.Entry, error], decide func(blocks.PullDiff) error) (blocks.PullDiff, error) {
	diff, err := u.EntryStore.Pull(ctx, by, l, rows, decide)
	if err == nil {
		err = fault.New(fault.Saved, "The change is saved.")
	}
	return diff, err
}

func TestAPullThatIsSavedIsNoFailureWhereItCannotBeReadAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.Entries = unread{f.Entries}
		if s := f.add(t, wire.BlockSourceRequest{Name: "bad", URL: newPublisher(t, addresses(0, 30)).URL}); s.Error != "" || s.Rows != 30 {
			t.Errorf("got %+v", s)
		}
	})
}

func TestSourcesAreChecked(t *testing.T) {
	f := newFixture(t, storetest.OpenSQLite(t).URL, "node")
	for field, r := range map[string]wire.BlockSourceRequest{
		"name":    {Name: "No", URL: "https://example.com/"},
		"url":     {Name: "a", URL: "ftp://example.com/"},
		"url ":    {Name: "a", URL: "/etc/shadow"},
		"url  ":   {Name: "a", URL: "https://user:pass@example.com/"},
		"url   ":  {Name: "a"},
		"as":      {Name: "a", URL: "https://example.com/", As: "maybe"},
		"format":  {Name: "a", URL: "https://example.com/", Format: "xml"},
		"every":   {Name: "a", URL: "https://example.com/", Every: wire.Duration(time.Second)},
		"header":  {Name: "a", URL: "https://example.com/", Header: "no value"},
		"header ": {Name: "abuseipdb"},
	} {
		_, err := f.Add(t.Context(), ann, r)
		if e, is := errors.AsType[*fault.Error](err); !is || e.Field != strings.TrimSpace(field) {
			t.Errorf("%+v: got %v, want the field %q", r, err, field)
		}
	}
	p := newPublisher(t, "198.51.100.1\n")
	got := f.add(t, wire.BlockSourceRequest{Name: "secret", URL: p.URL, Header: "Key: abc"})
	if !got.HasHeader || p.headers[0].Get("Key") != "abc" {
		t.Errorf("got %+v with the headers %v", got, p.headers)
	}
	if _, err := f.Add(t.Context(), ann, wire.BlockSourceRequest{Name: "secret", URL: p.URL}); !fault.Is(err, fault.Conflict) {
		t.Errorf("adding it twice: %v", err)
	}
}

func TestTheCatalogueCanBeAdded(t *testing.T) {
	f := newFixture(t, storetest.OpenSQLite(t).URL, "node")
	f.Fetch = func(context.Context, sources.Request) (*sources.Answer, error) {
		return nil, fault.New(fault.Malformed, "not now")
	}
	all, err := f.Catalogue(t.Context(), ann, wire.None{})
	if err != nil || len(all.Items) < 12 {
		t.Fatalf("%d lists, %v", len(all.Items), err)
	}
	for _, k := range all.Items {
		if k.Title == "" || k.License == "" || k.Advice == "" || k.Added {
			t.Errorf("%+v lacks what people need", k)
		}
		r := wire.BlockSourceRequest{Name: k.Name}
		if k.Header != "" {
			r.Header = k.Header + ": x"
		}
		if got := f.add(t, r); got.URL != k.URL || got.As != k.As || got.Every != k.Every || got.Error != "not now" {
			t.Errorf("got %+v of %+v", got, k)
		}
	}
	if all, _ = f.Catalogue(t.Context(), ann, wire.None{}); !all.Items[0].Added {
		t.Error("the catalogue does not say what was added")
	}
}
