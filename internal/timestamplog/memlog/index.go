package memlog

import (
	"hash/maphash"
	"iter"
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// index finds a log by the hash of its LogID, which is needed to choose the shard
// anyway. It is a hash table with linear probing whose logs are sorted by hash: the hash
// gives the first slot in which its log may be, in proportion to its size, and logs that
// need the same slot follow each other. So a search for a log that is not there ends
// early, and a walk through the index can go on at a hash after the index has changed.
// Call clear before use.
//
// Fast path. Plain version: map[timestamplog.LogID]*keyLog, in plain_test.go.
// Benchmark: BenchmarkIndex, half of the time or less, and 19 to 24 bytes for a key instead
// of 63. They are a fifth of what a log with one entry takes, which is 121 bytes by
// BenchmarkMemory.
type index struct {
	slots []slot // the last one is empty
	// places is how many slots a hash can map to. Some more slots follow, for the logs with the
	// highest hashes.
	places uint64
	count  int
}

type slot struct {
	hash uint64
	log  *keyLog // nil if the slot is empty
}

const (
	firstPlaces  = 8
	furtherSlots = 8 // after the places; more are hardly ever needed
)

// hashOf returns a hash that callers cannot predict. It hashes the key under a secret seed. The
// policy's numbers, which callers do not choose, are mixed in by a cheaper function.
func hashOf(seed maphash.Seed, id timestamplog.LogID) uint64 {
	const odd1, odd2 = 0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9
	return maphash.String(seed, id.Key) ^ (uint64(id.Policy)*odd1 + uint64(id.Generation)*odd2)
}

func (x *index) clear() { *x = index{slots: make([]slot, 1)} }

// place returns the first slot in which a log with that hash may be.
func (x *index) place(hash uint64) int {
	place, _ := bits.Mul64(hash, x.places)
	return int(place)
}

// find returns the log of id, nil for none.
func (x *index) find(hash uint64, id timestamplog.LogID) *keyLog {
	for i := x.place(hash); ; i++ {
		s := &x.slots[i]
		if s.log == nil || s.hash > hash {
			return nil
		}
		if s.hash == hash && hasID(s.log, &id) {
			return s.log
		}
	}
}

// add adds k, which is not in the index.
func (x *index) add(hash uint64, k *keyLog) {
	if uint64(x.count) >= x.places*7/8 {
		x.resize(max(firstPlaces, x.places+x.places/4))
	}
	at := x.place(hash)
	for x.slots[at].log != nil && x.slots[at].hash <= hash {
		at++
	}
	end := at
	for x.slots[end].log != nil {
		end++
	}
	copy(x.slots[at+1:end+1], x.slots[at:end])
	x.slots[at] = slot{hash, k}
	x.count++
	if end == len(x.slots)-1 {
		x.slots = append(x.slots, slot{})
	}
}

// remove removes k, which is in the index.
func (x *index) remove(hash uint64, k *keyLog) {
	at := x.place(hash)
	for x.slots[at].log != k {
		at++
	}
	end := at + 1
	for x.slots[end].log != nil && x.place(x.slots[end].hash) < end {
		end++
	}
	copy(x.slots[at:], x.slots[at+1:end])
	x.slots[end-1] = slot{}
	x.count--
	if x.places > firstPlaces && uint64(x.count) < x.places/4 {
		x.resize(max(firstPlaces, x.places/2))
	}
}

// replace puts a log in the place of k, which is in the index.
func (x *index) replace(hash uint64, k, with *keyLog) {
	at := x.place(hash)
	for x.slots[at].log != k {
		at++
	}
	x.slots[at].log = with
}

// resize changes the number of places. The order of the logs stays.
func (x *index) resize(places uint64) {
	old := x.slots
	x.slots, x.places = make([]slot, places+furtherSlots), places
	next := 0 // the next free slot
	for _, s := range old {
		if s.log == nil {
			continue
		}
		at := max(next, x.place(s.hash))
		if next = at + 1; next == len(x.slots) {
			x.slots = append(x.slots, slot{})
		}
		x.slots[at] = s
	}
}

// all yields the logs in the order of their hashes. The index may change between two yields: a
// log that is in the index throughout is still yielded exactly once.
func (x *index) all() iter.Seq2[uint64, *keyLog] {
	return func(yield func(uint64, *keyLog) bool) {
		hash := uint64(0)  // of the next log, or lower
		var same []*keyLog // logs with one hash; hardly ever more than one
		for {
			at := x.place(hash)
			for at < len(x.slots) && (x.slots[at].log == nil || x.slots[at].hash < hash) {
				at++
			}
			if at == len(x.slots) {
				return
			}
			hash = x.slots[at].hash
			for same = same[:0]; x.slots[at].log != nil && x.slots[at].hash == hash; at++ {
				same = append(same, x.slots[at].log)
			}
			for _, k := range same {
				if !yield(hash, k) {
					return
				}
			}
			if hash == math.MaxUint64 {
				return
			}
			hash++
		}
	}
}

// fromAnywhere yields each log once, beginning with a random one. The index must not change
// between two yields.
func (x *index) fromAnywhere() iter.Seq2[uint64, *keyLog] {
	return func(yield func(uint64, *keyLog) bool) {
		n := len(x.slots)
		first := rand.IntN(n)
		for i := range n {
			if s := x.slots[(first+i)%n]; s.log != nil && !yield(s.hash, s.log) {
				return
			}
		}
	}
}
