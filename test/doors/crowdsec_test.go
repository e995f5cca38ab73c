package doors

import (
	"bufio"
	"context"
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
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/testnode"
)

// crowdsecProgram returns a program of the packages that scripts/setup-tests.sh
// unpacks.
func crowdsecProgram(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("STINT_CROWDSEC")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(cache, "stint-crowdsec")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: scripts/setup-tests.sh unpacks it", err)
	}
	return path
}

// process is a program that runs until the test ends or stops it.
type process struct {
	cmd  *exec.Cmd
	once sync.Once
}

func startProcess(t *testing.T, name string, args ...string) *process {
	t.Helper()
	var out strings.Builder
	p := &process{cmd: exec.CommandContext(context.Background(), name, args...)}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = t.TempDir(), &out, &out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // CrowdSec leaves its plugins running
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(name), out.String())
		}
	})
	return p
}

func (p *process) stop() {
	p.once.Do(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = p.cmd.Wait()
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // what it started
	})
}

// banned is a node whose blocks bouncers fetch.
type banned struct {
	*testing.T
	node  *testnode.Node
	token string
}

func startBanned(t *testing.T, flags ...string) *banned {
	t.Helper()
	b := &banned{T: t, node: testnode.Start(t, flags...)}
	b.token = b.newToken("bouncer")
	return b
}

func (b *banned) newToken(scope string) string {
	b.Helper()
	var token struct{ Secret string }
	made := b.node.Do(b.T, http.MethodPost, "/v1/tokens", fmt.Sprintf(`{"name":"%s of %s","scopes":["%[1]s"]}`, scope, b.Name()), http.StatusCreated)
	if err := json.Unmarshal(made, &token); err != nil {
		b.Fatal(err)
	}
	return token.Secret
}

// add adds an entry for a duration, "" for a permanent one, and returns its id.
func (b *banned) add(kind, pattern, duration string) string {
	b.Helper()
	body := fmt.Sprintf(`{"literal":true,"pattern":%q,"reason":"by hand"}`, pattern)
	if duration != "" {
		body = fmt.Sprintf(`{"literal":true,"pattern":%q,"reason":"by hand","expires_in":%q}`, pattern, duration)
	}
	return b.node.AddEntry(b.T, kind, body)
}

func (b *banned) end(kind, id string) {
	b.Helper()
	b.node.EndEntry(b.T, kind, id)
}

func (b *banned) last(id, duration string) {
	b.Helper()
	b.node.Do(b.T, http.MethodPatch, "/v1/blocks/"+id, fmt.Sprintf(`{"expires_in":%q}`, duration), http.StatusOK)
}

// ask sends what a bouncer sends. agent is its User-Agent and from its address, where the
// node trusts the test.
func (b *banned) ask(base, method, target, agent, from string) reply {
	b.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, base+target, http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("X-Api-Key", b.token)
	request.Header.Set("User-Agent", agent)
	request.Header.Set("X-Forwarded-For", from)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		b.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, string(text)}
}

