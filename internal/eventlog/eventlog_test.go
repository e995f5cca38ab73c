package eventlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/conditions"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/test/servers"
)

func TestTargets(t *testing.T) {
	for text, want := range map[string]Target{
		"": {}, "stdout": {Stdout: true}, "/var/log/stint/events.json": {File: "/var/log/stint/events.json"},
		"syslogs://logs.example.com:6514": {Syslog: "logs.example.com:6514", TLS: true}, "syslog://[::1]:601": {Syslog: "[::1]:601"},
	} {
		got, err := ParseTarget(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%q: got %+v %v", text, got, err)
		}
	}
	for _, text := range []string{"events.json", "stderr", "syslog://host", "syslogs://:6514", "udp://host:514", "syslogs://user@host:6514", "https://host:1/x", "/var/log/"} {
		if got, err := ParseTarget(text); err == nil || !strings.HasPrefix(err.Error(), "must be stdout, the path") {
			t.Errorf("%q: got %+v %v, want an error that says what is right", text, got, err)
		}
	}
}

// line is a line as a reader takes it.
type line struct {
	Message string `json:"message"`
	Event   struct {
		ID, Action, Outcome, Dataset string
		Type, Category               []string
	} `json:"event"`
	Source struct{ IP string }   `json:"source"`
	URL    struct{ Path string } `json:"url"`
	Agent  struct {
		Original string `json:"original"`
	} `json:"user_agent"`
	Rule  struct{ Name, Ruleset string } `json:"rule"`
	Stint struct {
		Key, Decision, Caller string
		Omitted               int64
	} `json:"stint"`
}

