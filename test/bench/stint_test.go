package bench_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// programs are what is measured, built from this tree.
type programs struct{ server, empty string }

// How the server is released: its command, the profile that it is built by, and without C.
const (
	serverCommand = "../../cmd/stint-server"
	releasedBy    = serverCommand + "/release.pgo"
	withoutC      = "CGO_ENABLED=0"
)

// build builds the server as releases are, and the empty handler by the same flags but for
// the profile, which is of Stint.
func build(b *testing.B) programs {
	b.Helper()
	dir := b.TempDir()
	p := programs{filepath.Join(dir, "server"), filepath.Join(dir, "empty")}
	for to, from := range map[string][]string{p.server: {"-pgo", releasedBy, serverCommand}, p.empty: {"./empty"}} {
		cmd := exec.CommandContext(b.Context(), "go", append([]string{"build", "-trimpath", "-o", to}, from...)...)
		cmd.Env = append(os.Environ(), withoutC)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
	return p
}

// start runs a program until the benchmark ends and returns its process id.
func start(b *testing.B, program string, args ...string) (pid int) {
	b.Helper()
	cmd := exec.Command(program, args...) // it ends with the benchmark, below
	if cores := runtime.NumCPU(); cores >= minCores {
		cmd = exec.Command("taskset", append([]string{"-c", fmt.Sprintf("0-%d", cores-cores/4-1), program}, args...)...) // which becomes the program
	}
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.Env = append(os.Environ(), "STINT_ADMIN_TOKEN="+adminToken, "STINT_PRESET=api", "STINT_LOG_LEVEL=warn")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if b.Failed() {
			b.Logf("output of %s: %s", program, output.Bytes())
		}
	})
	return cmd.Process.Pid
}

// processorTime returns what a process has used so far.
func processorTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	ticks := number(fields[11], `(\d+)`) + number(fields[12], `(\d+)`)
	return time.Duration(ticks) * (time.Second / 100)
}

const adminToken = "bec40adca9f5c1b7d2830694ef1a5c3d"

// node is one Stint under load, or the empty handler, which has no admin.
type node struct {
	checks, admin string
	pid           int
}

func freeAddress(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startNode runs a Stint: embedded, or with the settings given.
func startNode(b *testing.B, p programs, settings ...string) node {
	b.Helper()
	n := node{checks: freeAddress(b), admin: freeAddress(b)}
	// Without a preset every check would be counted by a shadow policy too.
	args := []string{"--listen", n.checks, "--admin-listen", n.admin, "--data-dir", b.TempDir(), "--preset", "api"}
	n.pid = start(b, p.server, append(args, settings...)...)
	servers.Await(b, "the node is ready", func() bool {
		status, _ := call(b, http.MethodGet, "http://"+n.admin+"/readyz", "")
		return status == http.StatusOK
	})
	return n
}

// startEmpty runs the empty handler, or one that sends the answer in the file given.
func startEmpty(b *testing.B, p programs, answer ...string) node {
	b.Helper()
	address := freeAddress(b)
	n := node{checks: address, pid: start(b, p.empty, append([]string{address}, answer...)...)}
	servers.Await(b, "the empty handler answers", func() bool {
		status, _ := call(b, http.MethodPost, "http://"+address+"/v1/check", "{}")
		return status != 0
	})
	return n
}

// startSame runs a handler that sends what n answers to a check of a load.
func startSame(b *testing.B, p programs, n node, l load) node {
	b.Helper()
	body := fmt.Sprintf(`{"key":"%s1","detail":%q}`, l.prefix, l.detail)
	call(b, http.MethodPost, "http://"+n.checks+"/v1/check", body) // after which a key of "limited:" is
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://"+n.checks+"/v1/check", strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := httputil.DumpResponse(response, true)
	if err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(b.TempDir(), "answer")
	if err := os.WriteFile(file, answer, 0o600); err != nil {
		b.Fatal(err)
	}
	return startEmpty(b, p, file)
}

// call sends a request as the operator; status 0 says that nobody answered.
func call(b *testing.B, method, url, body string) (status int, answer []byte) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+adminToken)
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	if err != nil {
		return 0, nil
	}
	return response.StatusCode, answer
}

// furnish lays the policies and the block that the loads ask about: keys
// "allow:" are nearly always allowed, "limited:" once and then not for a day,
// "blocked:" never.
func (n node) furnish(b *testing.B) {
	b.Helper()
	n.policy(b, "allow", `"10/s","100/m","400/h","800/d"`)
	n.policy(b, "limited", `"1/s","1/m","1/h","1/d"`)
	n.policy(b, "exact", `"500/h","1000/d"`)
	n.admit(b, http.MethodPost, "/v1/blocks", `{"literal":true,"pattern":"blocked:*","confirm":"blocked:*","reason":"bench"}`)
}

func (n node) policy(b *testing.B, name, stack string) {
	b.Helper()
	n.admit(b, http.MethodPut, "/v1/policies/"+name, fmt.Sprintf(`{"name":%q,"match":["%s:*"],"rules":[%s],"mode":"enforce","on_failure":"local","algorithm":"timestamp_log","escalation":null}`, name, name, stack))
}

func (n node) admit(b *testing.B, method, path, body string) {
	b.Helper()
	if status, answer := call(b, method, "http://"+n.admin+path, body); status/100 != 2 {
		b.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
}
