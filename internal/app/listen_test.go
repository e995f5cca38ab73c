package app

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestPassedSocketRejectsTwoOfOneName(t *testing.T) {
	for names, want := range map[string]int{
		"listen": 3, "admin-listen:listen": 4, "admin-listen": 0, "admin-listen:admin-listen:listen": 0, // the third is not passed
		"listen:listen": -1,
	} {
		env := map[string]string{"LISTEN_FDS": "2", "LISTEN_FDNAMES": names, "LISTEN_PID": strconv.Itoa(os.Getpid())}
		fd, err := passedSocket("listen", func(name string) string { return env[name] })
		switch {
		case want < 0 && (err == nil || !strings.HasPrefix(err.Error(), "--listen: ") || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: got %v, want an error of --listen in one line", names, err)
		case want >= 0 && (fd != want || err != nil):
			t.Errorf("%s: got %d, %v, want %d", names, fd, err, want)
		}
	}
}

func TestInheritRefusesAUnixSocketForALoopbackAddress(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	unix, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()
	file, err := unix.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(file.Fd())) // inherit closes it
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	_, err = inherit("listen", "127.0.0.1:8080", fd)
	if want := "--listen is 127.0.0.1:8080, but the socket that systemd passes is " + path + ", a file; set it to the same address"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestListenersShareFilesAndMemory(t *testing.T) {
	const gib = 1 << 30
	for name, test := range map[string]struct {
		files               int
		memory              int64
		checks, grpc, admin int
	}{
		"systemd's unit":      {65536, 24 * gib, 32768, 16384, 8192},
		"little memory":       {65536, gib / 2, 1024, 512, 256},
		"few files":           {256, 24 * gib, 128, 64, 32},
		"very little memory":  {65536, 1 << 20, 256, 128, 64},
		"unknown limits":      {0, 0, 524288, 262144, 131072},
		"a container's shell": {1 << 30, gib, 2048, 1024, 512},
	} {
		got := newConnSets(test.files, test.memory)
		if c, g, a := got.checks.Stats().Max, got.grpc.Stats().Max, got.admin.Stats().Max; c != test.checks || g != test.grpc || a != test.admin {
			t.Errorf("%s: got the limits %d for checks, %d for gRPC, %d for the admin listener; want %d, %d, %d", name, c, g, a, test.checks, test.grpc, test.admin)
		}
	}
}

func TestATakenAddressIsNamedAsSuch(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for address, want := range map[string]string{taken.Addr().String(): "is in use by another program", "192.0.2.1:0": "is not an address of this machine"} {
		if _, err := open("listen", address); err == nil || !strings.Contains(err.Error(), "--listen "+address+" "+want) {
			t.Errorf("%s: got %v, want that it %s", address, err, want)
		}
	}
}
