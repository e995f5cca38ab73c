//go:build unix

package logfollow

import (
	"io/fs"
	"os"
	"syscall"
)

// identityOf returns what distinguishes a file from all others that exist.
func identityOf(info fs.FileInfo) identity {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return identity{uint64(stat.Dev), uint64(stat.Ino)} //nolint:unconvert // the types differ between systems
	}
	return identity{}
}

// lockFile fails if another process has locked the file. The lock ends with the process.
func lockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
