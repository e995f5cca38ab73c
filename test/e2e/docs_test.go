package e2e_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/servers"
)

// fenced is one fenced block of a document.
type fenced struct {
	language string
	text     string
}

var fences = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

func blocksOf(t *testing.T, path string) []fenced {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []fenced
	for _, found := range fences.FindAllSubmatch(text, -1) {
		all = append(all, fenced{string(found[1]), string(found[2])})
	}
	return all
}

// documents returns the paths of the documents whose commands must work in the root of the checkout.
func documents(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{"../../README.md"}, found...)
}

// TestEveryDocumentedCommandWorksAsWritten runs the sh blocks in order, in the
// root of the checkout. Only addresses and the token are those of the test's
// own node and receiver.
func TestEveryDocumentedCommandWorksAsWritten(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	defer receiver.Close()
	n := launch(t, []string{
		"STINT_NOTIFY_WEBHOOK_URL=" + receiver.URL, "STINT_NOTIFY_ALLOW_PRIVATE=true",
	}, onFreePorts...)
	n.awaitRunning()
	n.token = regexp.MustCompile(`stint_admin_\w+`).FindString(n.out.String())
	own := strings.NewReplacer(
		"http://127.0.0.1:8080", n.check, "http://127.0.0.1:8081", n.admin, "stint_admin_...", n.token,
		"@ntfy.example.com/stint", "@"+receiver.Listener.Addr().String()+"/stint?scheme=http",
	)
	for _, path := range documents(t) {
		all := blocksOf(t, path)
		for i, block := range all {
			if block.language != "sh" {
				continue
			}
			t.Run(filepath.Base(path)+" "+firstLine(block.text), func(t *testing.T) {
				switch {
				case strings.HasPrefix(block.text, "go run ./cmd/server"), strings.HasPrefix(block.text, "go run -v ./cmd/server"):
					startAsWritten(t, block.text)
				case strings.HasPrefix(block.text, "make "):
					checkTargets(t, block.text)
				default:
					printed := n.shell(t, own.Replace(block.text))
					if i+1 < len(all) && all[i+1].language == "" && printed != all[i+1].text {
						t.Errorf("the command printed\n%s\nwant, as in the document,\n%s", printed, all[i+1].text)
					}
				}
			})
		}
	}
}

// TestFirstCommandsOfTheReadmeEndInARefusal: a newcomer sees who is refused, why, and when to
// ask again.
func TestFirstCommandsOfTheReadmeEndInARefusal(t *testing.T) {
	n := launch(t, nil, onFreePorts...)
	n.awaitRunning()
	n.token = regexp.MustCompile(`stint_admin_\w+`).FindString(n.out.String())
	all := blocksOf(t, "../../README.md")
	first := slices.IndexFunc(all, func(b fenced) bool { return b.language == "sh" && strings.Contains(b.text, "/v1/check") })
	command := strings.ReplaceAll(all[first].text, "http://127.0.0.1:8080", n.check)
	printed := n.shell(t, command)
	if !strings.Contains(firstLine(strings.TrimSpace(printed)), `"decision":"allowed"`) {
		t.Errorf("the first check is answered %s", firstLine(printed))
	}
	refusal := regexp.MustCompile(`"decision":"limited".*"key":"ip:203\.0\.113\.7".*"retry_after_ms":[1-9].*"rule":"1/1s".*\s*$`)
	if !refusal.MatchString(printed) { // on a busy machine a second may pass between two checks
		n.awaitOutput(t, command, refusal)
	}
	offender := regexp.MustCompile(`(?m)^ip:203\.0\.113\.7 .* 1/1s `)
	n.awaitOutput(t, "go run ./cmd/admin offenders", offender)
	next := slices.IndexFunc(all, func(b fenced) bool { return strings.Contains(b.text, "cmd/admin offenders") })
	if printed := n.shell(t, all[next].text); !strings.Contains(printed, "Blocked until") || !strings.Contains(printed, ": scraping (ip:192.0.2.0/24, block ") {
		t.Errorf("the next commands print %s", printed)
	}
}

// awaitOutput repeats a command until its output matches.
func (n *node) awaitOutput(t *testing.T, command string, want *regexp.Regexp) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		printed := n.shell(t, command)
		if want.MatchString(printed) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s prints %s", command, printed)
		}
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// goCommand comes before the real go in the PATH of the documents' commands: it
// runs what "go run ./cmd/admin" would build and run, as built for these tests,
// and runs the real go for everything else.
const goCommand = `#!/bin/sh
if [ "$1 $2" = "run ./cmd/admin" ]; then
	shift 2
	"$BUILT_ADMIN" "$@"
	code=$?
	[ $code -eq 0 ] || { echo "exit status $code" >&2; exit 1; }
else
	exec "$REAL_GO" "$@"
fi
`

// shell runs commands and returns their output. The commands of a document must
// succeed, except a refused check, which exits with 3.
func (n *node) shell(t *testing.T, commands string) string {
	t.Helper()
	real, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	if err := os.WriteFile(filepath.Join(programs, "go"), []byte(goCommand), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"stint-server": server.built(t), "stint-admin": admin.built(t)} {
		if err := os.Symlink(path, filepath.Join(programs, name)); err != nil {
			t.Fatal(err)
		}
	}
	var printed strings.Builder
	for _, line := range strings.Split(strings.TrimSpace(commands), "\n") {
		if strings.HasPrefix(line, "export ") || line == "" || strings.HasPrefix(line, "#") {
			continue // the environment below holds it
		}
		c := exec.Command("bash", "-c", line)
		c.Dir = "../.."
		c.Env = append(os.Environ(), "PATH="+programs+string(filepath.ListSeparator)+os.Getenv("PATH"), "REAL_GO="+real, "BUILT_ADMIN="+admin.built(t),
			endQuickly, "STINT_ADMIN_URL="+n.admin, "STINT_CHECK_URL="+n.check, "STINT_ADMIN_TOKEN="+n.token)
		out, err := c.CombinedOutput()
		if err != nil && !(strings.Contains(line, "cmd/admin check ") && strings.Contains(string(out), "exit status 3")) {
			t.Errorf("%s\n%v\n%s", line, err, out)
		}
		printed.Write(out)
	}
	return printed.String()
}

// startAsWritten starts the server by a document's command, on free ports and
// the test's own servers.
func startAsWritten(t *testing.T, command string) {
	t.Helper()
	_, settings, _ := strings.Cut(command, "./cmd/server")
	args := strings.Fields(settings)
	environ := []string{"STINT_LISTEN=127.0.0.1:0", "STINT_ADMIN_LISTEN=127.0.0.1:0", "STINT_ADMIN_TOKEN=" + adminToken, "TMPDIR=" + t.TempDir()}
	for i, arg := range args {
		switch {
		case strings.HasPrefix(arg, "redis://"):
			args[i] = servers.Redis(t).URL
		case strings.HasPrefix(arg, "postgres://"):
			args[i] = servers.Postgres(t).URL
		}
	}
	if len(args) > 0 && args[0] == "demo" { // which reads no environment
		args = append(args, append([]string{"--history", "10m"}, onFreePorts...)...)
	}
	n := launch(t, environ, args...)
	n.awaitRunning()
	n.about("ip:203.0.113.7")
}

func checkTargets(t *testing.T, command string) {
	t.Helper()
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range strings.Fields(command)[1:] {
		if !strings.Contains(string(makefile), "\n"+target+":") {
			t.Errorf("the Makefile has no target %s", target)
		}
	}
}
