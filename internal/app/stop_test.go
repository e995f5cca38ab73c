package app

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-dev/stint/test/servers"
)

// systemctl stop left a unit failed, with the line "context canceled", while its node still waited
// for the database.
func TestSignalDuringTheStartEndsTheNodeWithoutAnError(t *testing.T) {
	asked := make(chan struct{}, 1)
	database := servers.Listen(t, func(c net.Conn) { // it answers nothing
		select {
		case asked <- struct{}{}:
		default:
		}
		_, _ = io.Copy(io.Discard, c)
		c.Close()
	})
	logs := &servers.Output{}
	ended := make(chan int, 1)
	go func() {
		ended <- Main(Process{Out: io.Discard, Logs: logs, Args: []string{
			"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir", filepath.Join(t.TempDir(), "data"),
			"--redis-url", servers.Redis(t).URL, "--database-url", "postgres://stint@" + database + "/stint?sslmode=disable",
		}})
	}()
	<-asked
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := <-ended; code != 0 || strings.Contains(logs.String(), "canceled") || !strings.Contains(logs.String(), "ended by a signal") {
		t.Errorf("the exit code is %d, want 0; the log is %s", code, logs)
	}
}
