//go:build dex

// Package dex logs in to a whole node with a real dex, for make test-openid.
package dex

import (
	"flag"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/test/programs"
	"github.com/stint-dev/stint/test/servers"
)

var program = flag.String("dex", "", "the program of tools/dex; make test-openid builds it")

func TestMain(m *testing.M) { servers.Main(m) }

const adminToken = "9f5c1b7d2830694ef1a5c3d7e2b4a89f5c1b7d28"

// freeAddress returns a loopback address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// run starts a program that is ended with the test.
func run(t *testing.T, env []string, path string, args ...string) {
	t.Helper()
	out := &servers.Output{}
	c := exec.Command(path, args...)
	c.Dir, c.Env, c.Stdout, c.Stderr = t.TempDir(), env, out, out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Logf("%s wrote:\n%s", path, out.String())
		}
	})
}

// get returns the status, the body and the address that redirects led to.
func get(client *http.Client, url string) (status int, body, at string) {
	answer, err := client.Get(url)
	if err != nil {
		return 0, err.Error(), ""
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), answer.Request.URL.String()
}

// TestLoginWithDex starts the node while dex is down: it answers, and logs users in when dex
// is running, as an operator by the group of dex's mock connector.
func TestLoginWithDex(t *testing.T) {
	if *program == "" {
		t.Fatal("needs -dex; run make test-openid")
	}
	server := filepath.Join(t.TempDir(), "server")
	if text, err := programs.Build(server, "cmd/server"); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	admin, dex := freeAddress(t), freeAddress(t)
	redirect := "http://" + admin + "/login/oidc/callback"
	run(t, []string{
		"HOME=" + t.TempDir(), "STINT_ADMIN_TOKEN=" + adminToken, "STINT_OIDC_CLIENT_SECRET=secret", "STINT_OIDC_ROLES=authors=operator; editors=admin",
	}, server, "--listen", "127.0.0.1:0", "--admin-listen", admin, "--oidc-issuer", "http://"+dex+"/dex", "--oidc-client-id", "stint",
		"--oidc-redirect-url", redirect, "--oidc-scopes", "openid,profile,email,groups")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Timeout: time.Minute}
	await := func(what, path string, done func(status int, body, at string) bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
			status, body, at := get(browser, "http://"+admin+path)
			if done(status, body, at) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("waited too long for %s: got %d at %s: %s", what, status, at, body)
			}
		}
	}
	await("the login fails without dex", "/login/oidc", func(status int, _, _ string) bool { return status == http.StatusServiceUnavailable })
	await("the page says that dex is down", "/login", func(_ int, body, _ string) bool { return strings.Contains(body, "has not answered since") })
	run(t, os.Environ(), *program, dex, "stint", "secret", redirect)
	await("the login", "/login/oidc?next=%2Fblocks", func(status int, body, at string) bool {
		return status == http.StatusOK && strings.HasPrefix(at, redirect) && strings.Contains(body, `href="/blocks"`)
	})
	await("the page", "/blocks", func(status int, body, _ string) bool {
		return status == http.StatusOK && strings.Contains(body, "kilgore")
	})
	await("no page of admins", "/users", func(status int, _, _ string) bool { return status == http.StatusForbidden })
}
