package memlog

import (
	"syscall"
	"time"
)

// Fast path. Plain version: time.Now. It also reads the monotonic clock, which a log does not
// use because its entries are milliseconds of the wall clock. Benchmark: BenchmarkClock, 0.55
// of the time. Only on amd64 does syscall read the clock without a system call.

// wallClock returns the present time without a monotonic clock reading.
func wallClock() time.Time {
	var now syscall.Timeval
	if syscall.Gettimeofday(&now) != nil {
		return time.Now()
	}
	return time.Unix(now.Sec, now.Usec*int64(time.Microsecond))
}