// changes returns the answer to a pull as "+value" and "-value".
func (b *banned) changes(base, agent, from string, startup bool) string {
	b.Helper()
	r := b.ask(base, http.MethodGet, fmt.Sprintf("/v1/decisions/stream?startup=%v", startup), agent, from)
	var list struct {
		New, Deleted []struct{ Value, Duration string }
	}
	if err := json.Unmarshal([]byte(r.body), &list); err != nil || r.status != http.StatusOK {
		b.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	var all []string
	for _, d := range list.New {
		if !regexp.MustCompile(`^(\d+h)?(\d+m)?\d+s$`).MatchString(d.Duration) {
			b.Errorf("the duration of %s is %q", d.Value, d.Duration)
		}
		all = append(all, "+"+d.Value)
	}
	for _, d := range list.Deleted {
		all = append(all, "-"+d.Value)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// probe is a custom bouncer, whose program writes its arguments to a file.
type probe struct {
	*banned
	dir  string
	read int // lines that expect has seen
	*process
}

func (b *banned) startProbe() *probe {
	b.Helper()
	p := &probe{banned: b, dir: b.TempDir()}
	script := write(b.T, "on-block", fmt.Sprintf("#!/bin/sh\necho \"$1 $2 $4\" >>%s/calls\n", p.dir))
	if err := os.Chmod(script, 0o700); err != nil {
		b.Fatal(err)
	}
	page := gateway{page: "crowdsec.md", language: "yaml"}
	config := strings.NewReplacer(
		"/usr/local/bin/on-block", script, "http://127.0.0.1:8080/", b.node.Check+"/", "SECRET", b.token,
		"update_frequency: 10s", "update_frequency: 1s\ncache_retention_duration: 1s\nprometheus: {enabled: false}",
	).Replace(configuration(b.T, page, 3))
	if err := os.WriteFile(filepath.Join(p.dir, "config.yaml"), []byte(config), 0o600); err != nil {
		b.Fatal(err)
	}
	p.run()
	return p
}

func (p *probe) run() {
	p.Helper()
	p.process = startProcess(p.T, crowdsecProgram(p.T, "usr/bin/crowdsec-custom-bouncer"), "-c", filepath.Join(p.dir, "config.yaml"))
}

// expect waits until the program was called as wanted, in any order, and not otherwise.
func (p *probe) expect(what string, wanted ...string) {
	p.Helper()
	slices.Sort(wanted)
	var calls []string
	for deadline := time.Now().Add(maxWait); ; time.Sleep(50 * time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(p.dir, "calls")) // missing before the first call
		all := strings.Split(string(text), "\n")
		calls = all[p.read : len(all)-1]
		if len(calls) >= len(wanted) {
			break
		}
		if time.Now().After(deadline) {
			p.Fatalf("%s: called with %q, want %q", what, calls, wanted)
		}
	}
	p.read += len(calls)
	calls = slices.Sorted(slices.Values(calls))
	if !slices.Equal(calls, wanted) {
		p.Fatalf("%s: called with %q, want %q", what, calls, wanted)
	}
}

func TestCustomBouncerRunsItsProgramForEveryChange(t *testing.T) {
	b := startBanned(t)
	first := b.add("blocks", "ip:192.0.2.1", "1h")
	p := b.startProbe()
	p.expect("at the start", "add 192.0.2.1 by hand")
	b.add("blocks", "ip:198.51.100.0/24", "")
	b.add("blocks", "user:alice", "")
	p.expect("a permanent range", "add 198.51.100.0/24 by hand")
	six := b.add("blocks", "ip:2001:db8::1", "1h")
	p.expect("IPv6", "add 2001:db8::/64 by hand")
	b.end("blocks", six)
	p.expect("ended", "del 2001:db8::/64 by hand")
	b.last(first, "2h")
	p.expect("extended", "add 192.0.2.1 by hand")
	b.last(first, "30m")
	p.expect("shortened", "del 192.0.2.1 by hand", "add 192.0.2.1 by hand")
	exemption := b.add("exemptions", "ip:198.51.100.128/25", "")
	p.expect("exempt", "del 198.51.100.0/24 by hand", "add 198.51.100.0/25 by hand")
	b.end("exemptions", exemption)
	p.expect("no longer exempt", "add 198.51.100.0/24 by hand", "del 198.51.100.0/25 by hand")
	b.add("blocks", "ip:192.0.2.2", "3s")
	p.expect("for three seconds", "add 192.0.2.2 by hand")
	p.expect("expired", "del 192.0.2.2 by hand")

	p.stop()
	b.end("blocks", first)
	p.run()
	p.expect("restarted", "add 198.51.100.0/24 by hand", "del 192.0.2.1 by hand")

	var listed struct {
		Items []struct{ Type, Mode, Address, Version string }
	}
	if err := json.Unmarshal(b.node.Do(t, http.MethodGet, "/v1/bouncers", "", http.StatusOK), &listed); err != nil {
		t.Fatal(err)
	}
	if len(listed.Items) != 1 || listed.Items[0].Type != "crowdsec-custom-bouncer" || listed.Items[0].Mode != "stream" || listed.Items[0].Version == "" {
		t.Errorf("GET /v1/bouncers: got %+v", listed.Items)
	}
}

func TestBouncersWithOneTokenEachGetEveryChangeFromAnyNode(t *testing.T) {
	redis, postgres := servers.Redis(t).URL, servers.Postgres(t).URL
	flags := []string{"--redis-url", redis, "--database-url", postgres, "--trusted-proxies", "127.0.0.1"}
	b := startBanned(t, flags...)
	other := testnode.StartBeside(t, flags...)
	nodes := []string{b.node.Check, other.Check}
	for _, from := range []string{"192.0.2.10", "192.0.2.11"} {
		if got := b.changes(nodes[0], "a/v1", from, true); got != "" {
			t.Fatalf("the first pull: got %s, want no changes", got)
		}
	}
	for n := range 6 {
		value := fmt.Sprintf("198.51.100.%d", n)
		b.add("blocks", "ip:"+value, "1h")
		for i, from := range []string{"192.0.2.10", "192.0.2.11"} {
			b.ask(nodes[n%2], http.MethodHead, "/v1/decisions/stream", "a/v1", from)
			if got := b.changes(nodes[(n+i)%2], "a/v1", from, false); got != "+"+value {
				t.Fatalf("%s: got %q, want %s", from, got, value)
			}
			if got := b.changes(nodes[(n+i+1)%2], "a/v1", from, false); got != "" {
				t.Fatalf("%s: got %q again, want no changes", from, got)
			}
		}
	}
	if got := b.changes(nodes[1], "b/v1", "192.0.2.10", false); strings.Count(got, "+") != 6 {
		t.Fatalf("the first pull of another type of bouncer: got %q, want 6 blocks", got)
	}
	// The cursor of a bouncer is not lost with a node.
	b.add("blocks", "ip:198.51.100.9", "1h")
	b.node.Kill()
	if got := b.changes(nodes[1], "a/v1", "192.0.2.10", false); got != "+198.51.100.9" {
		t.Fatalf("a pull from the other node: got %q", got)
	}
}

// nodeBouncer is the Node.js program of test/doors/crowdsec.
type nodeBouncer struct {
	*testing.T
	in  io.WriteCloser
	out *bufio.Scanner
}

func (b *banned) startNode(mode string) *nodeBouncer {
	b.Helper()
	c := exec.CommandContext(b.Context(), "node", repository(b.T, "test/doors/crowdsec/bouncer.js"), b.node.Check, b.token, mode)
	in, err := c.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		_ = c.Wait() // it may have been ended
	})
	return &nodeBouncer{b.T, in, bufio.NewScanner(out)}
}

