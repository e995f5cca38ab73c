package jobs

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// Backupper writes a backup of the embedded data while it is in use.
type Backupper interface {
	Backup(ctx context.Context, w io.Writer) error
}

// backupFile matches the names of the backups that the job writes, which are in the
// order of their times. It deletes no other file.
var backupFile = regexp.MustCompile(`^stint-[0-9]{8}T[0-9]{6}Z\.backup$`)

// BackUp returns the job that writes a backup into folder and then deletes its oldest
// ones, so that keep are left. A backup has its name only once it is whole.
func BackUp(data Backupper, folder string, keep int) Job {
	return Job{
		Name: "back-up", Help: "Writes a backup of the embedded data into --backup-dir and deletes all but the newest of its backups there.",
		Schedule: "30 2 * * *", MakeUp: true,
		Run: func(ctx context.Context, due time.Time) (string, error) {
			name := "stint-" + due.UTC().Format("20060102T150405Z") + ".backup"
			size, err := writeBackup(ctx, data, folder, name)
			if err != nil {
				return "", fmt.Errorf("write a backup into --backup-dir: %w", err)
			}
			deleted, err := deleteBackups(folder, keep)
			did := fmt.Sprintf("wrote %s, %d bytes, and deleted %d older ones", name, size, deleted)
			if err != nil {
				return did, fmt.Errorf("delete old backups: %w", err)
			}
			return did, nil
		},
	}
}

// writeBackup writes one backup, which other users cannot read.
func writeBackup(ctx context.Context, data Backupper, folder, name string) (size int64, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return 0, err
	}
	// What a process that was killed left behind; one node at a time runs the job.
	for _, left := range leftovers(folder) {
		_ = os.Remove(left)
	}
	file, err := os.CreateTemp(folder, ".stint-backup-*")
	if err != nil {
		return 0, err
	}
	defer os.Remove(file.Name()) // it is gone by then unless something failed
	defer file.Close()
	if err := data.Backup(ctx, file); err != nil {
		return 0, err
	}
	if err := file.Sync(); err != nil {
		return 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), os.Rename(file.Name(), filepath.Join(folder, name))
}

// leftovers returns the incomplete backups of a folder, none where it cannot be read.
func leftovers(folder string) []string {
	found, _ := filepath.Glob(filepath.Join(folder, ".stint-backup-*"))
	return found
}

// deleteBackups deletes all but the newest keep backups of a folder.
func deleteBackups(folder string, keep int) (deleted int, err error) {
	files, err := os.ReadDir(folder) // sorted by name, and so by time
	if err != nil {
		return 0, err
	}
	files = slices.DeleteFunc(files, func(f os.DirEntry) bool { return !f.Type().IsRegular() || !backupFile.MatchString(f.Name()) })
	for len(files) > keep {
		if err := os.Remove(filepath.Join(folder, files[0].Name())); err != nil {
			return deleted, err
		}
		deleted++
		files = files[1:]
	}
	return deleted, nil
}
