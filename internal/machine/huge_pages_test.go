package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRegionsAreParsedFromTheKernelsList(t *testing.T) {
	const list = `00400000-02100000 r-xp 00000000 fe:00 1234                               /usr/bin/stint-server
Rss:               20000 kB
AnonHugePages:         0 kB
2603d2000000-260473000000 rw-p 00000000 00:00 0
Size:            2637824 kB
Rss:             2500000 kB
AnonHugePages:   2048000 kB
VmFlags: rd wr mr mw me ac sd
2604d2000000-260573000000 ---p 00000000 00:00 0
7fc471000000-7fc473000000 rw-p 00000000 00:00 0                          [anon: Go: heap]
Rss:                 512 kB
AnonHugePages:         0 kB
7fc475000000-7fc476000000 rw-p 00000000 00:00 0                          [stack]
Rss:                 100 kB
7fc477000000-7fc478000000 rw-p 00000000 fe:00 99                         /data/stint.db-shm
Rss:                 200 kB
`
	got, err := readRegions(strings.NewReader(list))
	want := []region{
		{0x2603d2000000, 0x260473000000, 2500000 << 10, 2048000 << 10},
		{0x7fc471000000, 0x7fc473000000, 512 << 10, 0},
	}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

func TestKernelSettingDecidesAboutHugePages(t *testing.T) {
	for name, test := range map[string]struct {
		enabled, size string
		want          uintptr // 0 for none
	}{
		"always":         {"[always] madvise never", "2097152\n", 2 << 20},
		"madvise":        {"always [madvise] never", "2097152\n", 2 << 20},
		"never":          {"always madvise [never]", "2097152\n", 0},
		"far too large":  {"[always] madvise never", "536870912\n", 0},
		"no number":      {"[always] madvise never", "huge", 0},
		"without a size": {"[always] madvise never", "", 0},
		"no such kernel": {"", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{"enabled": test.enabled, "hpage_pmd_size": test.size} {
				if text == "" {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := hugePageSize(dir)
			if got != test.want || errors.Is(err, ErrNoHugePages) != (test.want == 0) {
				t.Errorf("got %d, %v, want %d", got, err, test.want)
			}
		})
	}
}

// Only huge pages that are nearly complete are gathered, in pieces of limited size.
func TestRunsIncludesOnlyHugePagesInUse(t *testing.T) {
	const size, page = 2 << 20, 4 << 10
	calls := 0
	all := func(_ uintptr, pages []byte) error {
		for i := range pages {
			pages[i] = 1
		}
		return nil
	}
	if err := (region{end: 96 << 20}).runs(32<<20, 16<<10, all, func(uintptr, uintptr) error { calls++; return nil }); err != nil || calls != 3 {
		t.Errorf("three huge pages larger than a piece took %d calls, want 3; %v", calls, err)
	}
	for name, test := range map[string]struct {
		start, end uintptr
		missing    []uintptr // at each of these addresses begin 65 pages that are not in use
		want       string    // start and length in huge pages
	}{
		"the whole huge pages of a region":        {size + page, 5*size - page, nil, "[2+2]"},
		"less than one":                           {size + page, 3*size - page, nil, "[]"},
		"some pages are missing":                  {0, 4 * size, []uintptr{2*size + 7*page}, "[0+2 3+1]"},
		"a few pages are missing in each of two":  {0, 2 * size, []uintptr{size - 32*page}, "[0+2]"},
		"the last pages of the first are missing": {0, 2 * size, []uintptr{size - 65*page}, "[1+1]"},
		"more than a piece":                       {0, 20 * size, nil, "[0+8 8+8 16+4]"},
		"missing pages at the ends of pieces":     {0, 10 * size, []uintptr{7 * size, 9*size + page}, "[0+7 8+1]"},
	} {
		t.Run(name, func(t *testing.T) {
			got := []string{}
			err := region{start: test.start, end: test.end}.runs(size, page, func(start uintptr, pages []byte) error {
				for i := range pages {
					pages[i] = 1
					for _, missing := range test.missing {
						if at := start + uintptr(i)*page; at >= missing && at < missing+65*page {
							pages[i] = 0
						}
					}
				}
				return nil
			}, func(start, length uintptr) error {
				got = append(got, fmt.Sprintf("%d+%d", start/size, length/size))
				return nil
			})
			if err != nil || fmt.Sprint(got) != test.want {
				t.Errorf("gathered %v, %v, want %s", got, err, test.want)
			}
		})
	}
}
