package compose

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
)

// TestImageIsThatOfTheChart compares the image with that of the chart, which a release names.
func TestImageIsThatOfTheChart(t *testing.T) {
	chart, err := os.ReadFile("../../deploy/helm/stint/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^appVersion: "(.+)"$`).FindSubmatch(chart)
	if version == nil {
		t.Fatal("the chart has no appVersion")
	}
	t.Setenv("STINT_IMAGE", "")
	want := "ghcr.io/stint-dev/stint:" + string(version[1])
	for _, name := range []string{"stint-1", "stint-2"} {
		if image := project(t).Services[name].Image; image != want {
			t.Errorf("%s has the image %s, want %s: no other is published", name, image, want)
		}
	}
}

// TestNodesHaveTimeToStop compares how long nodes have until they are killed with how long they
// may wait for open requests, after which they still write what is only in memory.
func TestNodesHaveTimeToStop(t *testing.T) {
	example, err := os.ReadFile("../../deploy/stint.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^#drain-timeout: (\S+)$`).FindSubmatch(example)
	if found == nil {
		t.Fatal("deploy/stint.example.yaml has no drain-timeout")
	}
	drain, err := time.ParseDuration(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	p := project(t)
	for _, name := range []string{"stint-1", "stint-2"} {
		if grace := p.Services[name].StopGracePeriod; grace == nil || time.Duration(*grace) < drain+10*time.Second {
			t.Errorf("%s is killed after %v, want 10 s more than %v; without a setting Docker kills after 10 s", name, grace, drain)
		}
	}
}

// fixedAddress returns the address of a service in the network that nginx is in, which no
// other container is given.
func fixedAddress(t *testing.T, p *types.Project, name string) string {
	t.Helper()
	n := p.Services[name].Networks["front"]
	if n == nil || n.Ipv4Address == "" {
		t.Fatalf("%s has no address of its own", name)
	}
	address := netip.MustParseAddr(n.Ipv4Address)
	config := p.Networks["front"].Ipam.Config[0]
	if !netip.MustParsePrefix(config.Subnet).Contains(address) || netip.MustParsePrefix(config.IPRange).Contains(address) {
		t.Errorf("%s is not in %s, or in %s, where other containers get theirs", address, config.Subnet, config.IPRange)
	}
	return n.Ipv4Address
}

// TestNodesTrustNginxOnly compares what the nodes trust with the address of nginx.
func TestNodesTrustNginxOnly(t *testing.T) {
	p := project(t)
	nginx := fixedAddress(t, p, "nginx")
	for _, name := range []string{"stint-1", "stint-2"} {
		if trusted := p.Services[name].Environment["STINT_TRUSTED_PROXIES"]; trusted == nil || *trusted != nginx {
			t.Errorf("%s trusts %v, want %s only", name, trusted, nginx)
		}
	}
}

// TestNodesKeepTheirAddresses looks at the servers of nginx.conf: nginx resolves their names once,
// when it starts, and a recreated container has another address unless it is fixed.
func TestNodesKeepTheirAddresses(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(folder, "nginx.conf"))
	if err != nil {
		t.Fatal(err)
	}
	p := project(t)
	owners := map[string]string{fixedAddress(t, p, "nginx"): "nginx"}
	servers := regexp.MustCompile(`(?m)^\s+server (\S+):\d+;$`).FindAllSubmatch(text, -1)
	if len(servers) != 2 {
		t.Fatalf("nginx.conf has %d servers, want 2", len(servers))
	}
	for _, found := range servers {
		name := string(found[1])
		address := fixedAddress(t, p, name)
		if owner, isTaken := owners[address]; isTaken {
			t.Errorf("%s has the address of %s", name, owner)
		}
		owners[address] = name
	}
}

// TestPostgresIsHealthyOnceItListens runs the health check while Postgres listens on a socket
// only, as the image starts it to make the database, and then while it listens on TCP.
func TestPostgresIsHealthyOnceItListens(t *testing.T) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(found) == 0 {
		t.Fatal("Postgres is not installed: run bash scripts/setup-tests.sh")
	}
	programs := found[len(found)-1]
	dir, err := os.MkdirTemp("", "stint-compose-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	// Postgres refuses to run as root.
	command := func(name string, args ...string) *exec.Cmd {
		c := exec.Command(filepath.Join(programs, name), args...)
		c.Dir, c.Env = dir, []string{"PATH=" + programs + ":/usr/bin:/bin", "PGHOST=" + dir, "PGPORT=" + port, "LC_ALL=C"}
		if os.Getuid() == 0 {
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		return c
	}
	if os.Getuid() == 0 {
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(dir, "data")
	if output, err := command("initdb", "--pgdata", data, "--username", "stint", "--auth", "trust", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, output)
	}
	check := project(t).Services["postgres"].HealthCheck.Test
	isHealthy := func() bool { return command(check[1], check[2:]...).Run() == nil }
	for addresses, want := range map[string]bool{"": false, "127.0.0.1": true} {
		server := command("postgres", "-D", data, "-c", "listen_addresses="+addresses, "-c", "unix_socket_directories="+dir)
		var log strings.Builder
		server.Stdout, server.Stderr = &log, &log
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		isReady := false
		for end := time.Now().Add(time.Minute); !isReady && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			isReady = command("pg_isready").Run() == nil // on the socket
		}
		if got := isHealthy(); got != want {
			t.Errorf("with listen_addresses=%q the health check %q succeeds: %v, want %v", addresses, check, got, want)
		}
		_ = server.Process.Signal(syscall.SIGINT)
		if err := server.Wait(); err != nil || !isReady {
			t.Errorf("Postgres was ready: %v, and ended with %v: %s", isReady, err, log.String())
		}
	}
}

// TestSetupWritesNoEmptySecret runs setup without the program that makes random texts, and then
// again with what that left.
func TestSetupWritesNoEmptySecret(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(folder, "setup"))
	if err != nil {
		t.Fatal(err)
	}
	setup := filepath.Join(dir, "setup")
	if err := os.WriteFile(setup, text, 0o700); err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	for _, name := range []string{"sh", "mkdir", "chmod", "tr", "cat", "dirname"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(programs, name)); err != nil {
			t.Fatal(err)
		}
	}
	lacking := exec.Command(setup)
	lacking.Env = []string{"PATH=" + programs}
	if output, err := lacking.CombinedOutput(); err == nil {
		t.Errorf("setup without od: got no error: %s", output)
	}
	// As a full disk leaves it.
	if err := os.WriteFile(filepath.Join(dir, "secrets", "grafana-password"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, setup)
	for _, name := range []string{"postgres-password", "database-url", "admin-token", "admin-password", "grafana-password", "prometheus-token"} {
		if info, err := os.Stat(filepath.Join(dir, "secrets", name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
