package e2e_test

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

var printedToken = regexp.MustCompile(`admin token +(\S+)`)

func TestFirstStartPrintsTheDataFolderAndTheTokenOnce(t *testing.T) {
	first := launch(t, nil, onFreePorts...)
	first.awaitRunning()
	printed := printedToken.FindStringSubmatch(first.out.String())
	if printed == nil || !strings.Contains(first.out.String(), filepath.Join(first.dir, "data")) {
		t.Fatalf("the first start does not print its token and its data folder: %s", first.out.String())
	}
	first.token = printed[1]
	p := read[wire.Policy](t, first.must(http.StatusOK, get, wire.PathPolicies+"/default", ""))
	if !slices.Equal(p.Match, []string{"*"}) || !slices.Equal(p.Rules, []string{"1/1s", "20/1m", "200/1h", "800/1d"}) || p.Mode != "enforce" {
		t.Errorf("the default policy of a new database is %+v", p)
	}
	if d := first.about("ip:203.0.113.7"); !d.Allowed || d.Policy != "default" {
		t.Errorf("the first check: got %+v", d)
	}
	if err := first.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	servers.Await(t, "SIGHUP reads the settings again", func() bool { return strings.Contains(first.log.String(), "the settings were read again") })
	if code := first.end(syscall.SIGTERM); code != 0 {
		t.Fatalf("after SIGTERM the node ended with exit code %d, want 0", code)
	}

	second := launch(t, nil, append(slices.Clone(onFreePorts), "--data-dir", filepath.Join(first.dir, "data"))...)
	second.awaitRunning()
	if out := second.out.String(); printedToken.MatchString(out) || strings.Contains(out, "password") {
		t.Errorf("the second start prints credentials: %s", out)
	}
	second.token = first.token
	second.must(http.StatusOK, get, wire.PathWhoami, "")
}

// refused starts a node with bad settings and returns the line that it prints.
func refused(t *testing.T, environ []string, args ...string) string {
	t.Helper()
	n := launch(t, environ, args...)
	if code := n.exitCode(); code == 0 {
		t.Error("a refused start: got exit code 0")
	}
	line := n.log.String()
	if strings.Count(line, "\n") != 1 || !strings.HasPrefix(line, "stint-server: ") {
		t.Errorf("got %q, want one line", line)
	}
	if out := n.out.String(); out != "" {
		t.Errorf("a refused start prints %q to standard output", out)
	}
	return line
}

func TestBadSettingIsRefusedInOneLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("lisetn: here\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args    []string
		environ []string
		want    string
	}{
		"Redis without a database":       {args: []string{"--redis-url", "redis://127.0.0.1:1"}, want: "without --database-url"},
		"a database without Redis":       {args: []string{"--database-url", "postgres://127.0.0.1:1/stint"}, want: "without --redis-url"},
		"a Redis of an unknown scheme":   {args: []string{"--redis-url", "http://h", "--database-url", "postgres://h/d"}, want: "--redis-url"},
		"an option Redis does not have":  {args: []string{"--redis-url", "redis://h?speed=9", "--database-url", "postgres://h/d"}, want: "--redis-url"},
		"an address without a port":      {args: []string{"--listen", "127.0.0.1"}, want: "--listen"},
		"a port that does not exist":     {args: []string{"--listen", "127.0.0.1:99999"}, want: "--listen"},
		"an address of another machine":  {args: []string{"--admin-listen", "192.0.2.1:1"}, want: "--admin-listen"},
		"listening to all without auth":  {args: []string{"--listen", "0.0.0.0:0"}, want: "--check-auth"},
		"a deadline that is no duration": {args: []string{"--check-deadline", "soon"}, want: "--check-deadline"},
		"a drain that is negative":       {args: []string{"--drain-timeout", "-1s"}, want: "--drain-timeout"},
		"a certificate without its key":  {args: []string{"--tls-cert", file}, want: "--tls-key"},
		"an invalid certificate":         {args: []string{"--admin-tls-cert", file, "--admin-tls-key", file}, want: "--admin-tls-cert"},
		"an unknown flag":                {args: []string{"--redis", "x"}, want: "--redis"},
		"an unexpected argument":         {args: []string{"start"}, want: "start"},
		"an unknown setting in the file": {args: []string{"--config", file}, want: "lisetn"},
		"a file that is not there":       {environ: []string{"STINT_CONFIG=/nonexistent.yaml"}, want: "/nonexistent.yaml"},
		"a token that is easily guessed": {environ: []string{"STINT_ADMIN_TOKEN=1234"}, want: "STINT_ADMIN_TOKEN"},
		"an invalid log level":           {environ: []string{"STINT_LOG_LEVEL=loud"}, want: "STINT_LOG_LEVEL"},
		"a data folder that is a file":   {args: []string{"--data-dir", file}, want: "--data-dir"},
	} {
		t.Run(name, func(t *testing.T) {
			// The tested flags come last, so that they override the ports.
			if line := refused(t, test.environ, slices.Concat(onFreePorts, test.args)...); !strings.Contains(line, test.want) {
				t.Errorf("got %q, want %s in it", line, test.want)
			}
		})
	}
}

func TestPortInUseIsRefusedBeforeDataIsCreated(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, name := range []string{"--listen", "--admin-listen"} {
		data := filepath.Join(t.TempDir(), "data")
		line := refused(t, nil, append(slices.Clone(onFreePorts), name, taken.Addr().String(), "--data-dir", data)...)
		if !strings.Contains(line, name) || !strings.Contains(line, "in use") {
			t.Errorf("got %q, want %s in it", line, name)
		}
		// The first start that succeeds must print the credentials.
		n := launch(t, nil, append(slices.Clone(onFreePorts), "--data-dir", data)...)
		n.awaitRunning()
		if !printedToken.MatchString(n.out.String()) {
			t.Errorf("the next start prints no token: %s", n.out.String())
		}
	}
}

func TestDataFolderInUseIsRefused(t *testing.T) {
	first := startNode(t)
	line := refused(t, nil, append(slices.Clone(onFreePorts), "--data-dir", filepath.Join(first.dir, "data"))...)
	if !strings.Contains(line, "in use by another Stint") {
		t.Errorf("a data folder in use: got %q", line)
	}
	if !first.about("ip:203.0.113.7").Allowed {
		t.Error("a check of the first node was refused")
	}
}
