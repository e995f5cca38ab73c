package machine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"
)

// ErrNoHugePages says that the system cannot collapse memory into huge pages, or is configured
// not to.
var ErrNoHugePages = errors.New("no memory is gathered into huge pages")

const (
	// looseFrom is how much memory in normal pages makes it worthwhile to gather it, in bytes. A
	// node with few keys has less.
	looseFrom = 64 << 20
	// gatheredAtOnce and gatherShare limit the cost for checks: gathering takes one part in
	// gatherShare of one core, in steps of 3 to 20 ms. A page fault waits for one huge page at
	// most.
	gatheredAtOnce = 16 << 20
	gatherShare    = 8
	// maxHugePage is the largest supported size of a huge page, which is that of systems with
	// normal pages of 16 KiB. With normal pages of 64 KiB, huge ones have half a gigabyte.
	maxHugePage = 32 << 20
)

// HugePages makes the kernel gather memory of this process into huge pages. The zero value is
// ready to use.
//
// The processor translates addresses in a few thousand normal pages, which is 8 MB, quickly. For
// others it reads the page tables, which takes several reads from memory, and many on a virtual
// machine; see BenchmarkReads, and "10,000,000 keys" of make bench. A kernel whose setting is
// "always" gives huge pages to a growing process by itself. If the setting is "madvise", Go does
// not ask for any, because the kernel would then also fill huge pages that are hardly in use.
type HugePages struct {
	left int64 // bytes that the last Gather left in normal pages, which are not tried every time
}

// Gather gathers memory in normal pages into huge pages, if at most an eighth of each huge page
// is not in use. So memory grows by at most a seventh. It does nothing while Go's memory is near
// its limit. It retries what it has left only after another looseFrom bytes have accumulated. The
// error wraps ErrNoHugePages if there will never be huge pages.
func (h *HugePages) Gather(ctx context.Context) error {
	size, err := hugePageSize("/sys/kernel/mm/transparent_hugepage")
	if err != nil {
		return err
	}
	if err := canGather(); err != nil {
		return fmt.Errorf("%w: %w", ErrNoHugePages, err)
	}
	regions, loose, err := ownRegions()
	if err != nil {
		return err
	}
	if h.left = min(h.left, loose); loose < h.left+looseFrom || isNearLimit() {
		return nil
	}
	err = gatherIn(ctx, regions, size)
	if _, left, unread := ownRegions(); unread == nil {
		h.left = left
	}
	return err
}

func gatherIn(ctx context.Context, regions []region, size uintptr) error {
	for _, r := range regions {
		if r.resident-r.huge < int64(size) {
			continue
		}
		err := r.runs(size, uintptr(os.Getpagesize()), pagesInUse, func(start, length uintptr) error {
			began := time.Now()
			if err := gather(start, length); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After((gatherShare - 1) * time.Since(began)):
				return nil
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// isNearLimit reports whether Go uses three quarters of its memory limit. Go does not count what
// the kernel adds for huge pages.
func isNearLimit() bool {
	taken := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(taken)
	return taken[0].Value.Uint64()-taken[1].Value.Uint64() > uint64(debug.SetMemoryLimit(-1))/4*3 //nolint:gosec // not negative
}

// ownRegions returns the memory regions of the process, and how many bytes of them are in normal
// pages.
func ownRegions() (regions []region, loose int64, err error) {
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrNoHugePages, err)
	}
	defer file.Close()
	regions, err = readRegions(file)
	for _, r := range regions {
		loose += r.resident - r.huge
	}
	return regions, loose, err
}

// hugePageSize returns the size of a huge page according to the kernel's settings in a folder.
func hugePageSize(settings string) (uintptr, error) {
	enabled, err := os.ReadFile(settings + "/enabled")
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoHugePages, err)
	}
	if strings.Contains(string(enabled), "[never]") {
		return 0, fmt.Errorf("%w: %s/enabled is never", ErrNoHugePages, settings)
	}
	text, err := os.ReadFile(settings + "/hpage_pmd_size")
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoHugePages, err)
	}
	size, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil || size == 0 || size > maxHugePage {
		return 0, fmt.Errorf("%w: %s/hpage_pmd_size is %q", ErrNoHugePages, settings, text)
	}
	return uintptr(size), nil
}

// region is a region of the process's private memory, such as one of the heap.
type region struct {
	start, end     uintptr
	resident, huge int64 // bytes, in total and in huge pages
}

// readRegions reads the private memory regions without a file from a list like /proc/self/smaps.
func readRegions(from io.Reader) ([]region, error) {
	var all []region
	isOwn := false
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 5 && strings.Contains(fields[0], "-") {
			isOwn = fields[1] == "rw-p" && fields[4] == "0" && (len(fields) == 5 || strings.HasPrefix(fields[5], "[anon:"))
			if isOwn {
				var r region
				if _, err := fmt.Sscanf(fields[0], "%x-%x", &r.start, &r.end); err != nil {
					return nil, fmt.Errorf("a region of memory is %q: %w", fields[0], err)
				}
				all = append(all, r)
			}
			continue
		}
		if !isOwn || len(fields) < 2 {
			continue
		}
		var into *int64
		switch r := &all[len(all)-1]; fields[0] {
		case "Rss:":
			into = &r.resident
		case "AnonHugePages:":
			into = &r.huge
		default:
			continue
		}
		kB, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", fields[0], fields[1], err)
		}
		*into = kB << 10
	}
	return all, lines.Err()
}

// runs calls gather for each sequence of huge pages that are worth gathering, with at most
// gatheredAtOnce bytes at a time, or one huge page if that is larger.
func (r region) runs(size, page uintptr, inUse func(start uintptr, pages []byte) error, gather func(start, length uintptr) error) error {
	piece := max(gatheredAtOnce, size)
	pages := make([]byte, piece/page)
	for at := (r.start + size - 1) / size * size; at+size <= r.end; at += piece {
		length := min(piece, (r.end-at)/size*size)
		known := pages[:length/page]
		if err := inUse(at, known); err != nil {
			return err
		}
		from := uintptr(0)
		for to := uintptr(0); to <= length; to += size {
			if to < length && isWorthIt(known[to/page:(to+size)/page]) {
				continue
			}
			if to > from {
				if err := gather(at+from, to-from); err != nil {
					return err
				}
			}
			from = to + size
		}
	}
	return nil
}

// isWorthIt reports whether at most an eighth of the pages is not in use. The lowest bit of a
// page says whether it is in use.
func isWorthIt(pages []byte) bool {
	inUse := 0
	for _, p := range pages {
		inUse += int(p & 1)
	}
	return inUse >= len(pages)-len(pages)/8
}
