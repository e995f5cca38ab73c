package db

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/atomicfile"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
)

// errPostgresBackup names the tools of Postgres to use instead.
func errPostgresBackup() error {
	return fault.New(fault.Conflict, "This is Postgres: back it up with pg_dump and restore with pg_restore; Stint does so only for its embedded database.")
}

// Backup writes a copy of the embedded database to path while the database is in use. Only the
// owner can read the copy. path must not exist. On Postgres the error is a Conflict that names
// pg_dump.
func (s *DB) Backup(ctx context.Context, path string) error {
	if s.place.dialect != &sqlite {
		return errPostgresBackup()
	}
	if _, err := os.Lstat(path); err == nil {
		return fault.Field("path", "names a file that exists; choose another")
	}
	// SQLite fills an empty file. A file that it creates itself could be readable by others.
	return atomicfile.Write(path, 0o600, func(file *os.File) error { return s.vacuumInto(ctx, file.Name()) })
}

// vacuumInto copies the database over its own connection: the writer must not wait for it, and
// readers may not write, not even to another file.
func (s *DB) vacuumInto(ctx context.Context, path string) error {
	db, err := sql.Open("sqlite", sqliteDSN(s.place.target))
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "VACUUM INTO $1", path); err != nil {
		return s.explain(ctx, fmt.Errorf("write the backup: %w", err))
	}
	return nil
}

// CheckContents returns an error if a node could not load a database file, which has the schema
// of this program.
type CheckContents func(ctx context.Context, path string) error

// RestoreOptions are what a restore needs from other packages. All are required.
type RestoreOptions struct {
	Check CheckContents
	// TOTPStep returns the TOTP step of an instant. For a user that the present database lacks,
	// no code of a step up to the one after the present step is accepted.
	TOTPStep func(time.Time) int64
	// CountAdmins returns how many users and tokens can administer Stint.
	CountAdmins func(t *Tx) (int, error)
	// BootstrapAuthor is the author of the tokens that nodes create if they are missing.
	BootstrapAuthor string
}

