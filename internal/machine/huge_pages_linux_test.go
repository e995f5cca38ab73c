package machine

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
)

// own returns the size of the process's own memory in bytes, in total and in huge pages.
func own(t *testing.T) (resident, huge int64) {
	t.Helper()
	regions, _, err := ownRegions()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range regions {
		resident, huge = resident+r.resident, huge+r.huge
	}
	return resident, huge
}

// gatherAll gathers, and returns false if the system has no huge pages, or none available now.
func gatherAll(t *testing.T) bool {
	t.Helper()
	err := new(HugePages).Gather(t.Context())
	if err != nil {
		t.Logf("Gather on this system: %v", err)
	}
	return err == nil
}

func TestGatherUsesHugePagesAndKeepsTheContent(t *testing.T) {
	data := make([]byte, 3*looseFrom)
	for i := range data {
		data[i] = byte(i * 31 >> 3)
	}
	are := gatherAll(t)
	resident, huge := own(t)
	if are && huge < 2*looseFrom {
		t.Errorf("%d of %d MB are in huge pages", huge>>20, resident>>20)
	}
	for i := range data {
		if data[i] != byte(i*31>>3) {
			t.Fatalf("byte %d has changed", i)
		}
	}
	gatherAll(t)
	if _, again := own(t); again < huge {
		t.Errorf("after a second Gather %d MB are in huge pages, want at least %d", again>>20, huge>>20)
	}
}

// If half of the memory is in use, the rest must not become resident.
func TestUnusedMemoryIsNotGathered(t *testing.T) {
	const piece = 1 << 20
	pieces := make([][]byte, 6*looseFrom/piece)
	for i := range pieces {
		pieces[i] = make([]byte, piece)
		for at := 0; at < piece; at += 1 << 10 {
			pieces[i][at] = 1
		}
	}
	for i := 0; i < len(pieces); i += 2 {
		pieces[i] = nil
	}
	debug.FreeOSMemory()
	before, _ := own(t)
	gatherAll(t)
	if after, _ := own(t); after > before+8*piece {
		t.Errorf("%d MB were resident and now %d are", before>>20, after>>20)
	}
	runtime.KeepAlive(pieces)
}

// Memory that Gather left out is not tried again, and nothing is tried near Go's memory limit.
func TestGatherSkipsWhatWasTriedAndStopsNearTheMemoryLimit(t *testing.T) {
	debug.FreeOSMemory() // otherwise the data might be in huge pages of earlier tests
	data := make([]byte, 3*looseFrom)
	for i := range data {
		data[i] = 1
	}
	_, before := own(t)
	tried := HugePages{left: 1 << 50} // that is, all memory
	if err := tried.Gather(t.Context()); err != nil && !errors.Is(err, ErrNoHugePages) {
		t.Error(err)
	}
	limit := debug.SetMemoryLimit(4 * looseFrom)
	if err := new(HugePages).Gather(t.Context()); err != nil && !errors.Is(err, ErrNoHugePages) {
		t.Error(err)
	}
	debug.SetMemoryLimit(limit)
	// If the setting is "always", the kernel also gathers by itself.
	if enabled, _ := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled"); !bytes.Contains(enabled, []byte("[always]")) {
		if _, after := own(t); after > before+8<<20 {
			t.Errorf("%d MB were in huge pages and now %d are", before>>20, after>>20)
		}
	}
	runtime.KeepAlive(data)
}

// BenchmarkReads reads a gigabyte in random order, in which each read depends on the one before,
// with the memory in normal and in huge pages.
func BenchmarkReads(b *testing.B) {
	data := make([]uint32, 1<<28)
	at := uint32(1)
	for range data {
		at = at*1664525 + 1013904223 // visits all of 2^32, and so each index 16 times
		data[at>>4] = at
	}
	for _, pages := range []string{"usual", "huge"} {
		b.Run(pages, func(b *testing.B) {
			if pages == "huge" {
				if err := new(HugePages).Gather(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			at := uint32(1)
			for b.Loop() {
				at = at*1664525 + 1013904223 + data[at>>4]&1
			}
			data[0] = at
		})
	}
}
