package logfollow_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/client"
	"github.com/stint-dev/stint/internal/accesslog"
	"github.com/stint-dev/stint/internal/answers"
	"github.com/stint-dev/stint/internal/logfollow"
)

func timeNow() time.Time { return time.Now() }

// crashing names the environment variables of a process that follows a log until it kills
// itself.
const (
	crashAfter = "STINT_TEST_CRASH_AFTER"
	crashURL   = "STINT_TEST_CRASH_URL"
	crashLog   = "STINT_TEST_CRASH_LOG"
	crashState = "STINT_TEST_CRASH_STATE"
)

func TestMain(m *testing.M) {
	if os.Getenv(crashAfter) == "" {
		os.Exit(m.Run())
	}
	var batches int32
	fmt.Sscan(os.Getenv(crashAfter), &batches)
	server, err := client.New(os.Getenv(crashURL), client.WithRetries(0), client.WithMemory(0))
	if err == nil {
		_, err = logfollow.Run(context.Background(), []string{os.Getenv(crashLog)}, logfollow.Options{
			Server: &killing{Server: server, left: batches}, State: os.Getenv(crashState), FromStart: true,
			Read: accesslog.Options{Key: "host"}, Logf: func(string, ...any) {},
		})
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// killing kills this process after a number of batches were answered, or in the middle of the
// next batch.
type killing struct {
	logfollow.Server
	left int32
}

func (k *killing) Batch(ctx context.Context, checks []client.Check) ([]client.BatchItem, error) {
	items, err := k.Server.Batch(ctx, checks)
	if atomic.AddInt32(&k.left, -1) <= 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return items, err
}

// A process that is killed between the answer and saving its position charges no line
// twice, and misses none.
func TestKilledProcessChargesEachLineOnce(t *testing.T) {
	s := newSite(t)
	s.write(9000)
	for round := range 6 {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), crashAfter+"="+fmt.Sprint(round+1), crashURL+"=http://"+s.check, crashLog+"="+s.path, crashState+"="+s.state)
		text, err := c.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("the process ended with %v: %s, want SIGKILL", err, text)
		}
		if round == 3 {
			s.rename(s.path, s.path+".1")
			s.write(100)
		}
	}
	summary, err := s.once()
	if err != nil {
		t.Fatal(err)
	}
	s.awaitCharges()
	if summary.Replayed == 0 {
		t.Errorf("no line was sent again, so the test has no effect: %s", summary)
	}
}

// Lines whose idempotency keys the server may have forgotten are not sent again.
func TestOldUncertainLineIsNotSentAgain(t *testing.T) {
	s := newSite(t)
	server := &unreachable{Server: s.options.Server, loses: true}
	s.options.Server = server
	s.follow()
	s.write(50)
	s.await("the server is checked and probed", func() bool { checked, probed := server.count(); return checked > 0 && probed > 0 })
	if err := s.leave(); err != nil {
		t.Fatal(err)
	}
	server.set(false)
	s.write(5)
	now := time.Now().Add(time.Minute)
	s.options.Now = func() time.Time { return now }
	summary, err := s.once()
	if err != nil {
		t.Fatal(err)
	}
	if summary.Uncertain == 0 || summary.Uncertain+summary.Checked != 55 || summary.Replayed > 0 {
		t.Errorf("got the summary %s", summary)
	}
	s.awaitCharges() // all of the first had been charged before their answers were lost
}

func TestLostAnswerIsRequestedAgain(t *testing.T) {
	s := newSite(t)
	server := &unreachable{Server: s.options.Server, loses: true}
	s.options.Server = server
	s.follow()
	s.write(50)
	s.await("the server is probed", func() bool { _, probed := server.count(); return probed > 0 })
	server.set(false)
	s.write(5)
	s.awaitLog("The server answers after")
	s.awaitCharges()
	s.leave()
	if s.summary.Replayed == 0 || s.summary.Uncertain > 0 {
		t.Errorf("got the summary %s", s.summary)
	}
}

