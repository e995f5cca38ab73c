package clients

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/servers"
	"github.com/stint-dev/stint/test/testnode"
)

// TestPHPReportsAfterTheResponse has a page under PHP-FPM behind nginx report its status, while the node
// does not answer the report: the browser must have the whole page before.
func TestPHPReportsAfterTheResponse(t *testing.T) {
	t.Parallel()
	programs, _ := filepath.Glob("/usr/sbin/php-fpm*")
	if len(programs) == 0 {
		t.Fatal("there is no php-fpm; scripts/setup-tests.sh installs it")
	}
	node := testnode.Start(t)
	node.Do(t, http.MethodPut, "/v1/policies/missing", `{"match":["page:*"],"outcome":"not_found","rules":["100/1h"]}`, http.StatusCreated)
	target, err := url.Parse(node.Check)
	if err != nil {
		t.Fatal(err)
	}
	begun, release, done := make(chan struct{}), make(chan struct{}), make(chan int, 1)
	proxy := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(begun) // one report
		<-release
		answer := httptest.NewRecorder()
		proxy.ServeHTTP(answer, r)
		done <- answer.Code
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	t.Cleanup(front.Close)

	site := serveFPM(t, programs[0], fmt.Sprintf(`<?php
require %q;
$stint = new Stint\Client(url: %q, onOutage: "raise", timeout: 600);
http_response_code(404);
echo 'no such page';
$stint->reportSoon(['key' => 'page:a', 'status' => 404, 'request' => ['path' => '/a', 'method' => 'GET']]);
`, absolute(t, "../../clients/php/src/Client.php"), front.URL))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a page that waits for the report never comes
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, site+"/a", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		close(release)
		t.Fatal(err)
	}
	page, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil || response.StatusCode != http.StatusNotFound || string(page) != "no such page" {
		t.Fatalf("the page is %d %q, %v", response.StatusCode, page, err)
	}
	<-begun // while its answer is missing
	close(release)
	if code := <-done; code != http.StatusOK {
		t.Errorf("the report got %d", code)
	}
	if text := string(node.Do(t, http.MethodGet, "/v1/keys?key=page:a", "", http.StatusOK)); !strings.Contains(text, `"used":1`) {
		t.Errorf("the report was not counted: %s", text)
	}
}

// serveFPM serves a program for every path, by PHP-FPM behind nginx, and returns the address.
func serveFPM(t *testing.T, fpm, program string) string {
	dir, err := os.MkdirTemp("", "stint-fpm-") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	for name, text := range map[string]string{
		"page.php": program,
		"fpm.conf": fmt.Sprintf("[global]\nerror_log = %[1]s/fpm.log\ndaemonize = no\n[www]\nlisten = %[1]s/fpm.sock\nlisten.mode = 0666\nuser = root\ngroup = root\npm = static\npm.max_children = 2\n", dir),
		"nginx.conf": fmt.Sprintf(`daemon off; pid nginx.pid; error_log stderr; user root;
events {}
http { access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
server { listen %s; location / { include /etc/nginx/fastcgi_params; fastcgi_param SCRIPT_FILENAME %s/page.php; fastcgi_pass unix:%[2]s/fpm.sock; } } }
`, address, dir),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	nginx := "/usr/sbin/nginx"
	if found, err := exec.LookPath("nginx"); err == nil {
		nginx = found
	}
	for _, command := range [][]string{{fpm, "-R", "-y", dir + "/fpm.conf"}, {nginx, "-p", dir, "-c", dir + "/nginx.conf"}} {
		server := exec.Command(command[0], command[1:]...)
		server.Stderr = t.Output()
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = server.Process.Signal(os.Interrupt)
			_ = server.Wait()
		})
	}
	servers.Await(t, "nginx and PHP-FPM", func() bool {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return false
		}
		c.Close()
		_, err = os.Stat(dir + "/fpm.sock")
		return err == nil
	})
	return "http://" + address
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
