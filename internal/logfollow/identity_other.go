//go:build !unix

package logfollow

import (
	"errors"
	"io/fs"
	"os"
)

// identityOf returns nothing: files are not identified by numbers on this system.
func identityOf(fs.FileInfo) identity { return identity{} }

// lockFile fails: rotation cannot be followed without the identity of files.
func lockFile(*os.File) error {
	return errors.New("following logs needs a Unix system")
}