func TestLinesWaitWhileTheServerIsDown(t *testing.T) {
	s := newSite(t)
	s.follow()
	s.write(20)
	s.awaitCharges()
	s.node.stop()
	s.write(30)
	s.awaitLog("trying again. The lines wait in the file.")
	if err := s.leave(); err != nil { // nothing has arrived, so that nothing is in doubt
		t.Fatal(err)
	}
	s.follow()
	s.write(10)
	s.rename(s.path, s.path+".1")
	s.write(10)
	s.node.start()
	s.awaitCharges()
	s.leave()
	if s.summary.Uncertain > 0 || s.summary.Checked != 50 {
		t.Errorf("got the summary %s", s.summary)
	}
}

func TestBadLinesAreCountedAndLogged(t *testing.T) {
	s := newSite(t)
	s.addSecond()
	s.follow()
	s.append(s.path, "\n"+s.more(1)+"garbage\x1b[2J\n"+strings.Repeat("x", 5_000_000))
	s.append(s.path, strings.Repeat("y", 5_000_000)+"\n"+strings.Repeat("\x00", 600_000)+s.more(2)+"\x00a\x00b\n\xff\xfe\n")
	for range 20 {
		s.append(s.path, "other garbage\n")
	}
	text := s.more(1)
	s.append(s.path, text[:30])
	s.awaitRead() // half a line
	s.append(s.path, text[30:]+s.more(1))
	s.awaitCharges()
	s.leave()
	if s.summary.Bad != 24 || len(s.summary.FirstBad) != 10 || s.summary.Checked != 5+2 {
		t.Errorf("got the summary %+v", s.summary)
	}
	logged := s.logged.String()
	if strings.Contains(logged, "\x1b") || strings.Count(logged, "garbage") > 10 || !strings.Contains(logged, "longer than 8388608 bytes") {
		t.Errorf("the follower logged %q", logged)
	}
}

func TestOldLineIsNotChecked(t *testing.T) {
	s := newSite(t)
	s.options.MaxAge, s.options.FromStart = 10*time.Minute, true
	s.append(s.path, lineOf("198.51.100.1", time.Now().Add(-time.Hour), 1)+s.more(3))
	summary, err := s.once()
	if err != nil || summary.Late != 1 || summary.Checked != 3 {
		t.Fatalf("%v, %s", err, summary)
	}
	s.awaitLog("more than 10m0s ago")
	s.options.MaxAge = 0
	s.append(s.path, lineOf("198.51.100.1", time.Now().Add(-time.Hour), 1))
	if summary, err := s.once(); err != nil || summary.Checked != 1 || s.charged("198.51.100.1") != 1 {
		t.Errorf("%v, %s", err, summary)
	}
}

