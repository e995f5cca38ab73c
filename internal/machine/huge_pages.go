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

// ErrNoHugePages says that the system gathers no memory into huge pages: it cannot, or it is
// set not to.
var ErrNoHugePages = errors.New("no memory is gathered into huge pages")

const (
	// looseFrom is how much memory in usual pages is worth gathering, in bytes. A node with
	// few keys has less, and is left alone.
	looseFrom = 64 << 20
	// gatheredAtOnce and gatherShare bound what gathering takes from the checks: one part in so
	// many of one core, in pieces of 3 to 20 ms. A new page waits for one huge page at most.
	gatheredAtOnce = 16 << 20
	gatherShare    = 8
	// maxHugePage is the largest size of a huge page that this is for, that of a system whose
	// usual ones have 16 KiB. Where these have 64 KiB, huge ones have half a gigabyte.
	maxHugePage = 32 << 20
)

// HugePages has the kernel gather memory of this process into huge pages. The zero value is
// ready.
//
// The processor finds an address in a few thousand usual pages quickly, those of 8 MB, and looks
// into the page tables for others: several reads from memory, on a virtual machine many; see
// BenchmarkReads, and "10,000,000 keys" of make bench. A kernel whose setting is "always" gives a
// process that grows huge pages by itself. Where it is "madvise" Go asks for none, since the
// kernel then also fills those that are hardly in use.
type HugePages struct {
	left int64 // what the last time left in usual pages, which is not tried again and again
}

// Gather gathers what is in usual pages and worth it, as far as at most an eighth of each huge
// page is not in use: memory grows by a seventh at worst. It does nothing while Go's memory is
// near its limit, and tries what it has left once more when looseFrom has come. The error wraps
// ErrNoHugePages where there never will be any.
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

// isNearLimit reports whether Go has taken three quarters of its memory limit. What the kernel
// adds to huge pages does not count there.
func isNearLimit() bool {
	taken := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(taken)
	return taken[0].Value.Uint64()-taken[1].Value.Uint64() > uint64(debug.SetMemoryLimit(-1))/4*3 //nolint:gosec // not negative
}

// ownRegions returns the regions of the process, and how much of them is in usual pages.
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

// hugePageSize returns the size of a huge page by the kernel's settings in a folder.
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

// region is a piece of the process's own memory, as one with the heap.
type region struct {
	start, end     uintptr
	resident, huge int64 // bytes, in all and in huge pages
}

// readRegions reads the private memory that belongs to no file from a list like
// /proc/self/smaps.
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

// runs calls gather with each stretch of huge pages that are worth it, at most gatheredAtOnce at
// a time.
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

// isWorthIt reports whether at most an eighth of the pages are not in use, by their lowest bits.
func isWorthIt(pages []byte) bool {
	inUse := 0
	for _, p := range pages {
		inUse += int(p & 1)
	}
	return inUse >= len(pages)-len(pages)/8
}
