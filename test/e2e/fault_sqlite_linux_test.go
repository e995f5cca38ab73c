package e2e_test

import "golang.org/x/sys/unix"

func init() {
	limitFiles = func(w *world, most uint64) {
		w.Helper()
		limit := unix.Rlimit{Cur: most, Max: unix.RLIM_INFINITY}
		if err := unix.Prlimit(w.nodes[0].cmd.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
			w.Fatal(err)
		}
	}
}
