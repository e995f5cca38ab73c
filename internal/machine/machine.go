// Package machine says how much memory and how many files the process may use, and sees to
// how memory is used.
package machine

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Memory returns how many bytes of memory this process may use: those of the machine,
// or of the narrowest control group that it is in, as of a container or a systemd unit
// with MemoryMax. 0 where that is not known.
func Memory() int64 {
	limit := installed()
	for _, group := range limitsIn("/sys/fs/cgroup", "/proc/self/cgroup") {
		if limit == 0 || group < limit {
			limit = group
		}
	}
	return limit
}

// limitsIn returns the limits of the control groups of a process and of those around
// them, of version 2 and 1, below root. Within a container its own group is the root,
// whatever path list has.
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
		// "/" as the parent of a path that does not exist here is the container's own.
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

// readLimit reads a number of bytes; "max" is none.
func readLimit(path string) (int64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return limit, err == nil && limit > 0
}