func linesOf(t *testing.T, text []byte) (all []line) {
	t.Helper()
	for raw := range bytes.Lines(text) {
		if len(raw) > maxPayload {
			t.Errorf("a line has %d bytes, want at most %d", len(raw), maxPayload)
		}
		var l line
		if err := json.Unmarshal(bytes.TrimSpace(raw), &l, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		all = append(all, l)
	}
	return all
}

func keyOf(t testing.TB, text string) keys.Key {
	t.Helper()
	k, err := (keys.Parser{}).Key(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// decided returns a decision about the request of a key.
func decided(t testing.TB, key string, outcome gate.Outcome, path, agent string) *gate.Decision {
	t.Helper()
	d := &gate.Decision{Check: gate.Check{Key: keyOf(t, key)}, Outcome: outcome}
	d.At, d.Rule = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), -1
	d.Check.Request = conditions.NewRequest(path, "GET", agent, "")
	return d
}

// buffer is standard output. While it is stuck, a write waits.
type buffer struct {
	mu    sync.Mutex
	text  []byte
	stuck chan struct{}
	err   error
}

func (b *buffer) Write(p []byte) (int, error) {
	if b.stuck != nil {
		<-b.stuck
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return 0, b.err
	}
	b.text = append(b.text, p...)
	return len(p), nil
}

func newLog(t testing.TB, o Options) *Log {
	t.Helper()
	o.Parser, o.Node, o.Version = func() keys.Parser { return keys.Parser{} }, "node-1", "v1.0.0"
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Size == 0 {
		o.Size = 16 << 20
	}
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestRefusalsAreLinesOfJSONAndAllowedChecksASample(t *testing.T) {
	out := &buffer{}
	l := newLog(t, Options{Settings: Settings{To: Target{Stdout: true}}, Stdout: out})
	l.Record(decided(t, "ip:192.0.2.7", gate.Blocked, "/login", "curl/8"))
	l.Record(decided(t, "ip:192.0.2.8", gate.Allowed, "/", "curl/8"))
	l.Record(decided(t, "api:alice", gate.Challenged, "/search", "curl/8"))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got := linesOf(t, out.text)
	if len(got) != 2 {
		t.Fatalf("got %d lines, want those of the two refusals: %s", len(got), out.text)
	}
	first := got[0]
	if first.Source.IP != "192.0.2.7" || first.Event.Action != "blocked" || first.Event.Outcome != "failure" || first.URL.Path != "/login" ||
		first.Agent.Original != "curl/8" || first.Message != "ip:192.0.2.7 is blocked" || first.Event.Dataset != "stint.decision" {
		t.Errorf("got %+v", first)
	}
	if got[1].Source.IP != "" || got[1].Stint.Key != "api:alice" || got[1].Stint.Decision != "challenged" {
		t.Errorf("got %+v, want no address", got[1])
	}

	out.text = nil
	l = newLog(t, Options{Settings: Settings{To: Target{Stdout: true}, Allowed: 1}, Stdout: out, OmitPaths: true, OmitAgents: true})
	l.Record(decided(t, "ip:192.0.2.8", gate.Allowed, "/secret", "curl/8"))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got = linesOf(t, out.text)
	if len(got) != 1 || got[0].Event.Outcome != "success" || bytes.Contains(out.text, []byte("secret")) || bytes.Contains(out.text, []byte("curl")) {
		t.Errorf("got %s, want the allowed check without path and agent", out.text)
	}
}

func TestHostileTextsStayInTheirLine(t *testing.T) {
	out := &buffer{}
	l := newLog(t, Options{Settings: Settings{To: Target{Stdout: true}}, Stdout: out})
	for _, path := range []string{"/\x1b[2J", "/\u2028\u202e\u0085", "/a\nb\r", "/\xff\xfe", "/" + strings.Repeat("é", 5000), "/" + strings.Repeat("\xff", 5000), "/" + strings.Repeat("\x00", 5000)} {
		l.Record(decided(t, "api:"+strings.Repeat("x", 200), gate.Limited, path, path))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{strings.Repeat("<", 500), strings.Repeat("\u202e", 160), strings.Repeat("\"", 500)} {
		l.Record(decided(t, "api:"+key, gate.Limited, "/"+key, key))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(linesOf(t, out.text)); n != 10 {
		t.Errorf("got %d lines, want 10", n)
	}
	for _, r := range string(out.text) {
		if r != '\n' && (r < ' ' || (r >= 0x7f && r < 0xa0) || r == '\u2028') {
			t.Errorf("a line has %U as it is", r)
		}
	}
}

func TestChecksNeverWaitAndWhatIsMissingIsSaid(t *testing.T) {
	out := &buffer{stuck: make(chan struct{})}
	l := newLog(t, Options{Settings: Settings{To: Target{Stdout: true}}, Stdout: out})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { l.Run(ctx) })
	const sent = 3 * maxWaiting
	for range sent {
		l.Record(decided(t, "ip:192.0.2.7", gate.Blocked, "/", ""))
	}
	omitted := l.Omitted()
	if omitted < sent-maxWaiting-maxBatch-1 || omitted > sent-maxWaiting {
		t.Errorf("got %d omitted events", omitted)
	}
	_ = l.State() // does not wait for the writer
	close(out.stuck)
	stop()
	running.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var events, said int64
	for _, one := range linesOf(t, out.text) {
		if one.Event.Action == "omitted" {
			said += one.Stint.Omitted
			continue
		}
		events++
	}
	if said != omitted || events+said != sent {
		t.Errorf("got %d lines and %d said to be missing, want together %d, of which %d are missing", events, said, sent, omitted)
	}
}

func TestAFailingTargetIsTriedAgainAndSaid(t *testing.T) {
	out := &buffer{err: errors.New("broken pipe")}
	l := newLog(t, Options{Settings: Settings{To: Target{Stdout: true}}, Stdout: out})
	l.Record(decided(t, "ip:192.0.2.7", gate.Blocked, "/", ""))
	if err := l.Close(); err == nil || l.State().Err == nil || !strings.Contains(l.State().Err.Error(), "broken pipe") {
		t.Errorf("got %v and %+v, want the error", err, l.State())
	}
}

func TestAStopEndsThoughNobodyReadsStandardOutput(t *testing.T) {
	out := &buffer{stuck: make(chan struct{})}
	l := newLog(t, Options{Settings: Settings{To: Target{Stdout: true}}, Stdout: out})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { l.Run(ctx) })
	l.Record(decided(t, "ip:192.0.2.7", gate.Blocked, "/", ""))
	servers.Await(t, "the write", func() bool { return len(l.queue) == 0 })
	stop()
	running.Wait()
	if err := l.Close(); !errors.Is(err, errStuck) {
		t.Errorf("got %v, want that the last events are lost", err)
	}
	close(out.stuck)
}

func TestWhatCouldNotBeWrittenBeforeAStopIsTriedOnceMore(t *testing.T) {
	out := &buffer{err: errors.New("no space")}
	l := newLog(t, Options{Settings: Settings{To: Target{Stdout: true}}, Stdout: out})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { l.Run(ctx) })
	l.Record(decided(t, "ip:192.0.2.7", gate.Blocked, "/", ""))
	servers.Await(t, "the failure", func() bool { return l.State().Err != nil })
	stop()
	running.Wait()
	out.mu.Lock()
	out.err = nil
	out.mu.Unlock()
	if err := l.Close(); err != nil || len(linesOf(t, out.text)) != 1 {
		t.Errorf("got %v and %s, want the event", err, out.text)
	}
}

func TestFilesAreRotatedAndFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.json")
	l := newLog(t, Options{Settings: Settings{To: Target{File: path}, Size: 50 << 10}})
	write := func(n int) {
		t.Helper()
		for range n {
			l.Record(decided(t, "ip:192.0.2.7", gate.Blocked, "/", ""))
			if err := l.write(l.batch(<-l.queue)); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(300)
	found, err := filepath.Glob(path + "*")
	if err != nil || len(found) != olderFiles+1 {
		t.Fatalf("got the files %v %v, want %d", found, err, olderFiles+1)
	}
	total := int64(0)
	for _, name := range found {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o640 {
			t.Errorf("%s has the mode %v", name, info.Mode())
		}
		total += info.Size()
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		linesOf(t, text)
	}
	if total > 50<<10 {
		t.Errorf("the files take %d bytes, want at most %d", total, 50<<10)
	}
	// logrotate renames the file.
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	write(1)
	text, err := os.ReadFile(path)
	if err != nil || len(linesOf(t, text)) != 1 {
		t.Errorf("got %s %v, want a new file with one line", text, err)
	}
	// And copytruncate empties it.
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	write(1)
	if text, err := os.ReadFile(path); err != nil || len(linesOf(t, text)) != 1 {
		t.Errorf("got %s %v, want one line", text, err)
	}
}

func TestAFileThatCannotBeWrittenIsAnErrorAtTheStart(t *testing.T) {
	for _, path := range []string{filepath.Join(t.TempDir(), "missing", "events.json"), t.TempDir(), "/dev/null"} {
		_, err := New(Options{Settings: Settings{To: Target{File: path}, Size: 16 << 20}, Log: slog.New(slog.DiscardHandler)})
		if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want an error of one line", path, err)
		}
	}
}

func TestBacklogIsBoundedAndSaysWhatItDeleted(t *testing.T) {
	dir := t.TempDir()
	const size = 80 << 10
	s, err := openBacklog(dir, size)
	if err != nil {
		t.Fatal(err)
	}
	const lines = 3000
	for i := range lines {
		if err := s.write(fmt.Appendf(nil, "line %08d%s\n", i, strings.Repeat(".", 86))); err != nil {
			t.Fatal(err)
		}
	}
	total := int64(0)
	files, _ := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if total > size {
		t.Errorf("the backlog takes %d bytes, want at most %d", total, size)
	}
	kept, _ := readAll(t, s)
	lost := s.lost()
	if kept+lost != lines || lost == 0 {
		t.Errorf("%d lines are kept and %d deleted, want together %d", kept, lost, lines)
	}
	if again := s.lost(); again != 0 {
		t.Errorf("the deleted lines are said again: %d", again)
	}
}

// readAll reads a backlog from its place on.
func readAll(t *testing.T, s *backlog) (lines int64, end place) {
	t.Helper()
	buffer := make([]byte, 64<<10)
	at := s.first()
	for {
		read, next, err := s.read(at, buffer)
		if err != nil {
			t.Fatal(err)
		}
		if len(read) == 0 {
			return lines, next
		}
		lines += int64(bytes.Count(read, []byte("\n")))
		at = next
	}
}

func TestBacklogGoesOnWhereItWasAndCutsOffHalfLines(t *testing.T) {
	dir := t.TempDir()
	open := func() *backlog {
		t.Helper()
		s, err := openBacklog(dir, 80<<10)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	if err := s.write([]byte("one\ntwo\nthree\n")); err != nil {
		t.Fatal(err)
	}
	read, after, err := s.read(s.first(), make([]byte, 5))
	if err != nil || string(read) != "one\n" {
		t.Fatalf("got %q %v", read, err)
	}
	if err := s.received(after); err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(s.name(s.files[0]), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, "fo"); err != nil { // the power went off
		t.Fatal(err)
	}
	f.Close()
	s = open()
	if err := s.write([]byte("five\n")); err != nil {
		t.Fatal(err)
	}
	read, _, err = s.read(s.first(), make([]byte, 100))
	if err != nil || string(read) != "two\nthree\nfive\n" {
		t.Errorf("got %q %v, want what was not received, without the half line", read, err)
	}
	if n := s.waiting(); n != int64(len("two\nthree\nfive\n")) {
		t.Errorf("%d bytes wait", n)
	}
	// The place cannot be read: everything is sent once more, and nothing is lost.
	if err := os.WriteFile(filepath.Join(dir, placeFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, _ := readAll(t, open()); n != 4 {
		t.Errorf("got %d lines, want all 4", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	l := newLog(b, Options{Settings: Settings{To: Target{Stdout: true}}, Stdout: io.Discard})
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { l.Run(ctx) })
	d := decided(b, "ip:192.0.2.7", gate.Blocked, "/login", "curl/8")
	for b.Loop() {
		l.Record(d)
	}
	b.ReportMetric(float64(l.Omitted())/float64(b.N), "omitted/op")
	stop()
	running.Wait()
}
