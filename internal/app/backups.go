package app

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/sqlstore"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
)

// The files within a backup, which is a tar archive.
const (
	backupDatabase = "stint.db"
	backupLogs     = "logs.snapshot"
)

// maxBackup bounds what a restore unpacks.
const maxBackup = 16 << 30

// backups saves and restores the data of an embedded node while it runs.
type backups struct {
	folder  string // for temporary files
	store   *sqlstore.Store
	memory  *memlog.Log
	catalog *catalog.Catalog
}

// newBackups returns the backups of an embedded node.
func newBackups(a *App) *backups {
	return &backups{folder: a.backends.dir.path, store: a.backends.store, memory: a.backends.memory, catalog: a.catalog}
}

// Backup writes the database and the logs, each consistent in itself, to w.
func (b *backups) Backup(ctx context.Context, w io.Writer) error {
	folder, err := os.MkdirTemp(b.folder, "backup-")
	if err != nil {
		return db.FileError(err)
	}
	defer os.RemoveAll(folder)
	database, logs := filepath.Join(folder, backupDatabase), filepath.Join(folder, backupLogs)
	if err := b.store.Backup(ctx, database); err != nil {
		return err
	}
	if err := b.memory.SaveFile(logs); err != nil {
		return db.FileError(err)
	}
	archive := tar.NewWriter(w)
	for _, path := range []string{database, logs} {
		if err := addFile(archive, path); err != nil {
			return err
		}
	}
	return archive.Close()
}

func addFile(archive *tar.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{Name: filepath.Base(path), Mode: 0o600, Size: info.Size(), ModTime: time.Now().UTC()}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}

// Verify checks the backup in r as Restore does and changes nothing.
func (b *backups) Verify(ctx context.Context, r io.Reader) (string, error) {
	folder, err := b.open(r)
	defer os.RemoveAll(folder)
	if err != nil {
		return "", err
	}
	held, err := b.store.VerifyBackup(ctx, filepath.Join(folder, backupDatabase))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("The backup is complete and this node can restore it. It contains policies: %d, active blocks: %d, active exemptions: %d, users: %d, tokens: %d. Nothing was changed.",
		held.Policies, held.Blocks, held.Exemptions, held.Users, held.Tokens), nil
}

// open unpacks a backup into a new folder and checks the logs within. The caller removes
// the folder, which is "" if it could not be made.
func (b *backups) open(r io.Reader) (folder string, err error) {
	if folder, err = os.MkdirTemp(b.folder, "restore-"); err != nil {
		return "", db.FileError(err)
	}
	if err := unpack(tar.NewReader(r), folder); err != nil {
		return folder, err
	}
	if err := memlog.New(memlog.Options{}).LoadFile(filepath.Join(folder, backupLogs)); err != nil {
		return folder, notABackup()
	}
	return folder, nil
}

// Restore replaces everything by the backup in r. It changes nothing before it has
// read and verified all of it.
func (b *backups) Restore(ctx context.Context, by audit.Actor, r io.Reader) (string, error) {
	folder, err := b.open(r)
	defer os.RemoveAll(folder)
	if err != nil {
		return "", err
	}
	logs := filepath.Join(folder, backupLogs)
	if err := b.store.Restore(ctx, by, filepath.Join(folder, backupDatabase)); err != nil {
		return "", err
	}
	// The catalog first: whatever fails afterwards, the restored policies and blocks
	// apply, where it could not be read as soon as it can.
	err = b.catalog.Reload(ctx)
	if err != nil {
		err = &fault.Error{Code: fault.Saved, Err: err, Message: "The backup is restored; do not restore it again. It is not in effect on this node yet, because the database could not be read afterwards. It takes effect as soon as it can be."}
	}
	// Entries since the backup are kept: without them the node would allow more than
	// its rules do.
	if failed := b.memory.LoadFile(logs); failed != nil {
		err = &fault.Error{Code: fault.Saved, Err: errors.Join(failed, err), Message: "The database is restored and the logs of the backup are not, because they could not be read: keys may have more left than their rules say."}
	}
	if err != nil {
		return "", err
	}
	return "The database is that of the backup, and its logs are added to those of this node.", nil
}

// unpack writes the two files of a backup into folder. It fails if the archive
// contains another file or lacks one.
func unpack(archive *tar.Reader, folder string) error {
	missing := map[string]bool{backupDatabase: true, backupLogs: true}
	remaining := int64(maxBackup)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || !missing[header.Name] || header.Typeflag != tar.TypeReg || header.Size > remaining {
			return notABackup()
		}
		delete(missing, header.Name)
		remaining -= header.Size
		if err := writePart(filepath.Join(folder, header.Name), archive, header.Size); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return notABackup()
	}
	return nil
}

func notABackup() error {
	return fault.New(fault.Invalid, "This is not a whole backup of Stint; nothing was changed. Give a file that \"backup\" wrote.")
}

// writePart writes one file of an archive. An error of the file is not one of the archive:
// the operator of a full disk would look for another backup.
func writePart(path string, from io.Reader, size int64) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return db.FileError(err)
	}
	if _, err := io.CopyN(file, from, size); err != nil {
		file.Close()
		if _, ours := errors.AsType[*fs.PathError](err); ours {
			return db.FileError(err)
		}
		return notABackup()
	}
	return db.FileError(file.Close())
}