// Restore replaces everything in the embedded database with the content of the backup at path,
// in one transaction, while the database is in use. A backup of an older release is migrated. A
// damaged, foreign or newer file is Invalid and changes nothing.
//
// Some state survives: ids of policies stay taken, a token revoked since the backup stays
// revoked, a token of o.BootstrapAuthor with an expiry is kept, and the token of the request keeps
// working. No credential that was removed since the backup returns: a token expires when it
// would have expired, or earlier, and a user keeps the present role, password and second
// factor, or none, and stays disabled or deleted. Sessions end.
//
// A backup that would leave no admin is a Conflict. Afterwards a node's catalog must be
// reloaded completely; until then it does not apply the restored database. On Postgres the
// error is a Conflict that names pg_restore.
func (s *DB) Restore(ctx context.Context, by audit.Actor, path string, o RestoreOptions) error {
	if s.place.dialect != &sqlite {
		return errPostgresBackup()
	}
	checked, columns, err := s.checkedCopy(ctx, path, o.Check)
	if err != nil {
		return err
	}
	defer removeDatabase(checked)
	conn, err := s.writer.Conn(ctx)
	if err != nil {
		return s.explain(ctx, err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "ATTACH DATABASE $1 AS restored", checked); err != nil {
		return s.explain(ctx, fmt.Errorf("open the backup: %w", err))
	}
	// Also if ctx has ended, since the connection returns to the pool.
	defer func() { _, _ = conn.ExecContext(context.WithoutCancel(ctx), "DETACH DATABASE restored") }()
	// No refresh: it would look for revisions newer than the node's, and the restored data is
	// older.
	return s.commit(ctx, conn, by, func(t *Tx) error { return t.restore(path, columns, o) })
}

// VerifyBackup checks the backup at path as Restore does, without changing anything. check gets
// a private copy with the schema of this program. On Postgres the error is a Conflict.
func VerifyBackup(ctx context.Context, s *DB, path string, check CheckContents) error {
	if s.place.dialect != &sqlite {
		return errPostgresBackup()
	}
	checked, _, err := s.checkedCopy(ctx, path, check)
	if err != nil {
		return err
	}
	removeDatabase(checked)
	return nil
}

// checkedCopy copies a backup into the folder of the database, checks the copy and migrates it.
// It returns the tables and columns of the migrated copy.
func (s *DB) checkedCopy(ctx context.Context, path string, check CheckContents) (checked string, columns map[string][]string, err error) {
	folder := filepath.Dir(s.place.target)
	copied, err := copyDatabase(path, folder)
	if err != nil {
		return "", nil, err
	}
	if columns, err = s.bringUpToDate(ctx, copied, folder, check); err != nil {
		removeDatabase(copied)
		return "", nil, err
	}
	return copied, columns, nil
}

// bringUpToDate checks and migrates a private copy of a backup.
func (s *DB) bringUpToDate(ctx context.Context, copied, folder string, check CheckContents) (columns map[string][]string, err error) {
	if err := (untrusted{path: copied, folder: folder}).check(ctx); err != nil {
		return nil, err
	}
	if err := (location{dialect: &sqlite, target: copied}).migrate(ctx); err != nil {
		return nil, err
	}
	if err := check(ctx, copied); err != nil {
		return nil, err
	}
	latest, err := s.place.latest()
	if err != nil {
		return nil, err
	}
	current, err := referenceAt(ctx, folder, latest.Latest)
	return current.columns, err
}

const sqliteHeader = "SQLite format 3\x00"

func copyDatabase(path, folder string) (copied string, err error) {
	from, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", fault.Field("path", "names no file")
	}
	if err != nil {
		return "", fmt.Errorf("open the backup: %w", err)
	}
	defer from.Close()
	header := make([]byte, len(sqliteHeader))
	if _, err := io.ReadFull(from, header); err != nil || !bytes.Equal(header, []byte(sqliteHeader)) {
		return "", NotABackup(err, "it is not an SQLite database")
	}
	to, err := os.CreateTemp(folder, ".stint-restore-*")
	if err != nil {
		return "", FileError(fmt.Errorf("copy the backup: %w", err))
	}
	_, err = io.Copy(to, io.MultiReader(bytes.NewReader(header), from))
	if err = errors.Join(err, to.Close()); err != nil {
		removeDatabase(to.Name())
		return "", FileError(fmt.Errorf("copy the backup: %w", err))
	}
	return to.Name(), nil
}

// removeDatabase removes a temporary database and the files that SQLite creates for it.
func removeDatabase(path string) {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		_ = os.Remove(path + suffix) // a leftover only takes space
	}
}

