package app

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/algorithms"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/timestamplog"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
)

// restoring is an embedded node that backs up and restores.
type restoring struct {
	*backups
	t     *testing.T
	fails error // returned by the next refreshes
}

var tester = audit.SystemActor("test")

func newRestoring(t *testing.T) *restoring {
	t.Helper()
	folder := t.TempDir()
	n := &restoring{t: t, backups: &backups{folder: folder, memory: memlog.New(memlog.Options{})}}
	store, err := sqlstore.Open(t.Context(), filepath.Join(folder, "stint.db"), sqlstore.Options{AfterChange: func(ctx context.Context) error {
		if n.catalog == nil || n.fails != nil {
			return n.fails
		}
		return n.catalog.Refresh(ctx)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	n.store, n.catalog = store, catalog.New(store, time.Now)
	if err := n.catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *restoring) backup() *bytes.Buffer {
	n.t.Helper()
	var file bytes.Buffer
	if err := n.Backup(n.t.Context(), &file); err != nil {
		n.t.Fatal(err)
	}
	return &file
}

func (n *restoring) key(text string) keys.Key {
	n.t.Helper()
	k, err := keys.Parser{}.Key(text)
	if err != nil {
		n.t.Fatal(err)
	}
	return k
}

func (n *restoring) pattern(text string) keys.Pattern {
	n.t.Helper()
	p, err := keys.Parser{}.Pattern(text)
	if err != nil {
		n.t.Fatal(err)
	}
	return p
}

func (n *restoring) block(text string) *blocks.Entry {
	n.t.Helper()
	made, err := n.store.Entries.Add(n.t.Context(), tester, blocks.Keep, blocks.Entry{Kind: blocks.Block, Pattern: n.pattern(text)})
	if err != nil {
		n.t.Fatal(err)
	}
	return made[0].Entry
}

// policy stores the policy "p" for tokens, 5 an hour, and returns the node's copy of it.
func (n *restoring) policy(algorithm string) *rules.Policy {
	n.t.Helper()
	stack, err := rules.ParseStack([]string{"5/h"})
	if err != nil {
		n.t.Fatal(err)
	}
	put := &rules.Policy{Name: "p", Match: []keys.Pattern{n.pattern("token:*")}, Rules: stack, Mode: rules.Enforce, OnFailure: rules.FailLocal, Algorithm: algorithm}
	expect := etag.New
	if known := n.known(); known != nil {
		expect = rules.TagOf(known)
	}
	if _, err := n.store.Policies.PutPolicy(n.t.Context(), tester, put, expect); err != nil {
		n.t.Fatal(err)
	}
	return n.known()
}

func (n *restoring) known() *rules.Policy {
	for _, p := range n.catalog.Selector().Policies() {
		if p.Name == "p" {
			return p
		}
	}
	return nil
}

func (n *restoring) isAllowed(key string) bool {
	p := n.known()
	request := timestamplog.RequestOf(p, n.key(key).String(), 1)
	request.Algorithm = algorithms.ByName(p.Algorithm)
	results := make([]timestamplog.Result, 1)
	n.memory.Decide(n.t.Context(), []timestamplog.Request{request}, results)
	return results[0].Allowed
}

// TestRestoreDoesNotReadLogsOfOtherAlgorithms changes the algorithm after a backup and, after
// restoring that, changes it to another one with a similar log format: it must not read what the
// first one has counted.
func TestRestoreDoesNotReadLogsOfOtherAlgorithms(t *testing.T) {
	n := newRestoring(t)
	n.policy(algorithms.TimestampLog)
	file := n.backup()
	changed := n.policy(algorithms.FixedWindow)
	for range 5 {
		if !n.isAllowed("token:a") {
			t.Fatal("a request within the limit is refused")
		}
	}
	if _, err := n.Restore(t.Context(), tester, file); err != nil {
		t.Fatal(err)
	}
	if again := n.policy(algorithms.TokenBucket); again.Generation <= changed.Generation {
		t.Errorf("the generation %d is not above %d, which was used before the restore", again.Generation, changed.Generation)
	}
	for range 5 {
		if !n.isAllowed("token:a") {
			t.Error("the log of another algorithm was read")
		}
	}
	if n.isAllowed("token:a") {
		t.Error("a sixth request is allowed by a limit of five")
	}
}

// TestRestoreAppliesAfterFailedRefreshes restores while refreshes after changes fail.
func TestRestoreAppliesAfterFailedRefreshes(t *testing.T) {
	n := newRestoring(t)
	attacker := n.block("token:attacker")
	file := n.backup()
	if _, err := n.store.Entries.End(t.Context(), tester, blocks.Block, "", attacker.ID); err != nil {
		t.Fatal(err)
	}
	n.block("token:customer")
	n.fails = errors.New("the disk fails")
	if _, err := n.Restore(t.Context(), tester, file); err != nil {
		t.Fatal(err)
	}
	n.fails = nil
	if err := n.catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]bool{"token:attacker": true, "token:customer": false} {
		if got := n.catalog.Blocks().Match(n.key(key), time.Now()).Block != nil; got != want {
			t.Errorf("%s is blocked: %t, want %t", key, got, want)
		}
	}
}

// fullDisk is set when a test runs itself in a process whose files cannot grow.
const fullDisk = "STINT_TEST_FULL_DISK"

// TestRestoreOnFullDiskReturnsUnavailable restores a valid backup without disk space for it.
func TestRestoreOnFullDiskReturnsUnavailable(t *testing.T) {
	if os.Getenv(fullDisk) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		child.Env = append(os.Environ(), fullDisk+"=1")
		if out, err := child.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	n := newRestoring(t)
	file := n.backup().Bytes()
	signal.Ignore(syscall.SIGXFSZ)
	for _, room := range []int{0, 64 << 10, len(file) - 8<<10} {
		var before syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(room), Max: before.Max}); err != nil {
			t.Fatal(err)
		}
		_, verified := n.Verify(t.Context(), bytes.NewReader(file))
		_, restored := n.Restore(t.Context(), tester, bytes.NewReader(file))
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{verified, restored} {
			if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "disk") {
				t.Errorf("with disk space for %d of %d bytes: got %v, want Unavailable", room, len(file), err)
			}
		}
	}
	cut := bytes.NewReader(file[:len(file)/2])
	if _, err := n.Restore(t.Context(), tester, cut); !fault.Is(err, fault.Invalid) {
		t.Errorf("Restore of half a backup: got %v, want Invalid", err)
	}
	if _, err := n.Restore(t.Context(), tester, bytes.NewReader(file)); err != nil {
		t.Errorf("Restore with enough disk space: %v", err)
	}
}

