package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	server "github.com/stint-dev/stint/internal/app"
	"github.com/stint-dev/stint/internal/cli/console"
)

func repositoryFile(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var fences = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

// TestFollowPageWorksAsWritten runs the commands of docs/doors/follow.md on log files of
// this test, each until the end of the files.
func TestFollowPageWorksAsWritten(t *testing.T) {
	dir := t.TempDir()
	settings, err := server.Load([]string{"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "data")}, []string{"STINT_ADMIN_TOKEN=" + adminToken})
	if err != nil {
		t.Fatal(err)
	}
	node, err := server.New(context.Background(), settings, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })

	for _, name := range []string{"access.log", "shop.log"} {
		line := fmt.Sprintf("192.0.2.1 - - [%s] \"GET / HTTP/1.1\" 200 1 \"-\" \"x\" \"192.0.2.2\"\n", time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700"))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ran := 0
	for i, fence := range fences.FindAllStringSubmatch(repositoryFile(t, "docs", "doors", "follow.md"), -1) {
		text := strings.TrimSpace(fence[2])
		if strings.Contains(text, "fail2ban") { // internal/fail2ban and testdata/offline/import.txt try these
			continue
		}
		if fence[1] == "ini" { // as the service reads it
			_, options, _ := strings.Cut(text, "STINT_FOLLOW_OPTIONS=")
			text = "stint-admin follow " + strings.NewReplacer("\nSTINT_FOLLOW_LOGS=", " ", "--max-age 5m", "--max-age 0").Replace(options)
		}
		for _, line := range []struct{ format, log string }{
			{"'$host ", "shop.example 192.0.2.1 - - [%s] \"GET / HTTP/1.1\" 200 1 \"-\" \"x\"\n"},
			{"'%v:%p ", "shop.example:443 192.0.2.1 - - [%s] \"GET / HTTP/1.1\" 200 1 \"-\" \"x\"\n"},
		} {
			if strings.Contains(text, line.format) {
				name := filepath.Join(dir, fmt.Sprintf("described-%d.log", i))
				if err := os.WriteFile(name, fmt.Appendf(nil, line.log, time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700")), 0o600); err != nil {
					t.Fatal(err)
				}
				text = strings.Replace(text, "access.log", name, 1)
			}
		}
		flags, found := strings.CutPrefix(text, "stint-admin follow ")
		if !found {
			t.Errorf("docs/doors/follow.md has %q, which this test does not know", text)
			continue
		}
		flags = strings.NewReplacer("/var/log/nginx", dir, "http://127.0.0.1:8080", "http://"+node.CheckAddr().String()).Replace(flags)
		out, err := os.Create(filepath.Join(dir, fmt.Sprint("out", i)))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		args := append([]string{"follow"}, fieldsOf(flags)...)
		if !strings.Contains(flags, "--once") {
			args = append(args, "--once", "--from-start")
		}
		code := Main(args, console.System{Name: "stint-admin", Stdin: os.Stdin, Stdout: out, Stderr: out, Now: time.Now, Getenv: func(name string) string {
			return map[string]string{"STATE_DIRECTORY": filepath.Join(dir, fmt.Sprint("state", i)), console.EnvCheckURL: "http://" + node.CheckAddr().String()}[name]
		}})
		printed, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		want := "checked, "
		if strings.Contains(flags, "--outcomes-only") {
			want = ": 0 checked."
		}
		if code != console.OK || !strings.Contains(string(printed), want) && !strings.Contains(string(printed), "ip:192.0.2.1  1  GET /  200") {
			t.Errorf("%s: got exit code %d: %s", text, code, printed)
		}
		ran++
	}
	if ran != 7 {
		t.Errorf("docs/doors/follow.md: found %d commands, want 7", ran)
	}
}

// fieldsOf splits a command at its spaces outside single quotes.
func fieldsOf(command string) (fields []string) {
	for i, part := range strings.Split(command, "'") {
		if i%2 == 1 {
			fields = append(fields, part)
			continue
		}
		fields = append(fields, strings.Fields(part)...)
	}
	return fields
}

func TestFollowUnitIsValid(t *testing.T) {
	unit := repositoryFile(t, "deploy", "follow", "stint-follow.service")
	for _, line := range []string{"DynamicUser=yes", "StateDirectory=stint-follow", "CapabilityBoundingSet=", "NoNewPrivileges=yes", "SupplementaryGroups=adm"} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("the unit has no line %s", line)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not installed: the unit is not verified")
		return
	}
	path := filepath.Join(t.TempDir(), "stint-follow.service")
	if err := os.WriteFile(path, []byte(strings.Replace(unit, "/usr/local/bin/stint-admin", os.Args[0], 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command(analyze, "verify", path).CombinedOutput(); err != nil || len(text) > 0 {
		t.Errorf("systemd-analyze verify: %v: %s", err, text)
	}
	if text, err := exec.Command(analyze, "security", "--offline=true", "--threshold=20", "--no-pager", path).CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze security: the exposure is more than 2.0: %v: %s", err, text)
	}
}
