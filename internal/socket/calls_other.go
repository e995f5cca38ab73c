//go:build !linux || (!amd64 && !arm64)

package socket

const isSupported = false

func receive(uintptr, []byte) (n int, isEmpty bool) { return 0, false }

func send(uintptr, []byte) int { return 0 }

func isEmpty(uintptr) bool { return false }