// expect fails unless the bouncer decides about the addresses as wanted. The bouncer logs to its
// standard output too, as JSON.
func (n *nodeBouncer) expect(addresses, wanted string) {
	n.Helper()
	if got := n.ask(addresses); got != wanted {
		n.Fatalf("got %q, want %q", got, wanted)
	}
}

// ask returns what the program says of addresses.
func (n *nodeBouncer) ask(addresses string) string {
	n.Helper()
	if _, err := io.WriteString(n.in, addresses+"\n"); err != nil {
		n.Fatal(err)
	}
	return n.line()
}

func (n *nodeBouncer) line() string {
	n.Helper()
	for n.out.Scan() {
		if text := n.out.Text(); !strings.HasPrefix(text, "{") {
			return text
		}
	}
	n.Fatalf("the program ended: %v", n.out.Err())
	return ""
}

func TestNodeJSBouncerAnswersLikeStint(t *testing.T) {
	for _, mode := range []string{"stream", "live"} {
		t.Run(mode, func(t *testing.T) {
			b := startBanned(t)
			one := b.add("blocks", "ip:192.0.2.1", "1h")
			b.add("blocks", "ip:198.51.100.0/24", "")
			if mode == "live" { // in stream mode it keeps one range of each /24
				b.add("exemptions", "ip:198.51.100.200", "")
			}
			n := b.startNode(mode)
			if mode == "live" {
				n.expect("198.51.100.7 198.51.100.200", "ban bypass")
			}
			n.expect("192.0.2.1 192.0.2.2 198.51.100.7", "ban bypass ban")
			b.end("blocks", one)
			if mode == "live" {
				servers.Await(t, "its cache has ended", func() bool { return n.ask("192.0.2.1") == "bypass" })
			}
			n.expect("192.0.2.1 198.51.100.7", "bypass ban")
			n.in.Close()
			if got := n.line(); got != "metrics" {
				t.Errorf("at the end got %q", got)
			}
		})
	}
}
