package servers_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/test/servers"
)

// listenAlone listens on the port of an address as the system gives ports: only if no other socket
// is bound to it.
func listenAlone(t *testing.T, address string) error {
	t.Helper()
	exclusive := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		controlled := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 0) })
		if controlled != nil {
			return controlled
		}
		return err
	}}
	l, err := exclusive.Listen(t.Context(), "tcp", address)
	if err == nil {
		t.Cleanup(func() { l.Close() })
	}
	return err
}

// Beside other tests, the system gave the port of a killed server to another process, so that the
// server did not start again.
func TestPortOfAKilledServerIsGivenToNobody(t *testing.T) {
	redis := servers.DedicatedRedis(t)
	redis.Kill()
	if listenAlone(t, redis.Addr) == nil {
		t.Error("another process was given the port of the killed Redis")
	}
	redis.Restart(true)
	postgres := servers.DedicatedPostgres(t)
	postgres.Kill()
	if listenAlone(t, postgres.Addr) == nil {
		t.Error("another process was given the port of the killed Postgres")
	}
	postgres.Restart(false)
}

func TestFreeAddressIsGivenToNobodyAndCanBeListenedOn(t *testing.T) {
	address := servers.FreeAddress(t)
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("somebody listens there")
	}
	if listenAlone(t, address) == nil {
		t.Error("another process was given the port")
	}
	_, port, _ := strings.Cut(address, ":")
	// A server of all addresses failed, since a program had the port on another one.
	if listenAlone(t, "127.0.0.2:"+port) == nil {
		t.Error("another process was given the port on another address")
	}
	for _, at := range []string{address, "0.0.0.0:" + port} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
}

// A stopped Postgres has answered once more: SIGSTOP had not yet taken effect on the process that
// served the connection.
func TestStoppedPostgresRunsNoMore(t *testing.T) {
	server := servers.DedicatedPostgres(t)
	const connections = 8
	var pids []int
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range connections {
		connection, err := pgx.Connect(ctx, server.URL)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, int(connection.PgConn().PID()))
		go func() { // until the test ends
			_, _ = connection.Exec(ctx, "DO $$ BEGIN LOOP END LOOP; END $$")
		}()
	}
	for range 20 {
		server.Stop()
		for _, pid := range pids {
			if state := stateOf(t, pid); state != "T" {
				t.Fatalf("the process %d of the stopped Postgres is in the state %q", pid, state)
			}
		}
		server.Continue()
	}
}

// stateOf returns the letter of the state of a process.
func stateOf(t *testing.T, pid int) string {
	t.Helper()
	stat, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "stat"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[0]
}
