package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/filelock"
)

// FolderLock is the name of the file in the folder of an SQLite database that its node keeps
// locked.
const FolderLock = "lock"

// ErrInUse is the error that a running node uses the database.
var ErrInUse = errors.New("in use by another Stint")

// holdFolder keeps nodes from using the SQLite file of a path until release is called. It does
// not create the lock file, which the node's user might not be able to open.
func holdFolder(path string) (release func(), err error) {
	folder := filepath.Dir(path)
	file, err := os.Open(filepath.Join(folder, FolderLock))
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil // no node has ever used it
	}
	if err != nil {
		return nil, err
	}
	if err := filelock.Lock(file); err != nil {
		file.Close()
		if errors.Is(err, filelock.ErrLocked) {
			return nil, fmt.Errorf("%s is %w; stop that node first", folder, ErrInUse)
		}
		return nil, fmt.Errorf("%s cannot be locked: %w", folder, err)
	}
	return func() { file.Close() }, nil
}

// nodeGone is how long after its last heartbeat a node may still be running.
const nodeGone = time.Minute

// checkNodesGone returns an error that names the nodes with a heartbeat within nodeGone.
func (l location) checkNodesGone(ctx context.Context, db *sql.DB) error {
	var tables int
	if err := db.QueryRowContext(ctx, l.dialect.countTables, "nodes").Scan(&tables); err != nil || tables == 0 {
		return l.unreachable(ctx, err)
	}
	rows, err := db.QueryContext(ctx, "SELECT name FROM nodes WHERE seen_at >= ("+l.dialect.clock+") - $1 ORDER BY name", nodeGone.Milliseconds())
	if err != nil {
		return l.unreachable(ctx, err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		return l.unreachable(ctx, err)
	}
	if len(names) > 0 {
		return fmt.Errorf("the database is %w: %s; stop all nodes first, and wait a minute after one that was killed", ErrInUse, strings.Join(names, ", "))
	}
	return nil
}
