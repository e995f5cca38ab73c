//go:build !unix

package filelock

import (
	"errors"
	"os"
)

// Lock fails: files are locked on Unix systems only.
func Lock(*os.File) error { return errors.New("locking files needs a Unix system") }
