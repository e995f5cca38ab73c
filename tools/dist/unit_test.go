package main

import (
	"crypto/rand"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// testUnitProc runs the program of the package with the /proc that its unit gives it. As many
// connections may wait to be accepted there as the machine allows: Go reads that in /proc/sys.
func testUnitProc(t *testing.T, root string) {
	unit, err := os.ReadFile(filepath.Join(root, "usr/lib/systemd/system/stint.service"))
	if err != nil {
		t.Fatal(err)
	}
	options := "hidepid=invisible"
	switch subset := regexp.MustCompile(`(?m)^ProcSubset=(\w+)$`).FindSubmatch(unit); {
	case subset == nil:
		t.Fatal("stint.service has no ProcSubset")
	case string(subset[1]) != "all":
		options += ",subset=" + string(subset[1])
	}
	most, err := os.ReadFile("/proc/sys/net/core/somaxconn")
	if err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	node := exec.Command("unshare", "--mount", "sh", "-c", `mount --make-rprivate / && mount -t proc -o "$0" proc /proc && exec "$@"`,
		options, filepath.Join(root, "usr/bin/stint-server"))
	node.Env = append(os.Environ(), "STINT_LISTEN="+address, "STINT_ADMIN_LISTEN="+freeAddress(t), "STINT_DATA_DIR="+t.TempDir(), "STINT_ADMIN_TOKEN="+rand.Text()+rand.Text())
	var log strings.Builder
	node.Stdout, node.Stderr = &log, &log
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = node.Process.Kill() }() // it has ended, unless the test gave up
	isUp := false
	for end := time.Now().Add(time.Minute); !isUp && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		answer, err := http.Get("http://" + address + "/livez")
		if isUp = err == nil; isUp {
			answer.Body.Close()
		}
	}
	// The columns of a listener: its state, the connections that wait, and how many may.
	backlog := strings.Fields(output(t, "ss", "--no-header", "--listening", "--tcp", "--numeric", "src", address))
	if err := node.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	err = node.Wait()
	if want := strings.TrimSpace(string(most)); len(backlog) < 3 || backlog[2] != want || err != nil {
		t.Errorf("the listener is %q, want that %s connections may wait; %v: %s", backlog, want, err, log.String())
	}
}

// freeAddress returns an address of this machine that nothing listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// testFirewallStarts enables the unit of the firewall: who stops and starts nftables.service,
// which flushes all tables, gets this unit back too.
func testFirewallStarts(t *testing.T, root string) {
	output(t, "systemctl", "--root="+root, "enable", "stint-firewall.service")
	for _, by := range []string{"multi-user.target", "nftables.service"} {
		if _, err := os.Lstat(filepath.Join(root, "etc/systemd/system", by+".wants/stint-firewall.service")); err != nil {
			t.Errorf("%s does not start it: %v", by, err)
		}
	}
}
