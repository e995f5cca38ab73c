package machine

import "golang.org/x/sys/unix"

// installed returns the memory of the machine, 0 where it is not known.
func installed() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram * uint64(info.Unit)) //nolint:gosec // no machine has so much
}
