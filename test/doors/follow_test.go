package doors

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/testnode"
)

// followed is an nginx whose log a process of 'stint-admin follow' reads.
type followed struct {
	*site
	dir, log string
	command  *exec.Cmd
	out      servers.Output
	sent     sync.Map // requests by address, *atomic.Int64
}

const followLimit = 100_000

func startFollowed(t *testing.T) *followed {
	t.Helper()
	f := &followed{site: &site{T: t, node: testnode.StartDistributed(t), app: new(application)}, dir: t.TempDir()}
	f.put("all", fmt.Sprintf(`{"match":["ip:*"],"rules":["%d/1d"]}`, followLimit))
	f.log = filepath.Join(f.dir, "access.log")
	f.program(f.runNginx, "")
	return f
}

// runNginx runs an nginx behind a proxy on this machine, whose log has the clients'
// addresses.
func (f *followed) runNginx(s *site, _ string) {
	text := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/nginx.pid; error_log stderr warn;
events {}
http {
	log_format combined_again '$remote_addr - - [$time_local] "$request" $status 0 "-" "$http_user_agent"';
	access_log %[2]s combined_again;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
	set_real_ip_from 127.0.0.1;
	real_ip_header X-Forwarded-For;
	server {
		listen %[3]s;
		location / { return 204; }
	}
}
`, f.dir, f.log, strings.TrimPrefix(s.url, "http://"))
	execute(s.T, "nginx", "-p", f.dir, "-c", write(s.T, "nginx.conf", text))
}

// visit sends n requests from an address.
func (f *followed) visit(address string, n int) {
	counter, _ := f.sent.LoadOrStore(address, new(atomic.Int64))
	for range n {
		request, err := http.NewRequest(http.MethodGet, f.url+"/", http.NoBody)
		if err != nil {
			f.Error(err)
			return
		}
		request.Header.Set("X-Forwarded-For", address)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			f.Error(err)
			return
		}
		response.Body.Close()
		counter.(*atomic.Int64).Add(1)
	}
}

// follow starts the command and waits until it follows.
func (f *followed) follow() {
	f.Helper()
	f.command = exec.CommandContext(f.Context(), testnode.AdminProgram(f.T), "follow", f.log, "--check-url", f.node.Check,
		"--state", filepath.Join(f.dir, "follow.json"), "--no-outcomes", "--metrics-listen", "127.0.0.1:0")
	f.command.Stdout, f.command.Stderr = &f.out, &f.out
	seen := len(f.out.String())
	if err := f.command.Start(); err != nil {
		f.Fatal(err)
	}
	f.until("the log is followed", func() bool { return strings.Contains(f.out.String()[seen:], "Following") })
}

// terminate ends the command as systemd does.
func (f *followed) terminate() {
	f.Helper()
	if err := f.command.Process.Signal(syscall.SIGTERM); err != nil {
		f.Fatal(err)
	}
	if err := f.command.Wait(); err != nil {
		f.Fatalf("after SIGTERM: %v\n%s", err, f.out.String())
	}
}

// rotate runs a real logrotate as Debian configures it for nginx.
func (f *followed) rotate(options string) {
	f.Helper()
	config := filepath.Join(f.dir, "logrotate.conf")
	text := fmt.Sprintf("%s {\n\trotate 9\n\tcreate 0600\n\t%s\n\tsharedscripts\n\tpostrotate\n\t\tkill -USR1 $(cat %s/nginx.pid)\n\tendscript\n}\n", f.log, options, f.dir)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
	path, err := exec.LookPath("logrotate")
	if err != nil {
		path = "/usr/sbin/logrotate"
	}
	if text, err := exec.Command(path, "--force", "--state", filepath.Join(f.dir, "logrotate.state"), config).CombinedOutput(); err != nil {
		f.Fatalf("logrotate: %v: %s", err, text)
	}
}

// charged returns how many requests an address was charged.
func (f *followed) charged(address string) int64 {
	f.Helper()
	response, err := http.Post(f.node.Check+"/v1/check", "application/json", strings.NewReader(`{"key":"ip:`+address+`","peek":true,"detail":"rules"}`))
	if err != nil {
		f.Fatal(err)
	}
	defer response.Body.Close()
	var decision struct {
		Rules []struct{ Remaining int64 }
	}
	text, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(text, &decision)
	}
	if err != nil || len(decision.Rules) != 1 {
		f.Fatalf("%v: %s", err, text)
	}
	return followLimit - decision.Rules[0].Remaining
}

// awaitAll waits until every request was charged, and fails if one was charged twice.
func (f *followed) awaitAll() {
	f.Helper()
	f.sent.Range(func(address, counter any) bool {
		want := counter.(*atomic.Int64).Load()
		f.until(fmt.Sprintf("%d requests of %s are charged", want, address), func() bool {
			got := f.charged(address.(string))
			if got > want {
				f.Fatalf("%s sent %d requests and was charged %d; the command printed\n%s", address, want, got, f.out.String())
			}
			return got == want
		})
		return true
	})
}

func TestFollowKeepsUpWithNginxAndLogrotate(t *testing.T) {
	f := startFollowed(t)
	f.visit("198.51.100.1", 1) // nginx has opened its log
	f.follow()
	f.awaitNothingOf("198.51.100.1")

	// Rotated by renaming while requests come, twice, the second time compressed.
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() { f.visit(fmt.Sprintf("198.51.100.%d", 10+i), 200) })
	}
	f.rotate("nocompress")
	clients.Wait()
	f.awaitAll()
	f.visit("198.51.100.20", 30)
	f.rotate("delaycompress\n\tcompress")
	f.visit("198.51.100.20", 30)
	f.awaitAll()

	// Lines that were written and rotated while no process followed are read afterwards, from a
	// file that was compressed too.
	f.terminate()
	f.visit("198.51.100.30", 40)
	f.rotate("compress")
	f.visit("198.51.100.30", 2)
	f.follow()
	f.awaitAll()

	f.awaitMetrics(`stint_follow_checks_total{decision="allowed"} 42`, "stint_follow_lines_total 42", "stint_follow_unread_bytes 0")
	f.terminate()
	if !strings.Contains(f.out.String(), "42 lines: 42 checked, 42 allowed") {
		t.Errorf("the summary is missing in the output:\n%s", f.out.String())
	}
}

// awaitNothingOf checks that nothing was charged before the log was followed, and forgets those requests.
func (f *followed) awaitNothingOf(address string) {
	f.Helper()
	if got := f.charged(address); got != 0 {
		f.Errorf("%s was charged %d before the log was followed", address, got)
	}
	f.sent.Delete(address)
}

var metricsAt = regexp.MustCompile(`Metrics: (http://\S+)`)

// awaitMetrics waits until the command's metrics have all of some lines. It counts a batch
// once that is answered, a moment after the server has charged it.
func (f *followed) awaitMetrics(want ...string) {
	f.Helper()
	found := metricsAt.FindAllStringSubmatch(f.out.String(), -1)
	if len(found) == 0 {
		f.Fatalf("the command does not print the address of its metrics:\n%s", f.out.String())
	}
	f.until(fmt.Sprintf("the metrics have %q", want), func() bool {
		response, err := http.Get(found[len(found)-1][1])
		if err != nil {
			f.Fatal(err)
		}
		defer response.Body.Close()
		all, err := io.ReadAll(response.Body)
		if err != nil {
			f.Fatal(err)
		}
		return !slices.ContainsFunc(want, func(line string) bool { return !strings.Contains(string(all), line+"\n") })
	})
}
