package doors

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-dev/stint/test/testnode"
)

// runScript runs a program that imports the package stint, and returns what it prints.
func runScript(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "node_modules", "@stint-dev"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(repository(t, "clients/node"), filepath.Join(dir, "node_modules", "@stint-dev", "client")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "program.mjs")
	if err := os.WriteFile(path, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command("node", path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return string(text)
}

const asking = `
import { Stint } from '@stint-dev/client'

for (const url of ['%[1]s/stint', '%[1]s/stint/']) {
  const stint = new Stint(url, { timeout: 60_000 })
  const { decision } = await stint.check({ key: 'user:alice' })
  const { outcome } = await stint.report({ key: 'user:alice', outcome: 'login_failed' })
  console.log(decision, outcome)
  stint.close()
}
`

// A proxy in front of Stint may serve it below a path.
func TestNodePackageKeepsThePathOfItsURL(t *testing.T) {
	node := testnode.Start(t)
	to, err := url.Parse(node.Check)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(http.StripPrefix("/stint", httputil.NewSingleHostReverseProxy(to)))
	t.Cleanup(front.Close)
	if got, want := runScript(t, fmt.Sprintf(asking, front.URL)), strings.Repeat("allowed login_failed\n", 2); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

const trusting = `
import { addressKey } from '@stint-dev/client'

for (const proxy of ['10.0.0.0/', '10.0.0.0/x', '10.0.0.0/33', '10.0.0.0/8/8', '10.0.0.0/8']) {
  try {
    const key = addressKey(proxy)
    console.log(key({ socket: { remoteAddress: '192.0.2.1' }, headers: { 'x-forwarded-for': '203.0.113.7' } }))
  } catch (error) {
    console.log(error.name)
  }
}
`

// The network "10.0.0.0/" had no bits: everybody was trusted.
func TestNodePackageRejectsNetworksOfNoSize(t *testing.T) {
	if got, want := runScript(t, trusting), "TypeError\nTypeError\nRangeError\nTypeError\nip:192.0.2.1\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
