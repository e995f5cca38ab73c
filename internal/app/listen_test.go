package app

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestOneSocketOfANameIsTakenAndTwoAreAnError(t *testing.T) {
	for names, want := range map[string]int{
		"listen": 3, "admin-listen:listen": 4, "admin-listen": 0, "admin-listen:admin-listen:listen": 0, // the third is not passed
		"listen:listen": -1,
	} {
		env := map[string]string{"LISTEN_FDS": "2", "LISTEN_FDNAMES": names, "LISTEN_PID": strconv.Itoa(os.Getpid())}
		fd, err := passedSocket("listen", func(name string) string { return env[name] })
		switch {
		case want < 0 && (err == nil || !strings.HasPrefix(err.Error(), "--listen: ") || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: %v", names, err)
		case want >= 0 && (fd != want || err != nil):
			t.Errorf("%s: %d, %v, want %d", names, fd, err, want)
		}
	}
}
