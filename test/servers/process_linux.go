package servers

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// dieWithParent has the kernel kill the process when the thread that forks it
// ends, and so even when the test binary is killed. SIGQUIT ends redis-server,
// and Postgres with all its children.
func dieWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGQUIT }

// childrenOf returns the processes whose parent is pid.
func childrenOf(pid int) []int {
	var children []int
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		candidate, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if _, parent := stateOf(candidate); parent == strconv.Itoa(pid) {
			children = append(children, candidate)
		}
	}
	return children
}

// IsStopped reports whether SIGSTOP has taken effect on all threads of pid.
func IsStopped(pid int) bool {
	path := "/proc/" + strconv.Itoa(pid) + "/task/"
	threads, err := os.ReadDir(path)
	for _, thread := range threads {
		if state, _ := readStat(path + thread.Name()); state != "T" && state != "" { // "": it has ended
			return false
		}
	}
	return err == nil && len(threads) > 0
}

// hasEnded reports whether pid has ended; its parent may not have waited for it yet.
func hasEnded(pid int) bool {
	state, _ := stateOf(pid)
	return state == "" || state == "Z"
}

// stateOf returns the state of pid and its parent, both empty once it has ended.
func stateOf(pid int) (state, parent string) { return readStat("/proc/" + strconv.Itoa(pid)) }

// readStat returns the state and the parent of the process or thread of a folder of /proc.
func readStat(folder string) (state, parent string) {
	stat, err := os.ReadFile(folder + "/stat")
	if err != nil {
		return "", ""
	}
	// The name is in parentheses and may contain anything; the state and the
	// parent follow it.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return "", ""
	}
	return string(fields[0]), string(fields[1])
}

// holdPort returns a free port that the system gives to no other process until release, on any
// IPv4 address, as some servers listen on all: a socket that does not listen is bound to it, which
// stops none that is given this port and sets SO_REUSEADDR, as servers do, from listening there.
func holdPort() (port int, release func(), err error) {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, err
	}
	release = func() { _ = syscall.Close(socket) }
	err = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err == nil {
		err = syscall.Bind(socket, &syscall.SockaddrInet4{})
	}
	if err == nil {
		var bound syscall.Sockaddr
		if bound, err = syscall.Getsockname(socket); err == nil {
			if address, ok := bound.(*syscall.SockaddrInet4); ok {
				return address.Port, release, nil
			}
			err = fmt.Errorf("an IPv4 socket is bound to %v", bound)
		}
	}
	release()
	return 0, nil, err
}
