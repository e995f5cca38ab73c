//go:build unix && !linux

package servers

import (
	"bytes"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent can ask for nothing here: a killed test binary leaves its
// servers behind.
func dieWithParent(*syscall.SysProcAttr) {}

// folderInMemory knows no folder in memory here.
func folderInMemory() (string, error) { return "", nil }

// childrenOf returns the processes whose parent is pid.
func childrenOf(pid int) []int {
	output, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil
	}
	var children []int
	for line := range bytes.Lines(output) {
		fields := bytes.Fields(line)
		if len(fields) != 2 || string(fields[1]) != strconv.Itoa(pid) {
			continue
		}
		if child, err := strconv.Atoi(string(fields[0])); err == nil {
			children = append(children, child)
		}
	}
	return children
}

// IsStopped reports whether SIGSTOP has taken effect on pid.
func IsStopped(pid int) bool { return strings.HasPrefix(stateOf(pid), "T") }

// hasEnded reports whether pid has ended; its parent may not have waited for it yet.
func hasEnded(pid int) bool {
	state := stateOf(pid)
	return state == "" || strings.HasPrefix(state, "Z")
}

// stateOf returns the state of pid, empty once it has ended.
func stateOf(pid int) string {
	output, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(output))
}

// holdPort returns a port of 127.0.0.1 that was free a moment ago. Another process may take it.
func holdPort() (port int, release func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, nil, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, func() {}, nil
}
