package eventlog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/test/servers"
)

// rsyslog is a real receiver, which writes the messages to a file.
type rsyslog struct {
	dir, address string
	cmd          *exec.Cmd
}

const rsyslogConfig = `
global(workDirectory=%[1]q defaultNetstreamDriverCAFile=%[3]q defaultNetstreamDriverCertFile=%[3]q defaultNetstreamDriverKeyFile=%[4]q)
module(load="imtcp" %[5]s)
input(type="imtcp" address="127.0.0.1" port=%[2]q)
template(name="whole" type="string" string="%%pri%%|%%protocol-version%%|%%hostname%%|%%app-name%%|%%msg%%\n")
*.* action(type="omfile" file="%[1]s/received" template="whole")
`

// newRsyslog prepares a receiver; see start.
func newRsyslog(t *testing.T, withTLS bool) *rsyslog {
	t.Helper()
	if _, err := os.Stat("/usr/sbin/rsyslogd"); err != nil {
		t.Fatal("rsyslogd is missing; scripts/setup-tests.sh installs it")
	}
	r := &rsyslog{dir: t.TempDir(), address: servers.FreeAddress(t)}
	cert, key := servers.Certificate(t, r.dir)
	driver := ""
	if withTLS {
		driver = `streamDriver.name="ossl" streamDriver.mode="1" streamDriver.authMode="anon"`
	}
	_, port, err := net.SplitHostPort(r.address)
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(rsyslogConfig, r.dir, port, cert, key, driver)
	if err := os.WriteFile(filepath.Join(r.dir, "rsyslog.conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rsyslog) start(t *testing.T) {
	t.Helper()
	out := &servers.Output{}
	r.cmd = exec.Command("/usr/sbin/rsyslogd", "-n", "-f", filepath.Join(r.dir, "rsyslog.conf"), "-i", filepath.Join(r.dir, "pid"))
	r.cmd.Stdout, r.cmd.Stderr = out, out
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	started := r.cmd
	t.Cleanup(func() { _ = started.Process.Kill(); _ = started.Wait() })
	servers.Await(t, "rsyslog listens", func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

func (r *rsyslog) kill() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

// ids returns how often the event of each caller was received.
func (r *rsyslog) ids(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "received"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	text = text[:bytes.LastIndexByte(text, '\n')+1] // the last line may be half written
	for line := range strings.Lines(string(text)) {
		head, message, is := strings.Cut(line, "|node-1|stint|")
		if !is {
			continue // of rsyslog itself
		}
		if head != "85|1" {
			t.Errorf("got the priority and version %s, want 85|1", head)
		}
		for _, l := range linesOf(t, []byte(message)) {
			found[l.Stint.Caller]++
		}
	}
	return found
}

// send records decisions by different callers, and returns these.
func send(t *testing.T, l *Log, first, last int) (ids []string) {
	t.Helper()
	for n := first; n < last; n++ {
		d := decided(t, "ip:192.0.2.7", gate.Blocked, "/", "")
		d.Check.Source = fmt.Sprint("caller ", n)
		ids = append(ids, d.Check.Source)
		l.Record(d)
	}
	return ids
}

func hasAll(got map[string]int, ids []string) bool {
	for _, id := range ids {
		if got[id] == 0 {
			return false
		}
	}
	return true
}

func TestSyslogReceivesEverythingThoughItIsKilledAndTheNodeStops(t *testing.T) {
	for _, withTLS := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%v", withTLS), func(t *testing.T) {
			t.Parallel()
			r := newRsyslog(t, withTLS)
			r.start(t)
			backlog := t.TempDir()
			start := func() (l *Log, stop func()) {
				o := Options{Settings: Settings{To: Target{Syslog: r.address, TLS: withTLS}, Size: 16 << 20}, Backlog: backlog}
				if withTLS {
					o.TLS.CA = filepath.Join(r.dir, "cert.pem")
				}
				l = newLog(t, o)
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { l.Run(ctx) })
				running.Go(func() { l.Send(ctx) })
				return l, func() {
					cancel()
					running.Wait()
					if err := l.Close(); err != nil {
						t.Error(err)
					}
				}
			}
			l, stop := start()
			all := send(t, l, 0, 500)
			servers.Await(t, "the first events", func() bool { return hasAll(r.ids(t), all) })
			all = append(all, send(t, l, 500, 1000)...)
			r.kill() // in the middle of these
			all = append(all, send(t, l, 1000, 1500)...)
			servers.Await(t, "the failure", func() bool { return l.State().Err != nil })
			r.start(t)
			servers.Await(t, "all events", func() bool { return hasAll(r.ids(t), all) })
			servers.Await(t, "the state", func() bool { return l.State().Err == nil && l.Waiting() == 0 })

			r.kill()
			all = append(all, send(t, l, 1500, 2000)...)
			stop()
			l, stop = start()
			defer stop()
			r.start(t)
			servers.Await(t, "what waited over the stop", func() bool { return hasAll(r.ids(t), all) })
			if l.Omitted() != 0 {
				t.Errorf("%d events were omitted", l.Omitted())
			}
		})
	}
}

// TestWhatAReceiverResetsStays has a receiver that ends without having read what its machine has taken.
func TestWhatAReceiverResetsStays(t *testing.T) {
	var conns atomic.Int64
	address := servers.Listen(t, func(conn net.Conn) {
		if conns.Add(1) == 1 { // it reads one byte of what has come, and ends with a reset
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
			return
		}
		_, _ = io.Copy(io.Discard, conn)
	})
	l := newLog(t, Options{Settings: Settings{To: Target{Syslog: address}, Size: 16 << 20}, Backlog: t.TempDir()})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { l.Run(ctx) })
	running.Go(func() { l.Send(ctx) })
	send(t, l, 0, 10)
	servers.Await(t, "the reset", func() bool { return l.State().Err != nil })
	if l.Waiting() == 0 {
		t.Error("what the receiver never read was taken as received")
	}
	servers.Await(t, "the second connection", func() bool { return l.State().Err == nil && l.Waiting() == 0 })
	cancel()
	running.Wait()
}

func TestSyslogWithAForeignCertificateGetsNothing(t *testing.T) {
	r := newRsyslog(t, true)
	r.start(t)
	other, _ := servers.Certificate(t, t.TempDir())
	o := Options{Settings: Settings{To: Target{Syslog: r.address, TLS: true}, Size: 16 << 20, TLS: TLSFiles{CA: other}}, Backlog: t.TempDir()}
	l := newLog(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { l.Run(ctx) })
	running.Go(func() { l.Send(ctx) })
	send(t, l, 0, 10)
	servers.Await(t, "the failure", func() bool { return l.State().Err != nil && strings.Contains(l.State().Err.Error(), "certificate") })
	cancel()
	running.Wait()
	if got := r.ids(t); len(got) != 0 {
		t.Errorf("got %v, want nothing", got)
	}
	for _, files := range []TLSFiles{{CA: filepath.Join(r.dir, "rsyslog.conf")}, {CA: "/missing.pem"}, {Cert: other, Key: "/missing.pem"}} {
		o.TLS, o.Backlog = files, t.TempDir()
		if _, err := New(o); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: got %v, want an error of one line", files, err)
		}
	}
}
