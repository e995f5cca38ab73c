package e2e_test

import (
	"bytes"
	"context"
	"database/sql"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	_ "modernc.org/sqlite" // registers the driver
)

func sqliteFaults() []fault {
	var unlock func()
	refuses := func(w *world) { w.awaitWritesRefused(0, "") }
	writesAgain := func(w *world) { w.writes(0) }
	var whole string
	// damaged ends the node, does something to its database, and wants the next
	// start to be refused. heal restores the database.
	damaged := func(name, done, says string, damage func(path string) error) fault {
		return fault{
			name: name, done: done + " while it is ended", start: alone, silent: []int{0}, loses: 1,
			promise: "the next start is refused in one line that names a backup; with the database back it goes on",
			inflict: func(w *world) {
				w.nodes[0].end(syscall.SIGTERM)
				whole = filepath.Join(w.TempDir(), "whole")
				if err := os.CopyFS(whole, os.DirFS(dataOf(w.nodes[0]))); err != nil {
					w.Fatal(err)
				}
				if err := damage(filepath.Join(dataOf(w.nodes[0]), "stint.db")); err != nil {
					w.Fatal(err)
				}
			},
			during: func(w *world) {
				n := onDataOf(w.nodes[0])
				if code := n.exitCode(); code == 0 {
					w.Error("a start on a damaged database: got exit code 0")
				}
				if line := n.log.String(); strings.Count(line, "\n") != 1 || !strings.Contains(line, says) || !strings.Contains(line, "backup") {
					w.Errorf("a start on a damaged database prints %q, want one line with %q and the word backup", line, says)
				}
			},
			heal: func(w *world) {
				data := dataOf(w.nodes[0])
				if err := os.RemoveAll(data); err != nil {
					w.Fatal(err)
				}
				if err := os.CopyFS(data, os.DirFS(whole)); err != nil {
					w.Fatal(err)
				}
				if err := os.Chmod(data, 0o700); err != nil {
					w.Fatal(err)
				}
				n := onDataOf(w.nodes[0])
				n.dir = w.nodes[0].dir
				w.replace(0, n)
			},
			after: writesAgain,
		}
	}
	table := []fault{
		{
			name: "SQLite locked", done: "another program holds an exclusive lock", promise: goesOn, start: alone, after: writesAgain, during: refuses,
			inflict: func(w *world) { unlock = lockFile(w, filepath.Join(dataOf(w.nodes[0]), "stint.db")) }, heal: func(*world) { unlock() },
		},
		damaged("SQLite damaged", "its pages are overwritten", "damaged", func(path string) error {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for at := 4096; at < len(b); at++ {
				b[at] = 0xa5
			}
			return os.WriteFile(path, b, 0o600)
		}),
		damaged("SQLite empty", "its file is emptied", "empty", func(path string) error { return os.WriteFile(path, bytes.NewBuffer(nil).Bytes(), 0o600) }),
	}
	if limitFiles == nil {
		return table
	}
	return append(table, fault{
		name: "SQLite's disk is full", done: "no file of the node may grow (RLIMIT_FSIZE)", promise: goesOn, start: alone, after: writesAgain, during: refuses, quick: true,
		inflict: func(w *world) { limitFiles(w, 1) }, heal: func(w *world) { limitFiles(w, noLimit) },
	})
}

// limitFiles sets how large the files of the node may become. It is nil where
// the system has no limits of another process.
var limitFiles func(w *world, most uint64)

// noLimit lets files become as large as they like.
const noLimit = math.MaxUint64

func lockFile(w *world, path string) (unlock func()) {
	w.Helper()
	ctx := context.Background()
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(30000)")
	if err != nil {
		w.Fatal(err)
	}
	c, err := db.Conn(ctx)
	if err == nil {
		_, err = c.ExecContext(ctx, "BEGIN EXCLUSIVE")
	}
	if err != nil {
		w.Fatal(err)
	}
	return func() {
		_, _ = c.ExecContext(ctx, "ROLLBACK") // closing it does so too
		c.Close()
		db.Close()
	}
}
