package servers

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// steppedClock is preloaded into a server: its clock is ahead of the real one by
// the nanoseconds that a file says, which it maps. It allocates nothing, since
// Redis's allocator asks for the time before it can serve.
const steppedClock = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *ahead;

__attribute__((constructor)) static void begin(void) {
	const char *path = getenv("STINT_TEST_CLOCK");
	int f = path ? open(path, O_RDONLY) : -1;
	if (f < 0) return;
	void *m = mmap(0, sizeof *ahead, PROT_READ, MAP_SHARED, f, 0);
	if (m != MAP_FAILED) ahead = m;
	close(f);
}

int clock_gettime(clockid_t id, struct timespec *t) {
	int failed = syscall(SYS_clock_gettime, id, t);
	if (!failed && ahead && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
		long long n = t->tv_sec * 1000000000LL + t->tv_nsec + *ahead;
		t->tv_sec = n / 1000000000LL;
		t->tv_nsec = n % 1000000000LL;
	}
	return failed;
}

int gettimeofday(struct timeval *restrict v, void *restrict zone) {
	struct timespec t;
	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &t)) return -1;
	v->tv_sec = t.tv_sec;
	v->tv_usec = t.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *to) {
	struct timespec t;
	if (clock_gettime(CLOCK_REALTIME, &t)) return -1;
	if (to) *to = t.tv_sec;
	return t.tv_sec;
}
`

// RedisWithClock returns a private Redis whose clock StepClock can move. It
// needs a C compiler, as the race detector does.
func RedisWithClock(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	dir := t.TempDir()
	source, library, file := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so"), filepath.Join(dir, "clock")
	for path, text := range map[string][]byte{source: []byte(steppedClock), file: make([]byte, 8)} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if output, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", library, source).CombinedOutput(); err != nil {
		t.Fatalf("the clock of Redis cannot be built; it needs cc, a C compiler: %v\n%s", err, output)
	}
	return dedicatedRedis(t, file, []string{"env", "LD_PRELOAD=" + library, "STINT_TEST_CLOCK=" + file}, args...)
}

// StepClock sets how far the clock of a server of RedisWithClock is ahead of
// the real one; negative is behind.
func (s *RedisServer) StepClock(ahead time.Duration) {
	s.t.Helper()
	f, err := os.OpenFile(s.clockFile, os.O_WRONLY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(ahead)), 0); err != nil {
		s.t.Fatal(err)
	}
}
