//go:build amd64 || arm64

package socket

import (
	"syscall"
	"unsafe"
)

const isSupported = true

// receive reads available bytes. isEmpty means that nothing was received; otherwise 0 bytes
// mean the end or an error.
func receive(fd uintptr, p []byte) (n int, isEmpty bool) {
	got, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), syscall.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno == syscall.EAGAIN
	}
	return int(got), false
}

// send sends as much of p as the socket's buffer can hold. It returns 0 after an error.
func send(fd uintptr, p []byte) int {
	sent, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(sent)
}

// isEmpty reports whether nothing was received, neither bytes nor the end nor an error.
func isEmpty(fd uintptr) bool {
	var p [1]byte
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&p)), uintptr(len(p)), syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
	return errno == syscall.EAGAIN
}
