package upgrade_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/servers"
)

// underSocket starts a node as systemd does with stint.socket: the socket stays open in this
// process.
func underSocket(t *testing.T, socket *os.File, data, address string) (*exec.Cmd, *servers.Output) {
	t.Helper()
	// The shell knows the id of the process that it will become.
	c := exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$@"`, "sh", newProgram(t), "--listen", address, "--admin-listen", "127.0.0.1:0", "--data-dir", data)
	out := new(servers.Output)
	c.Stdout, c.Stderr = out, out
	c.Env = append(os.Environ(), "LISTEN_FDS=1", "LISTEN_FDNAMES=listen", "STINT_ADMIN_TOKEN="+adminToken)
	c.ExtraFiles = []*os.File{socket} // descriptor 3
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, out
}

func TestSocketActivatedRestartRefusesNoConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	socket, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	address := listener.Addr().String()
	data := filepath.Join(t.TempDir(), "data")
	node, _ := underSocket(t, socket, data, address)
	defer func() { _ = node.Process.Kill() }()

	// Every check uses a new connection.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: waitTimeout}
	var answered atomic.Int64
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(2 * time.Millisecond): // the load is paced
				}
				response, err := client.Post("http://"+address+"/v1/check", "application/json", strings.NewReader(`{"key":"free:x","peek":true}`))
				if err != nil {
					t.Errorf("after %d checks: %v", answered.Load(), err)
					return
				}
				_, err = io.Copy(io.Discard, response.Body)
				response.Body.Close()
				if err != nil || response.StatusCode != http.StatusOK {
					t.Errorf("after %d checks: status %d, %v", answered.Load(), response.StatusCode, err)
					return
				}
				answered.Add(1)
			}
		})
	}
	for range 3 {
		seen := answered.Load()
		servers.Await(t, "checks are answered", func() bool { return t.Failed() || answered.Load() > seen+50 })
		if err := node.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := node.Wait(); err != nil {
			t.Fatal(err)
		}
		node, _ = underSocket(t, socket, data, address)
	}
	seen := answered.Load()
	servers.Await(t, "checks are answered after the last restart", func() bool { return t.Failed() || answered.Load() > seen+50 })
	close(stop)
	group.Wait()
}

func TestInheritedSocketMustMatchALoopbackSetting(t *testing.T) {
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	socket, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	node, out := underSocket(t, socket, filepath.Join(t.TempDir(), "data"), "127.0.0.1:0")
	if err := node.Wait(); err == nil || !strings.Contains(out.String(), "which other machines reach; set it to the same address") {
		t.Errorf("the node ended with %v and printed %s", err, out.String())
	}
}
