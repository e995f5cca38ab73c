package recorder

import (
	"testing"
	"unsafe"
)

func TestReusedEntryIsEmpty(t *testing.T) {
	top := newTopk[int, int](8)
	insert := func(k int) *entry[int, int] {
		return top.insert(uint64(k), k, func(*entry[int, int]) {}, func(v *int) { *v = 0 })
	}
	for k := range 100 {
		e := insert(k)
		if want := (entry[int, int]{key: k, hash: uint64(k)}); *e != want {
			t.Fatalf("the entry of key %d begins as %+v", k, *e)
		}
		e.certain, e.over, e.pending, e.row, e.offends, e.value = uint32(k), 1, 1, true, true, 1
	}
	if len(top.entries)+len(top.free) > 8 {
		t.Errorf("there are %d used and %d free entries, want at most 8", len(top.entries), len(top.free))
	}
}

// In a flood of new keys the access to their entries dominates; see BenchmarkRecord.
func TestTrafficEntryFitsACacheLine(t *testing.T) {
	if size := unsafe.Sizeof(trafficEntry{}); size != 64 {
		t.Errorf("a trafficEntry has %d bytes, want a cache line of 64", size)
	}
}
