package operations

import (
	"context"
	"io"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
)

// Backups is the use case of backing up and restoring the embedded data.
type Backups struct {
	Store    BackupStore // nil on a node without embedded data
	Recorder audit.Recorder
	Now      func() time.Time
}

// BackupStore writes and restores the embedded data while the data is in use.
type BackupStore interface {
	// Backup writes all data to w in a consistent state.
	Backup(ctx context.Context, w io.Writer) error
	// Restore replaces all data with the backup in r, all or nothing, and describes the backup
	// in one sentence. It writes a record to the restored audit log.
	Restore(ctx context.Context, by audit.Actor, r io.Reader) (string, error)
	// Verify checks the backup in r as Restore does, without changing anything, and describes
	// its contents in sentences.
	Verify(ctx context.Context, r io.Reader) (string, error)
}

var errNoBackups = fault.New(fault.NotFound, "This node keeps its data in Redis and Postgres; back those up with their own tools.")

// Create records that a backup is read. It returns the backup's file name and the function that
// writes it.
func (b *Backups) Create(ctx context.Context, by admin.Caller) (name string, write func(context.Context, io.Writer) error, err error) {
	if b.Store == nil {
		return "", nil, errNoBackups
	}
	if err := b.Recorder.AddRecord(ctx, audit.Record{
		Actor: by.Actor, Action: "backup.read", Object: "backup", Summary: "Read a backup of all data.",
	}); err != nil {
		return "", nil, err
	}
	return "stint-" + b.Now().UTC().Format("20060102T150405Z") + ".backup", b.Store.Backup, nil
}

// Available returns an error if the node has no embedded data.
func (b *Backups) Available() error {
	if b.Store == nil {
		return errNoBackups
	}
	return nil
}

// Verify checks whether the backup in r could be restored, and describes its contents in
// sentences. It changes nothing.
func (b *Backups) Verify(ctx context.Context, r io.Reader) (detail string, err error) {
	if b.Store == nil {
		return "", errNoBackups
	}
	return b.Store.Verify(ctx, r)
}

// Restore replaces the embedded data with the backup in r, all or nothing. It returns when it
// did so, and a sentence that describes the backup.
func (b *Backups) Restore(ctx context.Context, by admin.Caller, r io.Reader) (at time.Time, detail string, err error) {
	if b.Store == nil {
		return time.Time{}, "", errNoBackups
	}
	detail, err = b.Store.Restore(ctx, by.Actor, r)
	return b.Now(), detail, err
}
