//go:build !linux

package machine

// MaxFiles returns how many files and connections this process may have open, 0 if that is not
// known.
func MaxFiles() int { return 0 }

// installed returns the memory of the machine, 0 if it is not known.
func installed() int64 { return 0 }
