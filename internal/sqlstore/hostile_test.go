package sqlstore_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/test/storetest"
)

// tampered returns a backup of f on which statements were run, as in a malicious file that an
// operator is given.
func tampered(t *testing.T, f *storetest.Fixture, statements ...string) string {
	t.Helper()
	path := storetest.Backup(t, f)
	db, err := sql.Open("sqlite", path+"?_pragma=journal_mode(DELETE)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantUnharmed checks that a store has its one block, that no other file is left
// in its folder, and that a node can load it.
func wantUnharmed(t *testing.T, f *storetest.Fixture) {
	t.Helper()
	page, err := f.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block, State: "all"})
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("blocks %s, %v", storetest.Patterns(page.Items), err)
	}
	names, err := os.ReadDir(filepath.Dir(f.URL))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasPrefix(name.Name(), "stint.db") {
			t.Errorf("the file %s is left in the folder of the database", name.Name())
		}
	}
	if err := catalog.New(f, f.Clock.Now).Refresh(t.Context()); err != nil {
		t.Errorf("a node cannot load the database: %v", err)
	}
}

func TestRestoreRejectsHostileFiles(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside.db")
	attach := "ATTACH DATABASE '" + outside + "' AS o; CREATE TABLE o.x (y)"
	renamed := func(table, column, to string) string {
		return fmt.Sprintf(`ALTER TABLE %s RENAME COLUMN %s TO "%s"`, table, column, strings.ReplaceAll(to, `"`, `""`))
	}
	blockRow := func(pattern, revision string) string {
		return fmt.Sprintf(`INSERT INTO entries (id, kind, pattern, reason, author, source, created_at, expires_at, revision) VALUES ('x', 'block', %s, '', '', 'manual', 0, 9223372036854775807, %s)`, pattern, revision)
	}
	for name, statements := range map[string][]string{
		"a column name that ends the statement": {renamed("notes", "text", "text) SELECT 1,2,3,4,5; COMMIT; "+attach+"; --")},
		"a column name that attaches":           {renamed("notes", "author", attach)},
		"a column name that is a subquery":      {renamed("notes", "text", "(SELECT load_extension('x'))")},
		"a column name with quotes":             {renamed("notes", "text", `te"xt`)},
		"an extra column":                       {`ALTER TABLE notes ADD COLUMN more TEXT`},
		"a column with a default that runs":     {`ALTER TABLE users ADD COLUMN more TEXT DEFAULT (1)`},
		"a column missing":                      {`ALTER TABLE notes DROP COLUMN author`},
		"a generated column":                    {`ALTER TABLE notes ADD COLUMN g TEXT GENERATED ALWAYS AS (upper(text)) VIRTUAL`},
		"a generated column replaced a column":  {`ALTER TABLE notes DROP COLUMN author`, `ALTER TABLE notes ADD COLUMN author TEXT GENERATED ALWAYS AS ('root') VIRTUAL`},
		"an extra table":                        {`CREATE TABLE "x; ` + attach + `" (y)`},
		"a table missing":                       {`DROP TABLE notes`},
		"a table that is a view":                {`DROP TABLE notes`, `CREATE VIEW notes AS SELECT '1' AS id, 'k' AS key, 't' AS text, 'a' AS author, 1 AS created_at`},
		"an extra view":                         {`CREATE VIEW v AS SELECT * FROM entries`},
		"a trigger on a table":                  {`CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM audit; END`},
		"a changed trigger":                     {`DROP TRIGGER audit_append_only`, `CREATE TRIGGER audit_append_only BEFORE UPDATE ON audit BEGIN DELETE FROM entries; END`},
		"a trigger missing":                     {`DROP TRIGGER audit_append_only`},
		"an index over an expression":           {`CREATE INDEX i ON notes (abs(created_at))`},
		"an index missing":                      {`DROP INDEX entries_pattern`},
		"a virtual table":                       {`CREATE VIRTUAL TABLE v USING fts5(x)`},
		"a table without STRICT":                {`DROP TABLE notes`, `CREATE TABLE notes (id TEXT PRIMARY KEY, key TEXT NOT NULL, text TEXT NOT NULL, author TEXT NOT NULL, created_at INTEGER NOT NULL)`, `CREATE INDEX notes_key ON notes (key, id)`},
		"a view of migrations":                  {`DROP TABLE schema_migrations`, `CREATE VIEW schema_migrations AS SELECT 6 AS version, 0 AS dirty`},
		"migrations of text":                    {`UPDATE schema_migrations SET version = 'six'`},
		"migrations of a huge number":           {`UPDATE schema_migrations SET version = 9223372036854775807`},
		"migrations twice":                      {`INSERT INTO schema_migrations VALUES (1, 0)`},
		"migrations empty":                      {`DELETE FROM schema_migrations`},
		"an older number than its tables":       {`UPDATE schema_migrations SET version = 1`},
		"a newer schema":                        {`UPDATE schema_migrations SET version = 900`},
		"a failed migration":                    {`UPDATE schema_migrations SET dirty = 1`},
		"a schema for newer releases":           {`UPDATE settings SET value = '900' WHERE name = 'compatible_from'`},
		"text where a number should be":         {`PRAGMA writable_schema = 1`, `UPDATE sqlite_schema SET sql = replace(sql, 'STRICT', '') WHERE name = 'notes'`, `PRAGMA writable_schema = RESET`, `INSERT INTO notes VALUES ('n', 'k', 't', 'a', 'soon')`, `PRAGMA writable_schema = 1`, `UPDATE sqlite_schema SET sql = sql || ' STRICT' WHERE name = 'notes'`},
		"an invalid pattern":                    {blockRow("'ip:nowhere'", "1")},
		"a pattern with NUL":                    {blockRow("'token:' || char(0)", "1")},
		"a pattern of 1 MB":                     {blockRow("printf('token:%.*c', 1000000, 'x')", "1")},
		"a value of 70 MB":                      {`INSERT INTO notes VALUES ('n', 'token:a', zeroblob(70000000) || '', 'a', 1)`},
		"a block with a later revision":         {blockRow("'token:x'", "9223372036854775807")},
		"a block created before year 1":         {blockRow("'token:x'", "1"), `UPDATE entries SET created_at = -9223372036854775808`},
		"a block created after year 9999":       {blockRow("'token:x'", "1"), `UPDATE entries SET created_at = 253402300800000`},
		"a block that ends after year 9999":     {blockRow("'token:x'", "1"), `UPDATE entries SET expires_at = 9223372036854775806`},
		"the largest revision":                  {`UPDATE revision SET value = 9223372036854775807`},
		"a revision below zero":                 {`UPDATE revision SET value = -5`},
		"no revision":                           {`DELETE FROM revision`},
		"the largest id of audit records":       {`INSERT INTO audit (id, at, actor_kind, actor_id, actor_name, actor_address, action, object, object_id, summary, revision) VALUES (9223372036854775807, 0, '', '', '', '', '', '', '', '', 0)`},
		"the largest policy id":                 {`INSERT INTO policies VALUES (9223372036854775807, 'p', 1, 0, 0, 0)`},
		"a policy that is no JSON":              {`UPDATE policy_versions SET document = 'x'`},
		"a policy with an unknown mode":         {`UPDATE policy_versions SET document = replace(document, 'enforce', 'destroy')`},
		"a policy with too high a limit":        {`UPDATE policy_versions SET document = replace(document, '800/1d', '99999999999999999999/1d')`},
		"a policy without its version":          {`UPDATE policies SET version = 77`},
		"a version without its policy":          {`PRAGMA foreign_keys = 0`, `UPDATE policy_versions SET policy_id = 77`},
		"a token whose hash is short":           {`INSERT INTO tokens (id, name, hint, hash, scopes, author, created_at, expires_at, revision) VALUES ('t', 't', 't', x'00', 'admin', 'a', 0, 9223372036854775807, 1)`},
		"no secret":                             {`DELETE FROM settings WHERE name = 'secret'`},
		"an invalid ipv6_bits":                  {`UPDATE settings SET value = '-1' WHERE name = 'ipv6_bits'`},
	} {
		t.Run(name, func(t *testing.T) {
			f := storetest.OpenSQLite(t)
			path := tampered(t, f, statements...)
			storetest.AddEntry(t, f, storetest.NewBlock(t, "token:kept", time.Time{}), blocks.Fail)
			err := f.Restore(t.Context(), storetest.Operator, path)
			storetest.WantFault(t, err, fault.Invalid)
			if text := err.Error(); strings.Contains(text, "\n") || len(text) > 400 {
				t.Errorf("the error is not one short line: %q", text)
			}
			wantUnharmed(t, f)
			if _, err := os.Lstat(outside); err == nil {
				t.Fatal("a file was written outside the data folder")
			}
			storetest.AddEntry(t, f, storetest.NewBlock(t, "token:later", time.Time{}), blocks.Fail)
		})
	}
}

