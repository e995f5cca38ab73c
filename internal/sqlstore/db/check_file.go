package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
)

// maxCheckedFile is the largest file that CheckFile reads completely.
const maxCheckedFile = 256 << 20

// CheckFile checks the SQLite file at path before a node uses it. It reports whether the file
// is missing or defines nothing, and returns an error of one line if the file is damaged. It
// creates no file. It reads every page of a file of up to 256 MB, and only the schema of a
// larger one, since a start would take too long otherwise.
func CheckFile(ctx context.Context, path string) (empty bool, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if wal, err := os.Stat(path + "-wal"); info.Size() == 0 && (err != nil || wal.Size() == 0) {
		return true, nil
	}
	db, err := sql.Open("sqlite", sqliteDSN(path)+"&_pragma=query_only(1)")
	if err != nil {
		return false, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	at := location{dialect: &sqlite, target: path}
	var objects int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&objects); err != nil {
		return false, at.unreachable(ctx, err)
	}
	if objects == 0 || info.Size() > maxCheckedFile {
		return objects == 0, nil
	}
	var result string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&result); err != nil {
		return false, at.unreachable(ctx, err)
	}
	if result != "ok" {
		return false, unavailable(fmt.Errorf("quick check: %s", Clip(result)), messages[damaged])
	}
	return false, nil
}
