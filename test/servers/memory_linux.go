package servers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	// memoryFolder is where Linux keeps files in memory.
	memoryFolder = "/dev/shm"
	// memoryNeeded is how many bytes must be free there. In a container there
	// are often no more than 64 MiB.
	memoryNeeded = 3 << 30

	folderPrefix = "stint-tests-"

	tmpfsMagic = 0x01021994
	noExec     = 0x8 // a flag of statfs: programs there may not be started
)

// folderInMemory makes a folder in memory for the temporary files of this
// process, "" where there is no room for it.
func folderInMemory() (string, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(memoryFolder, &s); err != nil || s.Type != tmpfsMagic || s.Flags&noExec != 0 || s.Bavail*uint64(s.Bsize) < memoryNeeded {
		return "", nil //nolint:nilerr // without such a folder the files are on disk
	}
	removeAbandoned()
	dir, err := os.MkdirTemp(memoryFolder, fmt.Sprintf("%s%d-", folderPrefix, os.Getpid()))
	if err != nil {
		return "", nil //nolint:nilerr // as above
	}
	return dir, os.Chmod(dir, 0o711) // Postgres runs as another user
}

// removeAbandoned removes the folders of test binaries that were killed.
func removeAbandoned() {
	found, err := filepath.Glob(filepath.Join(memoryFolder, folderPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range found {
		text, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), folderPrefix), "-")
		if pid, err := strconv.Atoi(text); err == nil && pid > 0 && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			os.RemoveAll(dir)
		}
	}
}
