package machine

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// canGather returns an error where the kernel does not know how, as Linux before 6.1. It knows
// then what it is asked to do before it looks at what with: nothing.
func canGather() error {
	if _, _, errno := unix.Syscall(unix.SYS_MADVISE, 0, 0, unix.MADV_COLLAPSE); errno != 0 {
		return fmt.Errorf("madvise: %w", errno)
	}
	return nil
}

// gather asks the kernel for huge pages in a stretch of memory. Where it has none to give it
// says so: those behind need not be asked for now. What else keeps it from gathering a huge
// page says nothing about the others.
func gather(start, length uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_MADVISE, start, length, unix.MADV_COLLAPSE); errno == unix.ENOMEM {
		return fmt.Errorf("madvise: %w", errno)
	}
	return nil
}

// pagesInUse says of each page from start on whether it is in memory, in its lowest bit.
func pagesInUse(start uintptr, pages []byte) error {
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, start, uintptr(len(pages)*os.Getpagesize()), uintptr(unsafe.Pointer(unsafe.SliceData(pages)))) //nolint:gosec // the kernel fills them
	switch errno {
	case 0:
		return nil
	case unix.ENOMEM: // some of it is no longer there
		clear(pages)
		return nil
	}
	return fmt.Errorf("mincore: %w", errno)
}
