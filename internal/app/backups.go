package app

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
	backupSums     = "SHA256SUMS"
)

// maxBackup bounds the bytes that a restore unpacks.
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
	folder, err := os.MkdirTemp(b.folder, ".stint-backup-*")
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
	archive, sums := tar.NewWriter(w), checksums{}
	for _, path := range []string{database, logs} {
		if err := sums.addFile(archive, path); err != nil {
			return err
		}
	}
	text := sums.text()
	if err := addPart(archive, backupSums, int64(len(text)), bytes.NewReader(text)); err != nil {
		return err
	}
	return archive.Close()
}

func addPart(archive *tar.Writer, name string, size int64, from io.Reader) error {
	header := &tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: time.Now().UTC()}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(archive, from)
	return err
}

// checksums are the SHA-256 of the files within a backup, by name.
type checksums map[string][sha256.Size]byte

// addFile adds a file to an archive and to c.
func (c checksums) addFile(archive *tar.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	name, hash := filepath.Base(path), sha256.New()
	if err := addPart(archive, name, info.Size(), io.TeeReader(file, hash)); err != nil {
		return err
	}
	c[name] = [sha256.Size]byte(hash.Sum(nil))
	return nil
}

// text returns c in the form of sha256sum, which "sha256sum -c" reads.
func (c checksums) text() []byte {
	var text []byte
	for _, name := range slices.Sorted(maps.Keys(c)) {
		text = append(text, c.line(name)...)
	}
	return text
}

func (c checksums) line(name string) string { return fmt.Sprintf("%x  %s\n", c[name], name) }

// verify returns an error if a file does not have the checksum that the backup lists. Backups
// of earlier releases have no checksums: then text is nil.
func (c checksums) verify(text []byte) error {
	if text == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if !bytes.Contains(text, []byte(c.line(name))) {
			return fault.New(fault.Invalid, "The backup was damaged after it was written: the SHA-256 of %s in it is not the one in its %s. Nothing was changed. Copy the backup again from where it was written, or restore another one.", name, backupSums)
		}
	}
	return nil
}

// Verify checks the backup in r as Restore does, without changing anything.
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

// open unpacks a backup into a new folder and checks its logs. The caller must remove the
// folder, which is "" if it could not be created.
func (b *backups) open(r io.Reader) (folder string, err error) {
	if folder, err = os.MkdirTemp(b.folder, ".stint-restore-*"); err != nil {
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

// Restore replaces everything by the backup in r. It changes nothing before it has read and
// verified the whole backup.
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
	// The catalog first: if something fails later, the restored policies and blocks still
	// apply. If the catalog cannot be read now, they apply as soon as it can.
	err = b.catalog.Reload(ctx)
	if err != nil {
		err = &fault.Error{Code: fault.Saved, Err: err, Message: "The backup is restored; do not restore it again. It is not in effect on this node yet, because the database could not be read afterwards. It takes effect as soon as it can be."}
	}
	// Timestamps in the logs that are newer than the backup are kept: without them the node
	// would allow more than its rules.
	if failed := b.memory.LoadFile(logs); failed != nil {
		err = &fault.Error{Code: fault.Saved, Err: errors.Join(failed, err), Message: "The database is restored and the logs of the backup are not, because they could not be read: keys may have more left than their rules say."}
	}
	if err != nil {
		return "", err
	}
	return "The database is that of the backup, and its logs are added to those of this node.", nil
}

// unpack writes the two files of a backup into folder. It fails if the archive
// contains another file or lacks one, or if a file has been damaged.
func unpack(archive *tar.Reader, folder string) error {
	missing, sums := map[string]bool{backupDatabase: true, backupLogs: true, backupSums: true}, checksums{}
	var expected []byte
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
		if header.Name == backupSums {
			if expected, err = readSums(archive); err != nil {
				return err
			}
			continue
		}
		if sums[header.Name], err = writePart(filepath.Join(folder, header.Name), archive, header.Size); err != nil {
			return err
		}
	}
	if missing[backupDatabase] || missing[backupLogs] {
		return notABackup()
	}
	return sums.verify(expected)
}

// maxSums is far more than the checksums of two files take, in bytes.
const maxSums = 4 << 10

// readSums reads the checksums of a backup. The result is never nil without an error.
func readSums(from io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxSums))
	if err != nil {
		return nil, notABackup()
	}
	return text, nil
}

func notABackup() error {
	return fault.New(fault.Invalid, "This is not a whole backup of Stint; nothing was changed. Give a file that \"backup\" wrote.")
}

// writePart writes one file of an archive and returns its SHA-256. It distinguishes errors of
// the file from errors of the archive: otherwise the operator of a full disk would look for
// another backup.
func writePart(path string, from io.Reader, size int64) (sum [sha256.Size]byte, err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return sum, db.FileError(err)
	}
	hash := sha256.New()
	if _, err := io.CopyN(file, io.TeeReader(from, hash), size); err != nil {
		file.Close()
		if _, ours := errors.AsType[*fs.PathError](err); ours {
			return sum, db.FileError(err)
		}
		return sum, notABackup()
	}
	return [sha256.Size]byte(hash.Sum(nil)), db.FileError(file.Close())
}
