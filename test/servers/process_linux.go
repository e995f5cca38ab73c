package servers

import (
	"bytes"
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

// isStopped reports whether SIGSTOP has taken effect on pid.
func isStopped(pid int) bool {
	state, _ := stateOf(pid)
	return state == "T"
}

// stateOf returns the state of pid and its parent, both empty once it has ended.
func stateOf(pid int) (state, parent string) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
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