const (
	// nextRevision exceeds every revision that either database has used.
	nextRevision = `
UPDATE main.revision SET value = max(value, (SELECT value FROM restored.revision) + 1) WHERE id = 1 RETURNING value`

	keepPolicies = `
CREATE TEMP TABLE kept_policies AS SELECT * FROM main.policies WHERE id NOT IN (SELECT id FROM restored.policies)`
	keepVersions = `
CREATE TEMP TABLE kept_versions AS SELECT * FROM main.policy_versions WHERE policy_id IN (SELECT id FROM temp.kept_policies)`
	keepTokens = `
CREATE TEMP TABLE kept_tokens AS SELECT * FROM main.tokens WHERE id = $1 OR revoked_at > 0 OR author = $2 AND expires_at < $3`
	// What expired or changed of the credentials that exist in both.
	keepExpiries  = `CREATE TEMP TABLE kept_expiries AS SELECT id, expires_at, expires_before_rotation FROM main.tokens`
	keepUsers     = `CREATE TEMP TABLE kept_users AS SELECT id, role, password_hash, disabled_at FROM main.users`
	keepTOTP      = `CREATE TEMP TABLE kept_totp AS SELECT * FROM main.totp`
	keepCodes     = `CREATE TEMP TABLE kept_codes AS SELECT * FROM main.recovery_codes`
	keepEnded     = `CREATE TEMP TABLE kept_ended AS SELECT id FROM main.ended_credentials`
	returnEnded   = `INSERT OR IGNORE INTO main.ended_credentials (id, revision) SELECT id, 0 FROM temp.kept_ended`
	endTokens     = `DELETE FROM main.tokens WHERE id IN (SELECT id FROM main.ended_credentials)`
	endUsers      = `DELETE FROM main.users WHERE id IN (SELECT id FROM main.ended_credentials)`
	limitExpiries = `
UPDATE main.tokens SET expires_at = k.expires_at, expires_before_rotation = k.expires_before_rotation
  FROM temp.kept_expiries k WHERE k.id = tokens.id AND k.expires_at < tokens.expires_at`
	returnUsers = `
UPDATE main.users SET
	role = (SELECT k.role FROM temp.kept_users k WHERE k.id = users.id),
	password_hash = (SELECT k.password_hash FROM temp.kept_users k WHERE k.id = users.id),
	disabled_at = max(disabled_at, (SELECT k.disabled_at FROM temp.kept_users k WHERE k.id = users.id))
WHERE id IN (SELECT id FROM temp.kept_users)`
	// A user in both databases keeps the present second factor, or none. Any other user's
	// factor is restored, and accepts no code of a step that may have been used already.
	forgetTOTP  = `DELETE FROM main.totp WHERE user_id IN (SELECT id FROM temp.kept_users) OR user_id NOT IN (SELECT id FROM main.users)`
	forgetCodes = `
DELETE FROM main.recovery_codes WHERE user_id IN (SELECT id FROM temp.kept_users) OR user_id NOT IN (SELECT id FROM main.users)`
	skipSteps   = `UPDATE main.totp SET last_step = max(last_step, $1)`
	returnTOTP  = `INSERT INTO main.totp SELECT * FROM temp.kept_totp WHERE user_id IN (SELECT u.id FROM main.users u JOIN temp.kept_users k ON k.id = u.id)`
	returnCodes = `
INSERT INTO main.recovery_codes SELECT * FROM temp.kept_codes WHERE user_id IN (SELECT u.id FROM main.users u JOIN temp.kept_users k ON k.id = u.id)`

	// Package offences reads this mark together with all others.
	markAll = `INSERT INTO count_marks (span, start, mark) VALUES (-1, 0, $1) ON CONFLICT (span, start) DO UPDATE SET mark = excluded.mark`

	deleteKept     = `UPDATE temp.kept_policies SET deleted_at = $1 WHERE deleted_at = 0`
	returnPolicies = `INSERT INTO main.policies SELECT * FROM temp.kept_policies`
	returnVersions = `INSERT INTO main.policy_versions SELECT * FROM temp.kept_versions`
	returnTokens   = `INSERT OR REPLACE INTO main.tokens SELECT * FROM temp.kept_tokens`
)

// restore runs with the backup attached as "restored". columns are its tables and columns.
func (t *Tx) restore(path string, columns map[string][]string, o RestoreOptions) error {
	head, err := t.chainHead()
	if err != nil {
		return err
	}
	adminsBefore, err := o.CountAdmins(t)
	if err != nil {
		return err
	}
	secondFactors, err := unsealAllTOTP(t)
	if err != nil {
		return err
	}
	// Rows reference each other, and the tables are replaced one by one.
	if _, err := t.Exec("PRAGMA defer_foreign_keys = ON"); err != nil {
		return err
	}
	if err := keepRows(t, o); err != nil {
		return err
	}
	for _, table := range slices.Sorted(maps.Keys(columns)) {
		if err := t.replaceTable(table, columns[table]); err != nil {
			return fmt.Errorf("restore %s: %w", table, err)
		}
	}
	if _, err := t.One(nextRevision, nil, &t.Revision); err != nil {
		return err
	}
	if err := returnRows(t, o); err != nil {
		return err
	}
	if admins, err := o.CountAdmins(t); err != nil {
		return err
	} else if admins == 0 && adminsBefore > 0 {
		return fault.New(fault.Conflict, "The backup has no user and no token that could administer Stint now; nothing was changed. Restore it with an admin token, which stays.")
	}
	if err := sealRestoredTOTP(t, secondFactors); err != nil {
		return err
	}
	if err := t.ForgetCounts(); err != nil {
		return err
	}
	summary := fmt.Sprintf("Restored the database from %q.", filepath.Base(path))
	// The audit log is now that of the backup. This record names the newest record of the
	// previous one.
	return t.Record("database.restore", "database", "", summary, struct {
		Head string `json:"audit_head"`
	}{head.String()}, nil)
}

