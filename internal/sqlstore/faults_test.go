package sqlstore_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"os/exec"
	"os/signal"
	"syscall"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/test/storetest"
)

// faultDatabase names the database for a test that runs itself in another process.
const faultDatabase = "STINT_TEST_FAULT_DATABASE"

// wantUnavailable checks that an error is Unavailable and one line that contains text.
func wantUnavailable(t *testing.T, err error, text string) {
	t.Helper()
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("got %v, want one line, Unavailable, with %q", err, text)
	}
}

// withSettings adds settings to a URL of Postgres.
func withSettings(url, settings string) string {
	if strings.Contains(url, "?") {
		return url + "&" + settings
	}
	return url + "?" + settings
}

func TestPostgresConnectionsSetStatementTimeouts(t *testing.T) {
	f := storetest.OpenPostgres(t)
	for name, want := range map[string]string{"statement_timeout": "1min", "lock_timeout": "10s", "idle_in_transaction_session_timeout": "1min"} {
		if got := f.Setting(t, t.Context(), name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if got := f.Setting(t, db.AllowLong(t.Context()), "statement_timeout"); got != "15min" {
		t.Errorf("AllowLong: statement_timeout is %s, want 15min", got)
	}
	if got := f.Setting(t, t.Context(), "statement_timeout"); got != "1min" {
		t.Errorf("after AllowLong statement_timeout is %s, want 1min", got)
	}
	chosen, err := sqlstore.Open(t.Context(), withSettings(f.URL, "statement_timeout=7s&lock_timeout=3s"), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer chosen.Close()
	if a, b := chosen.Setting(t, t.Context(), "statement_timeout"), chosen.Setting(t, t.Context(), "lock_timeout"); a != "7s" || b != "3s" {
		t.Errorf("the settings of the URL are %s and %s, want 7s and 3s", a, b)
	}
}

func TestHangingPostgresStatementTimesOut(t *testing.T) {
	f := storetest.OpenPostgres(t)
	hasty, err := sqlstore.Open(t.Context(), withSettings(f.URL, "statement_timeout=200ms&lock_timeout=100ms"), sqlstore.Options{Now: f.Clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer hasty.Close()
	wantUnavailable(t, hasty.Sleep(t.Context(), "60"), "did not answer in time")

	holder, err := f.Raw(t).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Rollback() }()
	if _, err := holder.ExecContext(t.Context(), "UPDATE revision SET value = value"); err != nil {
		t.Fatal(err)
	}
	_, err = hasty.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, storetest.NewBlock(t, "token:a", time.Time{}))
	wantUnavailable(t, err, "locked")
	if err := holder.Rollback(); err != nil {
		t.Fatal(err)
	}
	if _, err := hasty.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, storetest.NewBlock(t, "token:a", time.Time{})); err != nil {
		t.Fatalf("after the lock: %v", err)
	}
}

func TestLockedSQLiteFileReturnsUnavailable(t *testing.T) {
	f := storetest.OpenSQLite(t)
	holder, err := f.Raw(t).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	_, err = f.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, storetest.NewBlock(t, "token:a", time.Time{}))
	wantUnavailable(t, err, "locked by another program; nothing was changed")
	if _, err := f.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block}); err != nil {
		t.Errorf("reading: %v", err)
	}
	if _, err := holder.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a", time.Time{}), blocks.Fail)
}

func TestFullSQLiteDiskKeepsAcknowledgedBlocks(t *testing.T) {
	f := storetest.OpenSQLite(t)
	f.LimitPages(t, 1) // as many as there are
	var kept []string
	var err error
	for n := range 2000 {
		b := storetest.NewBlock(t, fmt.Sprintf("token:%04d", n), time.Time{})
		b.Reason = strings.Repeat("x", 1000)
		if _, err = f.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, b); err != nil {
			break
		}
		kept = append(kept, b.Pattern.String())
	}
	wantUnavailable(t, err, "no disk space left; free room; nothing was changed")
	f.LimitPages(t, 1<<30)
	storetest.AddEntry(t, f, storetest.NewBlock(t, "token:after", time.Time{}), blocks.Fail)
	page, err := f.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block})
	if err != nil || page.Total != len(kept)+1 {
		t.Fatalf("%d blocks are stored, want the %d acknowledged ones; %v", page.Total, len(kept)+1, err)
	}
}

func TestFailingSQLiteDiskKeepsAcknowledgedBlocks(t *testing.T) {
	if path := os.Getenv(faultDatabase); path != "" {
		fillUp(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), "stint.db")
	out := runChild(t, faultDatabase+"="+path)
	acknowledged := strings.Count(out, "acknowledged")
	if acknowledged == 0 || !strings.Contains(out, "refused") || !strings.Contains(out, "again") {
		t.Fatalf("the child process printed %q", out)
	}
	s, err := sqlstore.Open(t.Context(), path, sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	page, err := s.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block})
	if err != nil || page.Total != acknowledged {
		t.Fatalf("%d blocks are stored, want the %d acknowledged ones; %v", page.Total, acknowledged, err)
	}
}

// fillUp adds blocks until no file can grow further, and one more when they
// can grow again.
func fillUp(t *testing.T, path string) {
	s, err := sqlstore.Open(t.Context(), path, sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	grow := limitFiles(t, 1<<20)
	refused := 0
	for n := 0; refused < 5; n++ {
		b := storetest.NewBlock(t, fmt.Sprintf("token:%05d", n), time.Time{})
		b.Reason = strings.Repeat("x", 1000)
		_, err := s.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, b)
		switch {
		case err == nil:
			fmt.Println("acknowledged")
		case fault.Is(err, fault.Unavailable) && !strings.Contains(err.Error(), "\n"):
			refused++
		default:
			t.Fatal(err)
		}
	}
	fmt.Println("refused")
	grow()
	if _, err := s.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, storetest.NewBlock(t, "token:last", time.Time{})); err != nil {
		t.Fatal(err)
	}
	fmt.Println("acknowledged again")
}