// parts are the files of a backup, in their order.
type parts []part

type part struct {
	name string
	data []byte
}

func partsOf(t *testing.T, file []byte) (all parts) {
	t.Helper()
	for archive := tar.NewReader(bytes.NewReader(file)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, part{header.Name, data})
	}
}

func (all parts) archive(t *testing.T) *bytes.Buffer {
	t.Helper()
	var file bytes.Buffer
	archive := tar.NewWriter(&file)
	for _, p := range all {
		if err := addPart(archive, p.name, int64(len(p.data)), bytes.NewReader(p.data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return &file
}

// TestDamagedBackupIsNotRestored flips one bit in each part of a backup, also where SQLite
// does not detect it: in the pattern of a block.
func TestDamagedBackupIsNotRestored(t *testing.T) {
	n := newRestoring(t)
	n.policy(algorithms.TimestampLog)
	n.block("token:attacker")
	n.isAllowed("token:a")
	file := n.backup().Bytes()
	all := partsOf(t, file)
	places := map[string]int{
		backupDatabase: bytes.Index(all[0].data, []byte("token:attacker")) + len("token:"),
		backupLogs:     len(all[1].data) / 2,
		backupSums:     3,
	}
	for i, p := range all {
		all[i].data = bytes.Clone(p.data)
		all[i].data[places[p.name]] ^= 1
		_, verified := n.Verify(t.Context(), all.archive(t))
		_, restored := n.Restore(t.Context(), tester, all.archive(t))
		for _, err := range []error{verified, restored} {
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "damaged") {
				t.Errorf("a bit flipped in %s: got %v, want Invalid and \"damaged\"", p.name, err)
			}
		}
		all[i] = p
	}
	if _, err := n.Restore(t.Context(), tester, bytes.NewReader(file)); err != nil {
		t.Errorf("Restore of the intact backup: %v", err)
	}
}

// TestBackupWithoutChecksumsIsRestored restores a backup of a release without checksums.
func TestBackupWithoutChecksumsIsRestored(t *testing.T) {
	n := newRestoring(t)
	all := partsOf(t, n.backup().Bytes())
	if _, err := n.Restore(t.Context(), tester, all[:2].archive(t)); err != nil {
		t.Error(err)
	}
}
