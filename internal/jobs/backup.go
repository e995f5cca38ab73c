package jobs

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-dev/stint/internal/atomicfile"
)

// Backupper writes a backup of the embedded data while the data is in use.
type Backupper interface {
	Backup(ctx context.Context, w io.Writer) error
}

// backupNames are the names of one node's backup files. The nodes of several installations may
// share a folder: each deletes only its own files.
type backupNames struct {
	node     string
	whole    *regexp.Regexp // complete backups; their names sort by time
	leftover *regexp.Regexp // incomplete backups
}

// maxNodeInFile bounds the part of the node's name in the names of files, in bytes.
const maxNodeInFile = 64

func newBackupNames(node string) backupNames {
	node = strings.Map(func(r rune) rune {
		if r == '.' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, node)
	node = node[:min(len(node), maxNodeInFile)]
	whole := `stint-` + regexp.QuoteMeta(node) + `-[0-9]{8}T[0-9]{6}Z\.backup`
	return backupNames{node: node, whole: regexp.MustCompile(`^` + whole + `$`), leftover: atomicfile.Leftovers(whole)}
}

// LastBackup returns when the newest backup of a node in a folder was due, zero if there is none
// or the folder cannot be read.
func LastBackup(folder, node string) (due time.Time) {
	names := newBackupNames(node)
	files, _ := names.in(folder, names.whole)
	if len(files) > 0 {
		name := strings.TrimSuffix(files[len(files)-1].Name(), ".backup")
		due, _ = time.Parse(backupTime, name[strings.LastIndexByte(name, '-')+1:]) // as names.whole has it
	}
	return due
}

// backupTime is the form of the time in the names of backups.
const backupTime = "20060102T150405Z"

// at returns the name of a backup.
func (n backupNames) at(due time.Time) string {
	return "stint-" + n.node + "-" + due.UTC().Format(backupTime) + ".backup"
}

// in returns the files in a folder that match a pattern, by name.
func (n backupNames) in(folder string, pattern *regexp.Regexp) ([]os.DirEntry, error) {
	files, err := os.ReadDir(folder)
	return slices.DeleteFunc(files, func(f os.DirEntry) bool { return !f.Type().IsRegular() || !pattern.MatchString(f.Name()) }), err
}

// removeLeftovers removes the incomplete files that a killed process left in a folder. It
// ignores errors: if the folder cannot be read, the backup itself fails.
func (n backupNames) removeLeftovers(folder string) {
	left, _ := n.in(folder, n.leftover)
	for _, f := range left {
		_ = os.Remove(filepath.Join(folder, f.Name()))
	}
}

// BackUpJob is the name of the job that BackUp returns.
const BackUpJob = "back-up"

// BackUp returns the job that writes a backup of a node into folder and then deletes the node's
// oldest backups, so that keep are left. A backup gets its final name only when it is complete.
func BackUp(data Backupper, node, folder string, keep int) Job {
	names := newBackupNames(node)
	var cleaned sync.Once // only a process that was killed leaves incomplete files
	return Job{
		Name: BackUpJob, Help: "Writes a backup of the embedded data into --backup-dir and deletes all but the newest of its backups there.",
		Schedule: "30 2 * * *", MakeUp: true,
		Run: func(ctx context.Context, due time.Time) (string, error) {
			name := names.at(due)
			cleaned.Do(func() { names.removeLeftovers(folder) })
			size, err := writeBackup(ctx, data, folder, name)
			if err != nil {
				return "", fmt.Errorf("write a backup into --backup-dir: %w", err)
			}
			deleted, err := deleteBackups(folder, keep, names)
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
	err = atomicfile.Write(filepath.Join(folder, name), 0o600, func(file *os.File) error {
		if err := data.Backup(ctx, file); err != nil {
			return err
		}
		info, err := file.Stat()
		if err == nil {
			size = info.Size()
		}
		return err
	})
	return size, err
}

// deleteBackups deletes all but the newest keep backups of a node.
func deleteBackups(folder string, keep int, names backupNames) (deleted int, err error) {
	files, err := names.in(folder, names.whole)
	if err != nil {
		return 0, err
	}
	for len(files) > keep {
		if err := os.Remove(filepath.Join(folder, files[0].Name())); err != nil {
			return deleted, err
		}
		deleted++
		files = files[1:]
	}
	return deleted, nil
}
