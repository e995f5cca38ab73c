// Package firewall tests 'admin firewall nftables' with the real nftables, in a network
// namespace of its own.
package firewall

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/testnode"
)

// inNamespace is set in the process that runs the tests.
const inNamespace = "STINT_TEST_NAMESPACE"

// refused says why the kernel makes no namespace for this user. It is empty if it does.
var refused string

// TestMain runs the tests in a new network namespace, which ends with them. A user who is not
// root has all capabilities in a user namespace around it, and stays the same user there,
// because Postgres refuses root. The tests are left out where the kernel refuses that, but
// never in CI.
func TestMain(m *testing.M) {
	// nft is in /usr/sbin, which is not in the PATH of most users.
	if err := os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin"); err != nil {
		fail(err)
	}
	if os.Getenv(inNamespace) != "" {
		testnode.Main(m)
		return
	}
	program, err := os.Executable()
	if err != nil {
		fail(err)
	}
	namespace := []string{"--net", "--kill-child", "--fork"}
	if os.Geteuid() != 0 {
		namespace = append(namespace, "--user", "--map-current-user", "--keep-caps")
	}
	if text, err := exec.Command("unshare", append(namespace, "ip", "link", "set", "lo", "up")...).CombinedOutput(); err != nil {
		refused = fmt.Sprintf("left out, because only root gets a network namespace here: unshare: %v: %s", err, bytes.TrimSpace(text))
		if os.Getenv("CI") != "" || os.Geteuid() == 0 {
			fail(refused)
		}
		os.Exit(m.Run())
	}
	c := exec.Command("unshare", append(append(namespace, "sh", "-c", `ip link set lo up && exec "$0" "$@"`, program), os.Args[1:]...)...)
	c.Stdout, c.Stderr, c.Env = os.Stdout, os.Stderr, append(os.Environ(), inNamespace+"=1")
	if err := c.Run(); err != nil {
		fail("unshare:", err)
	}
}

// manyBlocks returns as many blocks as one transaction of nft can add and remove: only root may
// make the buffer of its socket as large as it needs.
func manyBlocks() int {
	if os.Geteuid() != 0 {
		return 500
	}
	return 20_000
}

func fail(why ...any) {
	fmt.Fprintln(os.Stderr, why...)
	os.Exit(1)
}

// needNamespace skips a test where there is none.
func needNamespace(t *testing.T) {
	t.Helper()
	if refused != "" {
		t.Skip(refused)
	}
}

// maxWait bounds every wait for something that must happen.
const maxWait = time.Minute

// site is a node, and a firewall that follows it.
type site struct {
	*testing.T
	node    *testnode.Node
	token   string // of the firewall
	running *exec.Cmd
	out     *servers.Output
}

func newSite(t *testing.T, flags ...string) *site {
	t.Helper()
	needNamespace(t)
	s := &site{T: t, node: testnode.Start(t, flags...)}
	var token struct{ Secret string }
	if err := json.Unmarshal(s.node.Do(t, http.MethodPost, "/v1/tokens", `{"name":"firewall","scopes":["read"]}`, http.StatusCreated), &token); err != nil {
		t.Fatal(err)
	}
	s.token = token.Secret
	t.Cleanup(func() {
		s.stop()
		s.nft("flush ruleset")
	})
	return s
}

func (s *site) command(flags ...string) *exec.Cmd {
	s.Helper()
	c := exec.Command(testnode.AdminProgram(s.T), append([]string{"firewall", "nftables"}, flags...)...)
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "STINT_ADMIN_TOKEN=" + s.token, "STINT_ADMIN_URL=" + s.node.Admin}
	return c
}

// once runs the command to its end and returns what it printed to standard output.
func (s *site) once(flags ...string) string {
	s.Helper()
	c := s.command(flags...)
	var problem bytes.Buffer
	c.Stderr = &problem
	text, err := c.Output()
	if err != nil {
		s.Fatalf("%v: %v: %s", flags, err, problem.String())
	}
	return string(text)
}

// start starts the command and waits until it follows the node.
func (s *site) start(flags ...string) {
	s.Helper()
	s.running, s.out = s.command(flags...), &servers.Output{}
	s.running.Stderr, s.running.Stdout = s.out, s.out
	if err := s.running.Start(); err != nil {
		s.Fatal(err)
	}
	s.awaitLine("Following", 1)
}

// awaitLine waits until the command has printed a text n times.
func (s *site) awaitLine(text string, n int) {
	s.Helper()
	s.until("the line "+text, func() bool { return strings.Count(s.out.String(), text) >= n })
}

// stop interrupts the command, which must end without an error.
func (s *site) stop() {
	s.Helper()
	if s.running == nil {
		return
	}
	_ = s.running.Process.Signal(syscall.SIGTERM)
	if err := s.running.Wait(); err != nil {
		s.Errorf("the command ended with %v: %s", err, s.out.String())
	}
	s.running = nil
	if s.Failed() {
		s.Log(s.out.String())
	}
}

func (s *site) until(what string, reached func() bool) {
	s.Helper()
	for deadline := time.Now().Add(maxWait); !reached(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			printed := ""
			if s.out != nil {
				printed = s.out.String()
			}
			s.Fatalf("waited too long for %s; the sets have %s; the command printed\n%s", what, s.elements(), printed)
		}
	}
}

// nft executes commands and returns what they printed.
func (s *site) nft(script string) string {
	s.Helper()
	c := exec.Command("nft", "-f", "-")
	c.Stdin = strings.NewReader(script)
	text, err := c.CombinedOutput()
	if err != nil {
		s.Fatalf("nft: %v: %s", err, text)
	}
	return string(text)
}

var (
	listed  = regexp.MustCompile(`(?s)elements = \{(.*?)\}`)
	expires = regexp.MustCompile(` timeout \S+ expires \S+`)
)

// elements returns the elements of both sets, "+" after those that time out, with spaces
// between, "none" if the sets do not exist.
func (s *site) elements() string {
	text := ""
	for _, set := range []string{"stint_ipv4", "stint_ipv6"} {
		out, err := exec.Command("nft", "list", "set", "inet", "stint", set).CombinedOutput()
		if err != nil {
			return "none"
		}
		if found := listed.FindSubmatch(out); found != nil {
			text += "," + string(found[1])
		}
	}
	text = expires.ReplaceAllString(text, "+")
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' }), " ")
}

// await waits until the sets have these elements.
func (s *site) await(elements string) {
	s.Helper()
	s.until("the elements "+elements, func() bool { return s.elements() == elements })
}

// add adds a block or an exemption and returns its id.
func (s *site) add(kind, pattern, more string) (id string) {
	s.Helper()
	body := fmt.Sprintf(`{"literal":true,"pattern":%q,"reason":"test","confirm":%q%s}`, pattern, pattern, more)
	return s.node.AddEntry(s.T, kind, body)
}

func (s *site) end(kind, id string) {
	s.Helper()
	s.node.EndEntry(s.T, kind, id)
}

func (s *site) edit(kind, id, body string) {
	s.Helper()
	s.node.Do(s.T, http.MethodPatch, "/v1/"+kind+"/"+id, body, http.StatusOK)
}
