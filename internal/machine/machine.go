// Package machine reports how much memory and how many files the process may use, and tunes how
// it uses memory.
package machine

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Memory returns how many bytes of memory this process may use: the memory of the machine, or the
// lowest limit of its control groups, such as that of a container or of a systemd unit with
// MemoryMax. 0 if it is not known.
func Memory() int64 {
	limit := installed()
	for _, group := range limitsIn("/sys/fs/cgroup", "/proc/self/cgroup") {
		if limit == 0 || group < limit {
			limit = group
		}
	}
	return limit
}

// limitsIn returns the limits of the control groups of a process and of their parents below root,
// for version 1 and 2. Within a container the container's own group is the root, whatever path
// list has.
func limitsIn(root, list string) []int64 {
	text, err := os.ReadFile(list)
	if err != nil {
		return nil
	}
	var limits []int64
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		folder, file := root, "memory.max"
		switch fields[1] {
		case "": // version 2
		case "memory":
			folder, file = filepath.Join(root, "memory"), "memory.limit_in_bytes"
		default:
			continue
		}
		// If the path does not exist here, its ancestor "/" is the container's own group.
		for path := filepath.Clean("/" + fields[2]); ; path = filepath.Dir(path) {
			if limit, ok := readLimit(filepath.Join(folder, path, file)); ok {
				limits = append(limits, limit)
			}
			if path == "/" {
				break
			}
		}
	}
	return limits
}

// readLimit reads a number of bytes. "max" is no limit.
func readLimit(path string) (int64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return limit, err == nil && limit > 0
}
