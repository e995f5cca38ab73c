package e2e_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stint-dev/stint/test/servers"
)

// TestEveryQuickstartWorksAsWritten runs the pages of docs/quickstarts: their nodes, their
// nginx and their commands. Only ports and addresses are the test's own.
func TestEveryQuickstartWorksAsWritten(t *testing.T) {
	pages, err := filepath.Glob("../../docs/quickstarts/*.md")
	if err != nil || len(pages) < 4 {
		t.Fatalf("docs/quickstarts has %d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		t.Run(filepath.Base(page), func(t *testing.T) { followQuickstart(t, blocksOf(t, page)) })
	}
}

// TestQuickstartsWorkOneAfterTheOther follows all pages on one node: no page breaks what another made.
func TestQuickstartsWorkOneAfterTheOther(t *testing.T) {
	pages, err := filepath.Glob("../../docs/quickstarts/*.md")
	if err != nil {
		t.Fatal(err)
	}
	backwards := slices.Clone(pages)
	slices.Reverse(backwards)
	for _, order := range [][]string{pages, backwards} {
		n := startQuickstart(t, "stint-server --trusted-proxies 127.0.0.1\n")
		for _, page := range order {
			t.Run(filepath.Base(page), func(t *testing.T) { followQuickstart(t, blocksOf(t, page), n[0]) })
		}
	}
}

// followQuickstart follows a page on its own nodes, or on one that runs and is all of them.
func followQuickstart(t *testing.T, all []fenced, running ...*node) {
	var first *node
	var own []string // texts of the page and their replacements in the test
	for i, block := range all {
		switch {
		case block.language == "sh" && strings.HasPrefix(block.text, "stint-server"):
			nodes := running
			if len(running) == 0 {
				nodes = startQuickstart(t, block.text)
			}
			first = nodes[0]
			if len(running) > 0 {
				nodes = slices.Repeat(running, strings.Count(block.text, "stint-server"))
			}
			for n, at := range nodes {
				for port, url := range map[string]string{"808" + string(rune('0'+2*n)): at.check, "808" + string(rune('1'+2*n)): at.admin} {
					_, free, _ := strings.Cut(strings.TrimPrefix(url, "http://"), ":")
					own = append(own, port, free)
				}
			}
		case block.language == "nginx":
			for _, port := range []string{"8000", "3000"} {
				_, free, _ := strings.Cut(servers.FreeAddress(t), ":")
				own = append(own, port, free)
			}
			startNginx(t, strings.NewReplacer(own...).Replace(block.text))
		case block.language == "sh":
			printed := first.shell(t, strings.NewReplacer(own...).Replace(block.text))
			if i+1 < len(all) && all[i+1].language == "" && printed != all[i+1].text {
				t.Errorf("%s\nprinted\n%s\nwant, as on the page,\n%s", block.text, printed, all[i+1].text)
			}
		}
	}
	if first == nil {
		t.Error("the page starts no node")
	}
}

// startQuickstart starts a node for each line of a block, on servers of the test.
func startQuickstart(t *testing.T, block string) (nodes []*node) {
	t.Helper()
	var cache, database string
	for line := range strings.Lines(block) {
		args := strings.Fields(line)[1:]
		for i := 0; i < len(args); i++ {
			switch args[i] {
			case "--redis-url":
				if cache == "" {
					cache = servers.Redis(t).URL
				}
				args[i+1] = cache
			case "--database-url":
				if database == "" {
					database = servers.Postgres(t).URL
				}
				args[i+1] = database
			case "--listen", "--admin-listen":
				args[i+1] = "127.0.0.1:0"
			}
		}
		environ := []string{"STINT_LISTEN=127.0.0.1:0", "STINT_ADMIN_LISTEN=127.0.0.1:0", "STINT_ADMIN_TOKEN=" + adminToken, "STINT_CHECK_DEADLINE=10s", "STINT_PRESET="}
		n := launch(t, environ, args...)
		n.awaitRunning()
		nodes = append(nodes, n)
	}
	return nodes
}

// startNginx runs nginx with the http block of a page.
func startNginx(t *testing.T, block string) {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx"
	}
	dir := t.TempDir()
	config := "daemon off; master_process off; pid nginx.pid; error_log stderr; events {}\nhttp { access_log off;\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		config += kind + "_temp_path " + dir + "/" + kind + ";\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(config+block+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, program, "-p", dir, "-c", filepath.Join(dir, "nginx.conf"))
	var errorOutput servers.Output
	c.Stderr = &errorOutput
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = c.Wait() // it was killed
		if t.Failed() {
			t.Log(errorOutput.String())
		}
	})
	port := strings.TrimRight(strings.Fields(block[strings.Index(block, "listen "):])[1], ";")
	servers.Await(t, "nginx listens", func() bool {
		connection, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			return false
		}
		connection.Close()
		return true
	})
}
