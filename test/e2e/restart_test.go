package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/servers"
)

// restarted starts another node on the data of one that has ended.
func restarted(n *node) *node {
	n.Helper()
	return startNode(n, "--data-dir", filepath.Join(n.dir, "data"))
}

func TestSIGTERMRestartKeepsEverything(t *testing.T) {
	n := startNode(t)
	n.put("default", `{"match":["*"],"rules":["5/h"]}`)
	n.must(http.StatusCreated, post, wire.PathBlocks, `{"pattern":"token:bad","reason":"leaked"}`)
	for range 5 {
		if !n.about("token:a").Allowed {
			t.Fatal("a check below the limit was refused")
		}
	}
	before := n.logged("token:a")
	if code := n.end(syscall.SIGTERM); code != 0 {
		t.Fatalf("after SIGTERM the node ended with exit code %d, want 0", code)
	}
	n = restarted(n)
	if d := n.about("token:a"); d.Decision != wire.Limited || d.Rule != "5/1h" {
		t.Errorf("a limited key after the restart: got %+v", d)
	}
	if after := n.logged("token:a"); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the log was %v before the restart and is %v", before, after)
	}
	if d := n.about("token:bad"); d.Decision != wire.Blocked {
		t.Errorf("a blocked key after the restart: got %+v", d)
	}
}

func TestSIGKILLRestartKeepsTheLastSnapshotAndAllChanges(t *testing.T) {
	t.Parallel() // it waits for a snapshot
	n := startNode(t)
	n.put("default", `{"match":["*"],"rules":["5/h"]}`)
	for range 5 {
		n.about("token:kept")
		n.about("token:reset")
	}
	saved := func() os.FileInfo {
		info, err := os.Stat(filepath.Join(n.dir, "data", "logs.snapshot"))
		if err != nil {
			return nil
		}
		return info
	}
	before := saved()
	servers.Await(t, "a snapshot is saved automatically", func() bool {
		now := saved()
		return now != nil && (before == nil || now.ModTime().After(before.ModTime()))
	})
	// Changes that were acknowledged must not be lost.
	n.must(http.StatusOK, del, wire.PathKeys+"?key=token:reset", "")
	n.must(http.StatusCreated, post, wire.PathBlocks, `{"pattern":"token:bad"}`)
	n.end(syscall.SIGKILL)
	n = restarted(n)
	if d := n.about("token:kept"); d.Decision != wire.Limited {
		t.Errorf("a limited key of the snapshot after the restart: got %+v", d)
	}
	if d := n.about("token:reset"); !d.Allowed {
		t.Errorf("a reset key after the restart: got %+v", d)
	}
	if d := n.about("token:bad"); d.Decision != wire.Blocked {
		t.Errorf("a blocked key after the restart: got %+v", d)
	}
}

func TestSIGTERMUnderLoadLosesNoAnswerOrCharge(t *testing.T) {
	n := startNode(t)
	n.put("default", `{"match":["*"],"rules":["100000/h"]}`)
	var allowed, sent atomic.Int64
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			for {
				sent.Add(1)
				a, err := try(post, n.check+wire.PathCheck, `{"key":"token:a","detail":"none"}`)
				switch {
				case err != nil && a.status != 0:
					t.Errorf("an answer was cut: %v", err)
				case err != nil:
					return // the node accepts no more
				case a.status != http.StatusOK:
					t.Errorf("got %d: %s", a.status, a.body)
				default:
					allowed.Add(1)
				}
			}
		})
	}
	servers.Await(t, "the load has begun", func() bool { return allowed.Load() > 500 })
	if code := n.end(syscall.SIGTERM); code != 0 {
		t.Errorf("after SIGTERM under load the node ended with exit code %d, want 0", code)
	}
	callers.Wait()
	n = restarted(n)
	used := int64(n.explain("token:a").Policy.Rules[0].Used)
	if used < allowed.Load() || used > sent.Load() {
		t.Errorf("%d requests were sent, %d of them allowed, and the log has %d", sent.Load(), allowed.Load(), used)
	}
}
