//go:build unix

package logfollow

import (
	"io/fs"
	"syscall"
)

// identityOf returns what distinguishes a file from all others that exist.
func identityOf(info fs.FileInfo) identity {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return identity{uint64(stat.Dev), uint64(stat.Ino)} //nolint:unconvert // the types differ between systems
	}
	return identity{}
}
