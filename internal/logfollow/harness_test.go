package logfollow_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/app"
	"github.com/stint-dev/stint/internal/logfollow"
)

const (
	adminToken = "c110adca9f5c1b7d2830694ef1a5c3d7"
	// limit is that of the policy of all addresses, so that what remains of it shows what
	// was charged.
	limit   = 100_000
	maxWait = time.Minute
)

// node is an embedded node with a policy of one large limit.
type node struct {
	testing.TB
	dir, check, admin string
	stop              func()
}

func startNode(t testing.TB) *node {
	n := &node{TB: t, dir: t.TempDir(), check: "127.0.0.1:0", admin: "127.0.0.1:0"}
	n.start()
	n.do(http.MethodPut, "/v1/policies/all", fmt.Sprintf(`{"match":["ip:*"],"rules":["%d/1d"]}`, limit), http.StatusCreated)
	return n
}

// start starts it, after a stop with its former data and addresses.
func (n *node) start() {
	n.Helper()
	settings, err := app.Load([]string{"--listen", n.check, "--admin-listen", n.admin, "--data-dir", n.dir}, []string{"STINT_ADMIN_TOKEN=" + adminToken})
	if err != nil {
		n.Fatal(err)
	}
	a, err := app.New(context.Background(), settings, io.Discard, io.Discard)
	if err != nil {
		n.Fatal(err)
	}
	n.check, n.admin = a.CheckAddr().String(), a.AdminAddr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			n.Error(err)
		}
	})
	n.Cleanup(n.stop)
}

func (n *node) do(method, path, body string, status int) {
	n.Helper()
	request, err := http.NewRequest(method, "http://"+n.admin+path, strings.NewReader(body))
	if err != nil {
		n.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+adminToken)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		n.Fatal(err)
	}
	defer response.Body.Close()
	if text, _ := io.ReadAll(response.Body); response.StatusCode != status {
		n.Fatalf("%s %s: got %d, want %d: %s", method, path, response.StatusCode, status, text)
	}
}

func newClient(t testing.TB, address string) *client.Client {
	c, err := client.New("http://"+address, client.WithRetries(0), client.WithMemory(0), client.WithTimeout(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// charged returns how often an address was charged.
func (n *node) charged(ip string) int {
	n.Helper()
	d, err := newClient(n, n.check).Check(context.Background(), client.Check{Key: "ip:" + ip, Peek: true})
	if err != nil {
		n.Fatal(err)
	}
	if len(d.Rules) != 1 {
		n.Fatalf("a check of %s: got %+v", ip, d)
	}
	return limit - d.Rules[0].Remaining
}

// site is a log that is written and followed.
type site struct {
	*node
	path, state string
	path2       string         // of a second log that is followed, "" for none
	wrote       map[string]int // lines by address
	lines       int
	logged      log
	options     logfollow.Options
	summary     *logfollow.Summary
	ended       chan error
	cancel      func()
}

// log keeps what was logged.
type log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *log) logf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(&l.text, format+"\n", args...)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newSite(t *testing.T) *site {
	n := startNode(t)
	dir := t.TempDir()
	s := &site{node: n, path: filepath.Join(dir, "access.log"), state: filepath.Join(t.TempDir(), "state.json"), wrote: map[string]int{}}
	s.options = logfollow.Options{Server: newClient(t, n.check), State: s.state, Logf: s.logged.logf, Read: accesslog.Options{Key: "host"}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the follower logged:\n%s", s.logged.String())
		}
	})
	s.append(s.path, "")
	return s
}

// lineOf returns a line of the nth client.
func lineOf(ip string, at time.Time, n int) string {
	return fmt.Sprintf("%s - - [%s] \"GET /page/%d HTTP/1.1\" 200 512 \"-\" \"agent/1\"\n", ip, at.UTC().Format("02/Jan/2006:15:04:05 -0700"), n)
}

// more returns n lines of some clients, which are expected to be charged.
func (s *site) more(n int) string {
	var b strings.Builder
	for range n {
		s.lines++
		ip := fmt.Sprintf("203.0.113.%d", s.lines%7+1)
		s.wrote[ip]++
		b.WriteString(lineOf(ip, time.Now(), s.lines))
	}
	return b.String()
}

func (s *site) append(path, text string) {
	s.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		s.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		s.Fatal(err)
	}
	f.Close()
}