func TestCheckFileRejectsDamagedSQLiteFile(t *testing.T) {
	f := storetest.OpenSQLite(t)
	for n := range 300 {
		storetest.AddEntry(t, f, storetest.NewBlock(t, fmt.Sprintf("token:%d", n), time.Time{}), blocks.Fail)
	}
	good, err := os.ReadFile(storetest.Backup(t, f))
	if err != nil {
		t.Fatal(err)
	}
	garbage := func(from, to int) []byte {
		bad := append([]byte(nil), good...)
		for i := from; i < to; i++ {
			bad[i] = byte(i * 7)
		}
		return bad
	}
	for name, content := range map[string][]byte{
		"no database": []byte(strings.Repeat("not a database ", 1000)), "header": garbage(16, 4096),
		"all but the header": garbage(4096, len(good)), "truncated": good[:len(good)/2],
	} {
		path := filepath.Join(t.TempDir(), "stint.db")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := db.CheckFile(t.Context(), path)
		if err == nil || !strings.Contains(err.Error(), "damaged") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line with \"damaged\"", name, err)
		}
	}
	if empty, err := db.CheckFile(t.Context(), f.URL); err != nil || empty {
		t.Errorf("CheckFile of an intact file: empty %v, %v", empty, err)
	}
}

// SQLite continues to write to a deleted file: those changes are lost when the process ends.
func TestStoreRejectsChangesToDeletedOrReplacedFile(t *testing.T) {
	f := storetest.OpenSQLite(t)
	storetest.AddEntry(t, f, storetest.NewBlock(t, "token:before", time.Time{}), blocks.Fail)
	kept := filepath.Join(t.TempDir(), "kept.db")
	copied, err := os.ReadFile(storetest.Backup(t, f))
	if err != nil {
		t.Fatal(err)
	}
	for name, replace := range map[string]func() error{
		"deleted":  func() error { return nil },
		"replaced": func() error { return os.WriteFile(f.URL, copied, 0o600) },
	} {
		if err := os.Rename(f.URL, kept); err != nil {
			t.Fatal(err)
		}
		if err := replace(); err != nil {
			t.Fatal(err)
		}
		_, err := f.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, storetest.NewBlock(t, "token:"+name, time.Time{}))
		wantUnavailable(t, err, "has lost its file, which was deleted or replaced")
		err = f.EachChange(t.Context(), catalog.Position{}, func(catalog.Changes) error { return nil })
		wantUnavailable(t, err, "has lost its file")
		if page, err := f.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block}); err != nil || page.Total == 0 {
			t.Errorf("%s: %d blocks can be read, want some; %v", name, page.Total, err)
		}
		if err := os.Rename(kept, f.URL); err != nil {
			t.Fatal(err)
		}
		storetest.AddEntry(t, f, storetest.NewBlock(t, "token:"+name, time.Time{}), blocks.Fail)
	}
}

func TestReadOnlyDatabaseReturnsUnavailable(t *testing.T) {
	f := storetest.OpenPostgres(t)
	standby, err := sqlstore.Open(t.Context(), withSettings(f.URL, "default_transaction_read_only=on"), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer standby.Close()
	_, err = standby.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, storetest.NewBlock(t, "token:a", time.Time{}))
	wantUnavailable(t, err, "can only be read")
}

func TestCheckFileReportsFilesWithoutTables(t *testing.T) {
	folder := t.TempDir()
	missing, nothing, bare := filepath.Join(folder, "missing.db"), filepath.Join(folder, "nothing.db"), filepath.Join(folder, "bare.db")
	if err := os.WriteFile(nothing, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	raw, err := sql.Open("sqlite", bare+"?_pragma=journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.ExecContext(t.Context(), "PRAGMA user_version = 1"); err != nil {
		t.Fatal(err)
	}
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{missing, nothing, bare} {
		if empty, err := db.CheckFile(t.Context(), path); err != nil || !empty {
			t.Errorf("CheckFile(%s): empty %v, %v, want true", path, empty, err)
		}
	}
	if _, err := os.Lstat(missing); err == nil {
		t.Error("CheckFile created a file")
	}
}

// runChild runs the test of the same name in a process of its own and returns
// what it printed.
func runChild(t *testing.T, environment ...string) string {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), environment...)
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// limitFiles keeps the files of this process from growing beyond a size, as a
// disk that fails does, until grow is called.
func limitFiles(t *testing.T, size uint64) (grow func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	set := func(limit syscall.Rlimit) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
	}
	set(syscall.Rlimit{Cur: size, Max: before.Max})
	return func() { set(before) }
}

// An administrator may give the database or the user of Stint other defaults than the server's.
func TestStoreDoesNotDependOnDefaultsOfDatabase(t *testing.T) {
	f := storetest.OpenPostgres(t)
	for _, setting := range []string{"default_transaction_isolation = serializable", "standard_conforming_strings = off"} {
		f.Exec(t, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET "+setting+"', current_database()); END $$")
	}
	if err := db.Migrate(t.Context(), f.URL); err != nil {
		t.Fatal(err)
	}
	nodes := []*sqlstore.Store{f.Another(t), f.Another(t)}
	const writers, each = 8, 10
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for n := range each {
				b := storetest.NewBlock(t, fmt.Sprintf("token:%d-%d", w, n), time.Time{})
				if _, err := nodes[w%2].Entries.Add(t.Context(), storetest.Operator, blocks.Fail, b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
}
