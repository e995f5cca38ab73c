package firewall

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/testnode"
)

// scanner is the script of an attacker: it tries a password twice, then requests page
// after page that does not exist. It prints the time and the status of each answer, and ends
// when it gets no more answers.
const scanner = `ask() {
	exec 3<>"/dev/tcp/$host/$port" && printf '%s HTTP/1.0\r\nHost: site\r\nContent-Length: 0\r\n\r\n' "$1" >&3 || exit
	read -r _ status _ <&3 || exit
	echo "$EPOCHREALTIME $status"
	exec 3>&-
}
host=$0 port=$1
ask 'POST /login'
ask 'POST /login'
for ((i = 0; i < 10000; i++)); do ask "GET /page-$i"; sleep 0.05; done`

// The whole chain: nginx calls Stint before each request and writes a log, 'admin follow'
// reports what the application answered, the preset counts it and its escalation blocks
// the scanner, and 'admin firewall nftables' drops its packets.
func TestScannerIsBlockedInTheFirewall(t *testing.T) {
	s, p := newSite(t, "--trusted-proxies", "127.0.0.1"), newPeer(t)
	s.token = testnode.AdminToken
	s.admin("apply", "--preset", "website", "--yes")
	s.start()
	log := filepath.Join(t.TempDir(), "access.log")
	port := s.nginx(log, s.application())
	s.follow(log)

	var out servers.Output
	script := exec.Command("nsenter", p.enter([]string{"bash", "-c", scanner, hereIPv4, port})...)
	script.Stdout, script.Stderr = &out, &out
	if err := script.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = script.Process.Kill() // it may have ended
		_ = script.Wait()
		if t.Failed() {
			t.Logf("the scanner:\n%s", out.String())
		}
	})
	s.await(peerIPv4 + "+")
	blocked := time.Now()

	count := map[string]int64{} // answers by status
	var offended time.Time
	lines := strings.Split(out.String(), "\n")
	for _, line := range lines[:len(lines)-1] {
		at, status, _ := strings.Cut(line, " ")
		count[status]++
		if status == "429" && offended.IsZero() {
			seconds, err := strconv.ParseFloat(at, 64)
			if err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			offended = time.UnixMicro(int64(seconds * 1e6))
		}
	}
	delete(count, "403") // answers between the block and its arrival in the set, on most machines none
	if count["401"] != 2 || count["404"] < 6 || count["429"] == 0 || len(count) != 3 {
		t.Errorf("the scanner got the answers %v; two wrong passwords and six missing pages reach its limit of points", count)
	}
	t.Logf("answers %v; in the set %s after the first refusal", count, blocked.Sub(offended).Round(time.Millisecond))

	// Each allowed request was charged once, and its outcome was reported.
	type policy struct {
		Name  string
		Rules []struct{ Used int64 }
	}
	var explained struct {
		Policy      policy
		Conditional []policy
	}
	if err := json.Unmarshal(s.node.Do(t, http.MethodGet, "/v1/keys?key=ip:"+peerIPv4, "", http.StatusOK), &explained); err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"website": count["401"] + count["404"], "suspicion": 20, "guessed-logins": 4, "failed-logins-of-a-network": 2}
	got := map[string]int64{}
	for _, p := range append(explained.Conditional, explained.Policy) {
		got[p.Name] = p.Rules[len(p.Rules)-1].Used
	}
	if !maps.Equal(got, want) {
		t.Errorf("the policies have counted %v, want %v", got, want)
	}
}

// admin runs the command-line program to its end.
func (s *site) admin(args ...string) {
	s.Helper()
	c := exec.Command(testnode.AdminProgram(s.T), args...)
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.TempDir(), "STINT_ADMIN_TOKEN=" + testnode.AdminToken, "STINT_ADMIN_URL=" + s.node.Admin}
	if text, err := c.CombinedOutput(); err != nil {
		s.Fatalf("%v: %v: %s", args, err, text)
	}
}

// application serves a site that has no page but /login, where no password is right, and
// returns its address.
func (s *site) application() string {
	s.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/login", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: maxWait}
	go func() { _ = server.Serve(l) }() // until it is closed
	s.Cleanup(func() { server.Close() })
	return l.Addr().String()
}

// nginx runs nginx with the configuration of docs/doors/nginx.md in front of an application
// and returns its port.
func (s *site) nginx(log, app string) (port string) {
	s.Helper()
	page, err := os.ReadFile("../../docs/doors/nginx.md")
	if err != nil {
		s.Fatal(err)
	}
	_, config, _ := strings.Cut(string(page), "```nginx\n")
	config, _, _ = strings.Cut(config, "```")
	free, err := net.Listen("tcp", net.JoinHostPort(hereIPv4, "0"))
	if err != nil {
		s.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	config = strings.NewReplacer("127.0.0.1:8080", strings.TrimPrefix(s.node.Check, "http://"), "listen 8000", "listen "+address, "127.0.0.1:3000", app).Replace(config)
	dir := filepath.Dir(log)
	text := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/nginx.pid; error_log stderr warn;
events {}
http {
	access_log %[2]s combined;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
%[3]s
}
`, dir, log, config)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	path := "/usr/sbin/nginx"
	if found, err := exec.LookPath("nginx"); err == nil {
		path = found
	}
	s.background(exec.Command(path, "-p", dir, "-c", file))
	s.until("nginx", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	_, port, _ = net.SplitHostPort(address)
	return port
}

// follow starts 'admin follow' and waits until it follows the log.
func (s *site) follow(log string) {
	s.Helper()
	c := exec.Command(testnode.AdminProgram(s.T), "follow", log, "--check-url", s.node.Check, "--state", log+".json", "--outcomes-only")
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.TempDir()}
	out := s.background(c)
	s.until("the log to be followed", func() bool { return strings.Contains(out.String(), "Following") })
}

// background runs a program until the test ends.
func (s *site) background(c *exec.Cmd) *servers.Output {
	s.Helper()
	out := &servers.Output{}
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		s.Fatalf("%v: scripts/setup-tests.sh installs it", err)
	}
	s.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = c.Wait()
		if s.Failed() {
			s.Logf("%s:\n%s", filepath.Base(c.Path), out.String())
		}
	})
	return out
}