func TestLogWithProxyAddressesIsRefused(t *testing.T) {
	for _, test := range []struct {
		name, want string
		ip         func(i int) string
	}{
		{"one address", "come from ip:198.51.100.7", func(i int) string { return []string{"198.51.100.7", "198.51.100.7", "203.0.113.9"}[i%3] }},
		{"private networks", "come from private addresses", func(i int) string { return fmt.Sprintf("%s.%d.1", []string{"10.0", "100.64"}[i%2], i+1) }},
		{"this machine", "come from ip:::1", func(int) string { return "::1" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t)
			s.options.Read.Key = ""
			var lines string
			for i := range 120 {
				lines += lineOf(test.ip(i), time.Now(), i)
			}
			s.append(s.path, lines)
			var proxy *logfollow.ProxyError
			if _, err := s.once(); !errors.As(err, &proxy) || !strings.Contains(err.Error(), test.want) && !strings.Contains(err.Error(), "ip:::/64") {
				t.Fatalf("the error is %v", err)
			}
			if strings.Contains(s.logged.String(), "Following") {
				t.Errorf("a refused log is reported as followed:\n%s", s.logged.String())
			}
			s.options.Read.Key = "host" // the field host is the client
			if _, err := s.once(); err != nil {
				t.Fatal(err)
			}
			// It has a saved position now, so that its clients cannot stop it from being followed.
			s.options.Read.Key = ""
			s.append(s.path, lines)
			if summary, err := s.once(); err != nil || summary.Checked != 120 {
				t.Fatalf("Run with a saved position: got %v, %s", err, summary)
			}
			s.awaitLog("Warning: ")
			// A log that shows proxy addresses later is followed too.
			s.path, s.options.State = filepath.Join(s.TempDir(), "other.log"), filepath.Join(s.TempDir(), "other.json")
			s.append(s.path, "")
			s.follow()
			warnings := strings.Count(s.logged.String(), "Warning: ")
			s.append(s.path, lines)
			s.await("a warning is logged", func() bool { return strings.Count(s.logged.String(), "Warning: ") > warnings })
			s.append(s.path, lineOf("192.0.2.77", time.Now(), 1))
			s.await("the log is still followed", func() bool { return s.charged("192.0.2.77") == 1 })
			if err := s.leave(); err != nil {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestInvalidStateFileIsRefused(t *testing.T) {
	s := newSite(t)
	s.write(10)
	for text, want := range map[string]string{
		"":                                 "is damaged",
		"{":                                "is damaged",
		`{"version":2}`:                    "its version is 2",
		`{"version":1,"logs":{"/x":null}}`: "is null",
		strings.Repeat(" ", 17<<20):        "is larger than",
		`{"version":1,"logs":{"/x":{"files":[{"offset":-1}]}}}`:        "impossible",
		`{"version":1,"logs":{"/x":{"files":[{"head_length":2000}]}}}`: "impossible",
	} {
		if err := os.WriteFile(s.state, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.once(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: the error is %v, want %q", text, err, want)
		}
	}
	os.Remove(s.state)
	s.follow()
	s.await("the state is saved", func() bool { _, err := os.Stat(s.state); return err == nil })
	if info, err := os.Stat(s.state); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("Stat of the state file: got %v, %v, want mode 0600", info, err)
	}
	if _, err := s.once(); err == nil || !strings.Contains(err.Error(), "two processes need two state files") {
		t.Errorf("Run by a second process: got %v", err)
	}
	s.write(5)
	s.wrote = map[string]int{} // the lines before it was followed are not charged
	s.leave()
	// The known file is gone: what is at the path now was never read.
	os.Remove(s.path)
	s.write(7)
	if summary, err := s.once(); err != nil || summary.Checked != 7 {
		t.Errorf("%v, %s", err, summary)
	}
	s.awaitLog("are lost: no rotated file has the same beginning")
}

func TestUnsuitablePathIsRefused(t *testing.T) {
	s := newSite(t)
	s.write(3)
	dir := filepath.Dir(s.path)
	if err := os.Symlink(s.path, filepath.Join(dir, "link.log")); err != nil {
		t.Fatal(err)
	}
	s.append(s.path+".1", "x\n")
	s.copy(s.path, filepath.Join(dir, "packed.log"))
	s.gzip(filepath.Join(dir, "packed.log"))
	pipe := filepath.Join(dir, "pipe.log")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(dir, "garbage.log")
	s.append(garbage, strings.Repeat("no log line\n", 30))
	for want, paths := range map[string][]string{
		"are the same file":    {s.path, filepath.Join(dir, "link.log")},
		"is a rotated file of": {s.path, s.path + ".1"},
		"is compressed":        {filepath.Join(dir, "packed.log.gz")},
		"no such file":         {filepath.Join(dir, "nothing.log")},
		"not a regular file":   {dir},
		"pipe.log\" is not":    {pipe},
		"the first lines are":  {garbage},
	} {
		if _, err := logfollow.Run(context.Background(), paths, s.options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: the error is %v, want %q", paths, err, want)
		}
	}
}

// A log that cannot be opened is reported, and followed again as soon as it can be.
func TestLogReplacedByAFolderIsReported(t *testing.T) {
	s := newSite(t)
	s.follow()
	s.write(3)
	s.awaitCharges()
	s.rename(s.path, s.path+".1")
	if err := os.Mkdir(s.path, 0o755); err != nil {
		t.Fatal(err)
	}
	s.append(s.path+".1", s.more(2))
	s.awaitLog("is not a regular file; trying again")
	s.awaitCharges()
	os.Remove(s.path)
	s.write(4)
	s.awaitCharges()
	if got := strings.Count(s.logged.String(), "is not a regular file"); got != 1 {
		t.Errorf("the error was logged %d times, want 1", got)
	}
}

func TestRunFailsIfTheListenerTakesNoReports(t *testing.T) {
	s := newSite(t)
	c, err := client.New("http://"+s.admin, client.WithRetries(0), client.WithMemory(0))
	if err != nil {
		t.Fatal(err)
	}
	s.options.Server = c
	s.options.FromStart = true
	s.write(3)
	if _, err := s.once(); err == nil {
		t.Error("Run with the admin listener: got no error")
	}
}

func TestDryRunSendsAndSavesNothing(t *testing.T) {
	s := newSite(t)
	s.write(3)
	var shown []string
	s.options.FromStart = true
	s.options.DryRun = func(_ string, r *accesslog.Record, _ []string) error {
		shown = append(shown, fmt.Sprint(accesslog.FullKey(r.Key), r.Method, r.Path, r.Status))
		return nil
	}
	if _, err := s.once(); err != nil || len(shown) != 3 || !strings.HasPrefix(shown[0], "ip:203.0.113.2GET/page/1") {
		t.Errorf("Run: got %v, %q", err, shown)
	}
	if _, err := os.Stat(s.state); err == nil || s.charged("203.0.113.2") != 0 {
		t.Error("a dry run saved or sent something")
	}
}

// Reports are charged once, like checks, even if their answers are lost or the process is
// killed.
func TestOutcomeIsReportedOnce(t *testing.T) {
	s := newSite(t)
	s.do(http.MethodPut, "/v1/policies/missing", fmt.Sprintf(`{"match":["ip:198.51.100.0/24"],"outcome":"not_found","rules":["%d/1d"]}`, limit), http.StatusCreated)
	s.options.Outcomes = answers.DefaultOutcomes(nil)
	server := &unreachable{Server: s.options.Server, loses: true}
	s.options.Server = server
	s.follow()
	for i := range 20 {
		s.append(s.path, strings.Replace(lineOf("198.51.100.7", time.Now(), i), " 200 ", " 404 ", 1))
	}
	s.await("the server is probed", func() bool { _, probed := server.count(); return probed > 0 })
	server.set(false)
	s.append(s.path, lineOf("198.51.100.7", time.Now(), 99))
	d := func() *client.Decision {
		d, err := newClient(t, s.check).Check(context.Background(), client.Check{Key: "ip:198.51.100.7", Policy: "missing", Peek: true})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	s.await("every outcome is counted", func() bool { return s.charged("198.51.100.7") == 21 && limit-d().Rules[0].Remaining >= 20 })
	s.leave()
	if got := limit - d().Rules[0].Remaining; got != 20 || s.summary.Reported != 20 || s.summary.Checked != 21 {
		t.Errorf("%d outcomes are counted, want 20: %s", got, s.summary)
	}
}

// What the answers have shown of a site is known after a restart: a scanner that comes then is recognized.
func TestSiteIsKnownAfterARestart(t *testing.T) {
	s := newSite(t)
	s.do(http.MethodPut, "/v1/policies/probes", `{"match":["ip:*"],"outcome":"probe","rules":["100/1d"]}`, http.StatusCreated)
	ask := func(client int, paths ...string) {
		for _, path := range paths {
			s.append(s.path, fmt.Sprintf("203.0.113.%d - - [%s] \"GET %s HTTP/1.1\" 200 512 \"-\" \"agent/1\"\n", client, time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700"), path))
		}
	}
	follow := func() *logfollow.Summary {
		site, err := answers.NewSite(nil)
		if err != nil {
			t.Fatal(err)
		}
		s.options.Outcomes, s.options.FromStart = answers.DefaultOutcomes(site), true
		summary, err := s.once()
		if err != nil {
			t.Fatal(err)
		}
		return summary
	}
	ask(1, "/.env", "/.git/config", "/.aws/credentials")
	ask(2, "/.env", "/.ssh/id_rsa", "/.git/HEAD")
	if summary := follow(); summary.Reported != 0 {
		t.Errorf("before anything is known: %s", summary)
	}
	ask(3, "/manager/html")
	if summary := follow(); summary.Reported != 1 {
		t.Errorf("after a restart: %s", summary)
	}
	s.awaitLog("The site answers 200 to paths that no site has")
	text, err := os.ReadFile(s.state)
	if err != nil {
		t.Fatal(err)
	}
	damaged := strings.Replace(string(text), `"status":200`, `"status":2`, 1)
	if err := os.WriteFile(s.state, []byte(damaged), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.once(); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("of a damaged state: got %v", err)
	}
}