// appendEarlier appends to a file, as if that was before the log is first looked at: what was
// modified within clockGrain before a look counts as written after it.
func (s *site) appendEarlier(path, text string) {
	s.Helper()
	s.append(path, text)
	before := time.Now().Add(-time.Minute)
	if err := os.Chtimes(path, before, before); err != nil {
		s.Fatal(err)
	}
}

// write appends n lines to the log.
func (s *site) write(n int) { s.append(s.path, s.more(n)) }

// follow starts to follow the log.
func (s *site) follow() {
	s.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.ended = cancel, make(chan error, 1)
	started := strings.Count(s.logged.String(), "Following")
	paths := []string{s.path}
	if s.path2 != "" {
		paths = append(paths, s.path2)
	}
	go func() {
		summary, err := logfollow.Run(ctx, paths, s.options)
		s.summary = summary
		s.ended <- err
	}()
	s.Cleanup(cancel)
	s.await("the log is followed", func() bool {
		return strings.Count(s.logged.String(), "Following") >= started+len(paths) || len(s.ended) > 0
	})
}

// leave stops following and returns the error.
func (s *site) leave() error {
	s.cancel()
	return <-s.ended
}

// once follows until the end of the files.
func (s *site) once() (*logfollow.Summary, error) {
	o := s.options
	o.Once = true
	return logfollow.Run(context.Background(), []string{s.path}, o)
}

func (s *site) await(what string, reached func() bool) {
	s.Helper()
	for deadline := time.Now().Add(maxWait); !reached(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("waited too long until %s; the follower logged:\n%s", what, s.logged.String())
		}
	}
}

// awaitCharges waits until every line was charged, and fails if one was charged twice.
func (s *site) awaitCharges() {
	s.Helper()
	s.await("all lines are charged", func() bool {
		for ip, want := range s.wrote {
			switch got := s.charged(ip); {
			case got > want:
				s.Fatalf("%s was charged %d times for %d lines; the follower logged:\n%s", ip, got, want, s.logged.String())
			case got < want:
				return false
			}
		}
		return true
	})
}

// addSecond has a second, empty log followed too.
func (s *site) addSecond() {
	s.Helper()
	s.path2 = s.path + ".2nd"
	s.append(s.path2, "")
}

// awaitRead waits until what was appended to the first log has been read, lines without an
// end too: each round reads both logs, so that one that charges a second line of the second
// log, after the first one was charged, has read all that was there before them. These lines
// are of the addresses 198.51.100.1 and 198.51.100.2.
func (s *site) awaitRead() {
	s.Helper()
	for i := range 2 {
		ip := fmt.Sprintf("198.51.100.%d", i+1)
		s.append(s.path2, lineOf(ip, time.Now(), i))
		s.await("the second log is read", func() bool { return s.charged(ip) == 1 })
	}
}

func (s *site) rename(from, to string) {
	s.Helper()
	if err := os.Rename(from, to); err != nil {
		s.Fatal(err)
	}
}

func (s *site) awaitLog(text string) {
	s.Helper()
	s.await(fmt.Sprintf("it logs %q", text), func() bool { return strings.Contains(s.logged.String(), text) })
}

// unreachable is a server that does not answer: with an error of the network, or after the
// checks have arrived.
type unreachable struct {
	logfollow.Server
	mu      sync.Mutex
	loses   bool // answers are lost
	checked int
	probed  int
}

var errLost = &client.OutageError{Attempts: 1, Err: errors.New("the answer broke off")}

func (u *unreachable) Batch(ctx context.Context, checks []client.Check) ([]client.BatchItem, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if checks[0].Peek {
		u.probed++
		if u.loses {
			return nil, errLost
		}
		return u.Server.Batch(ctx, checks)
	}
	u.checked++
	items, err := u.Server.Batch(ctx, checks)
	if err == nil && u.loses {
		return nil, errLost
	}
	return items, err
}

func (u *unreachable) ReportBatch(ctx context.Context, reports []client.Report) ([]client.ReportItem, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	items, err := u.Server.ReportBatch(ctx, reports)
	if err == nil && u.loses {
		return nil, errLost
	}
	return items, err
}

func (u *unreachable) set(loses bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.loses = loses
}

func (u *unreachable) count() (checked, probed int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.checked, u.probed
}