func TestRestoreAcceptsAnalyzedDatabase(t *testing.T) {
	f := storetest.OpenSQLite(t)
	path := tampered(t, f, `ANALYZE`)
	if err := f.Restore(t.Context(), storetest.Operator, path); err != nil {
		t.Fatal(err)
	}
}

func TestRestoreIgnoresLeasesOfBackup(t *testing.T) {
	f := storetest.OpenSQLite(t)
	path := tampered(t, f, `INSERT INTO leases VALUES ('job:tidy', 'nobody', 9223372036854775807)`)
	if err := f.Restore(t.Context(), storetest.Operator, path); err != nil {
		t.Fatal(err)
	}
	now := f.Clock.Now()
	if held, err := f.Jobs.AcquireLease(t.Context(), "job:tidy", "a", now, now.Add(time.Minute)); err != nil || !held {
		t.Fatalf("AcquireLease() = %v, %v: a lease of the backup is still held", held, err)
	}
}

// A file is either refused or restored completely, whatever its bytes are.
func TestRestoreOfDamagedPagesIsAllOrNothing(t *testing.T) {
	f := storetest.OpenSQLite(t)
	storetest.AddEntry(t, f, storetest.NewBlock(t, "token:old", time.Time{}), blocks.Fail)
	good, err := os.ReadFile(storetest.Backup(t, f))
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	path := filepath.Join(t.TempDir(), "damaged.db")
	refused := 0
	for round := range 60 {
		bad := bytes.Clone(good)
		switch round % 3 {
		case 0: // some bytes
			for range 1 + random.IntN(20) {
				bad[100+random.IntN(len(bad)-100)] = byte(random.UintN(256))
			}
		case 1: // a page
			page := random.IntN(len(bad) / 4096)
			for i := range 4096 - 100 {
				bad[page*4096+100+i] = byte(random.UintN(256))
			}
		default: // its end
			bad = bad[:100+random.IntN(len(bad)-100)]
		}
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		err := f.Restore(t.Context(), storetest.Operator, path)
		switch {
		case fault.Is(err, fault.Invalid):
			refused++
		case err != nil:
			t.Fatalf("round %d: %v", round, err)
		}
		wantUnharmed(t, f)
	}
	if refused < 20 {
		t.Errorf("%d of 60 damaged files were refused, want at least the 20 truncated ones", refused)
	}
}