// keepRows copies the rows of the present database that a restore must not lose to temporary
// tables.
func keepRows(t *Tx, o RestoreOptions) error {
	return t.execAll(
		statement{keepPolicies, nil}, statement{keepVersions, nil}, statement{keepTokens, []any{t.By.ID, o.BootstrapAuthor, ExpiryToMS(time.Time{})}},
		statement{deleteKept, []any{ToMS(t.Now)}},
		statement{keepExpiries, nil}, statement{keepUsers, nil}, statement{keepEnded, nil},
		statement{keepTOTP, nil}, statement{keepCodes, nil},
	)
}

// returnRows merges the rows that keepRows copied into the restored tables, and drops the
// temporary tables.
func returnRows(t *Tx, o RestoreOptions) error {
	return t.execAll(
		statement{returnPolicies, nil}, statement{returnVersions, nil}, statement{returnTokens, nil},
		statement{"DROP TABLE temp.kept_policies", nil}, statement{"DROP TABLE temp.kept_versions", nil}, statement{"DROP TABLE temp.kept_tokens", nil},
		statement{returnEnded, nil}, statement{limitExpiries, nil}, statement{returnUsers, nil},
		statement{endTokens, nil}, statement{endUsers, nil},
		statement{forgetTOTP, nil}, statement{forgetCodes, nil},
		statement{skipSteps, []any{o.TOTPStep(t.Now) + 1}}, statement{returnTOTP, nil}, statement{returnCodes, nil},
		statement{"DROP TABLE temp.kept_totp", nil}, statement{"DROP TABLE temp.kept_codes", nil},
		statement{"DROP TABLE temp.kept_expiries", nil}, statement{"DROP TABLE temp.kept_users", nil}, statement{"DROP TABLE temp.kept_ended", nil},
	)
}

// ForgetCounts makes the counts in the memory of all nodes invalid, whatever the marks of their rows
// say: they were replaced or erased.
func (t *Tx) ForgetCounts() error {
	id, err := NewID()
	if err == nil {
		_, err = t.Exec(markAll, id)
	}
	return err
}

// statement is one statement and its arguments.
type statement struct {
	text string
	args []any
}

func (t *Tx) execAll(statements ...statement) error {
	for _, s := range statements {
		if _, err := t.Exec(s.text, s.args...); err != nil {
			return err
		}
	}
	return nil
}

// notRestored are the tables that a restore does not change: those that describe the database
// itself, and those by which nodes coordinate at present.
var notRestored = []string{"schema_migrations", "revision", "leases", "nodes"}

// emptied are the tables that are empty after a restore.
var emptied = []string{"sessions", "pending_logins", "totp_setups", "bouncers"}

// replaceTable replaces the rows of one table with those of the backup. Sessions end, and
// bouncers are sent everything again, since the backup does not know what they were sent.
func (t *Tx) replaceTable(table string, columns []string) error {
	if slices.Contains(notRestored, table) {
		return nil
	}
	if _, err := t.Exec("DELETE FROM main." + quoted(table)); err != nil || slices.Contains(emptied, table) {
		return err
	}
	list := quotedList(columns)
	_, err := t.Exec("INSERT INTO main." + quoted(table) + " (" + list + ") SELECT " + list + " FROM restored." + quoted(table))
	return err
}
