package machine

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// canGather returns an error if the kernel does not support MADV_COLLAPSE, like Linux before 6.1.
// The kernel checks the advice before the range, so an empty range is enough.
func canGather() error {
	if _, _, errno := unix.Syscall(unix.SYS_MADVISE, 0, 0, unix.MADV_COLLAPSE); errno != 0 {
		return fmt.Errorf("madvise: %w", errno)
	}
	return nil
}

// gather asks the kernel for huge pages in a range of memory. It returns an error if the kernel
// has no huge page to give, since more requests are then useless for now. It ignores other
// errors, which say nothing about other ranges.
func gather(start, length uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_MADVISE, start, length, unix.MADV_COLLAPSE); errno == unix.ENOMEM {
		return fmt.Errorf("madvise: %w", errno)
	}
	return nil
}

// pagesInUse sets the lowest bit of each element of pages to whether that page, counted from
// start, is in memory.
func pagesInUse(start uintptr, pages []byte) error {
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, start, uintptr(len(pages)*os.Getpagesize()), uintptr(unsafe.Pointer(unsafe.SliceData(pages)))) //nolint:gosec // the kernel fills them
	switch errno {
	case 0:
		return nil
	case unix.ENOMEM: // a part of the range no longer exists
		clear(pages)
		return nil
	}
	return fmt.Errorf("mincore: %w", errno)
}
