package machine

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestLimitsOfAllControlGroupsAreRead(t *testing.T) {
	cases := []struct {
		name, list string
		files      map[string]string
		want       []int64
	}{
		{"version 2, a unit of systemd", "0::/system.slice/stint.service\n",
			map[string]string{"system.slice/stint.service/memory.max": "2000\n", "system.slice/memory.max": "max\n", "memory.max": "5000"}, []int64{2000, 5000}},
		{"version 2, in a container, whose path is not here", "0::/../docker/abc\n", map[string]string{"memory.max": "1000\n"}, []int64{1000}},
		{"version 1", "5:cpu,cpuacct:/a\n4:memory:/a/b\n", map[string]string{"memory/a/b/memory.limit_in_bytes": "700", "memory/memory.limit_in_bytes": "9223372036854771712"},
			[]int64{700, 9223372036854771712}},
		{"no limit", "0::/\n", map[string]string{"memory.max": "max\n"}, nil},
		{"no control groups", "", nil, nil},
		{"damaged", "what\n0::/a", map[string]string{"a/memory.max": "many"}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range c.files {
				write(t, filepath.Join(root, name), text)
			}
			list := filepath.Join(t.TempDir(), "cgroup")
			write(t, list, c.list)
			if got := limitsIn(root, list); !slices.Equal(got, c.want) {
				t.Errorf("limitsIn() = %v, want %v", got, c.want)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestMemoryIsAtMostTheInstalledMemory(t *testing.T) {
	if n := Memory(); installed() > 0 && (n <= 0 || n > installed()) {
		t.Errorf("Memory() = %d, want more than 0 and at most the installed %d", n, installed())
	}
}
