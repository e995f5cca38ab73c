package machine

import "golang.org/x/sys/unix"

// MaxFiles returns how many files and connections this process may have open, 0 if that is not
// known.
func MaxFiles() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(limit.Cur, 1<<30)) //nolint:gosec // bounded
}

// installed returns the memory of the machine, 0 if it is not known.
func installed() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram * uint64(info.Unit)) //nolint:gosec // no machine has so much
}
