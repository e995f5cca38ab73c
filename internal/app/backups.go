package app

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/timestamplog/memlog"
)

// The files within a backup, which is a tar archive.
const (
	backupDatabase = "stint.db"
	backupLogs     = "logs.snapshot"
)

// maxBackup bounds what a restore unpacks.
const maxBackup = 16 << 30

// backups keeps the embedded data while it is in use, for the API.
type backups struct{ app *App }

// Backup writes the database and the logs, each consistent in itself, to w.
func (b *backups) Backup(ctx context.Context, w io.Writer) error {
	folder, err := os.MkdirTemp(b.app.backends.dir.path, "backup-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	database, logs := filepath.Join(folder, backupDatabase), filepath.Join(folder, backupLogs)
	if err := b.app.backends.store.Backup(ctx, database); err != nil {
		return err
	}
	if err := b.app.backends.memory.SaveFile(logs); err != nil {
		return err
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

// Restore replaces everything by the backup in r. Nothing is touched before
// the whole of it has been read and found sound.
func (b *backups) Restore(ctx context.Context, by audit.Actor, r io.Reader) (string, error) {
	folder, err := os.MkdirTemp(b.app.backends.dir.path, "restore-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	if err := unpack(tar.NewReader(r), folder); err != nil {
		return "", err
	}
	logs := filepath.Join(folder, backupLogs)
	if err := memlog.New(memlog.Options{}).LoadFile(logs); err != nil {
		return "", notABackup()
	}
	if err := b.app.backends.store.Restore(ctx, by, filepath.Join(folder, backupDatabase)); err != nil {
		return "", err
	}
	// First what decides: whatever fails after it, the restored policies and
	// blocks govern.
	if err := b.app.catalog.Reload(ctx); err != nil {
		return "", err
	}
	// What this node has logged since the backup stays: forgetting it would
	// allow more than the rules do.
	if err := b.app.backends.memory.LoadFile(logs); err != nil {
		return "", fmt.Errorf("the database is restored and the logs are not: %w", err)
	}
	return "The database is that of the backup, and its logs are added to those of this node.", nil
}

// unpack writes the two files of a backup into folder, and refuses an archive
// that holds anything else or misses one.
func unpack(archive *tar.Reader, folder string) error {
	left := map[string]bool{backupDatabase: true, backupLogs: true}
	room := int64(maxBackup)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || !left[header.Name] || header.Typeflag != tar.TypeReg || header.Size > room {
			return notABackup()
		}
		delete(left, header.Name)
		room -= header.Size
		if err := writePart(filepath.Join(folder, header.Name), archive, header.Size); err != nil {
			return err
		}
	}
	if len(left) > 0 {
		return notABackup()
	}
	return nil
}

func notABackup() error {
	return fault.New(fault.Invalid, "This is not a whole backup of Stint; nothing was changed. Give a file that \"backup\" wrote.")
}

func writePart(path string, from io.Reader, size int64) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.CopyN(file, from, size); err != nil {
		file.Close()
		return notABackup()
	}
	return file.Close()
}
