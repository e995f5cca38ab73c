package memlog

import (
	"container/heap"
	"fmt"
	"hash/maphash"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// expiry is a log and the expiry that it had when it was added.
type expiry struct {
	at  int64
	log *keyLog
}

// expiryHeap is the plain version of wheel: container/heap. As with the wheel, a push
// does not change it: a popped log that has not expired is added again.
type expiryHeap []expiry

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h expiryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *expiryHeap) Push(x any)        { *h = append(*h, x.(expiry)) }
func (h *expiryHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

func (h *expiryHeap) add(k *keyLog) { heap.Push(h, expiry{k.expiresAt(), k}) }

// next removes and returns a log that may have expired, nil for none.
func (h *expiryHeap) next(now int64) *keyLog {
	if len(*h) == 0 || (*h)[0].at > now {
		return nil
	}
	return heap.Pop(h).(expiry).log
}

// sweep removes up to budget expired logs and returns them.
func (h *expiryHeap) sweep(now int64, budget int) (expired []*keyLog) {
	for range budget {
		k := h.next(now)
		if k == nil {
			break
		}
		if k.expired(now) {
			expired = append(expired, k)
			continue
		}
		h.add(k)
	}
	return expired
}

// newLogs returns logs with windows between a second and a day, and one entry each.
func newLogs(n int, now int64) []*keyLog {
	random := rand.New(rand.NewPCG(1, 2))
	logs := make([]*keyLog, n)
	for i := range logs {
		logs[i] = newKeyLog(timestamplog.LogID{Policy: 1, Key: fmt.Sprintf("ip:10.%d.%d.%d", i>>16, i>>8&255, i&255)}, 1)
		logs[i].count, logs[i].newest = 1, now
		logs[i].window = uint32(time.Second.Milliseconds() << random.IntN(17))
	}
	return logs
}

// The wheel may drop a log one slot (1,024 ms) later than the heap, but never earlier.
func TestTimerWheelExpiresTheSameLogsAsAHeap(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	now := int64(1_790_000_000_000)
	logs := newLogs(3000, now)
	var h expiryHeap
	var w wheel
	for _, k := range logs {
		h.add(k)
		w.add(k, now)
	}
	byHeap, byWheel := map[*keyLog]bool{}, map[*keyLog]bool{}
	for step := range 4000 {
		switch random.IntN(100) {
		case 0:
			now += random.Int64N(time.Hour.Milliseconds())
		default:
			now += random.Int64N(2000)
		}
		for range 20 { // as pushes do
			if k := logs[random.IntN(len(logs))]; !k.expired(now) {
				k.newest = now
			}
		}
		for _, k := range h.sweep(now, len(logs)) {
			byHeap[k] = true
		}
		for range 2 * len(logs) {
			k := w.next(now)
			if k == nil {
				break
			}
			if k.expired(now) {
				byWheel[k] = true
				continue
			}
			w.add(k, now)
		}
		for _, k := range logs {
			if byWheel[k] && !byHeap[k] {
				t.Fatalf("step %d: the wheel dropped a log that expires in %d ms", step, k.expiresAt()-now)
			}
			if byHeap[k] && !byWheel[k] && now-k.expiresAt() >= 1<<finestBits {
				t.Fatalf("step %d: the wheel still holds a log that expired %d ms ago", step, now-k.expiresAt())
			}
		}
	}
	if len(byWheel) < len(logs)/4 {
		t.Errorf("only %d of %d logs expired", len(byWheel), len(logs))
	}
}

// BenchmarkExpiry compares the wheel with the heap. Each operation is what a check does: a push
// that postpones a log's expiry and a sweep of two logs.
func BenchmarkExpiry(b *testing.B) {
	const logs = 100_000
	b.Run("wheel", func(b *testing.B) {
		now := int64(1_790_000_000_000)
		all := newLogs(logs, now)
		var w wheel
		for _, k := range all {
			w.add(k, now)
		}
		random := rand.New(rand.NewPCG(5, 6))
		for b.Loop() {
			now++
			all[random.IntN(logs)].newest = now
			if w.idle(now) {
				continue
			}
			for range sweepPerCheck {
				k := w.next(now)
				if k == nil {
					break
				}
				if k.expired(now) {
					k.newest = now // the place of the log is used by a new one
				}
				w.add(k, now)
			}
		}
	})
	b.Run("heap", func(b *testing.B) {
		now := int64(1_790_000_000_000)
		all := newLogs(logs, now)
		var h expiryHeap
		for _, k := range all {
			h.add(k)
		}
		random := rand.New(rand.NewPCG(5, 6))
		for b.Loop() {
			now++
			all[random.IntN(logs)].newest = now
			for range sweepPerCheck {
				k := h.next(now)
				if k == nil {
					break
				}
				if k.expired(now) {
					k.newest = now
				}
				h.add(k)
			}
		}
	})
}

// The index finds the same logs as a map by LogID, even if many logs have the same hash, adjacent
// hashes or the highest hashes.
func TestIndexFindsTheSameLogsAsAMap(t *testing.T) {
	hashes := map[string]func(uint64) uint64{
		"apart":    func(hash uint64) uint64 { return hash },
		"the same": func(hash uint64) uint64 { return hash % 7 },
		"near":     func(hash uint64) uint64 { return hash%7 + hash%3<<62 },
		"great":    func(hash uint64) uint64 { return math.MaxUint64 - hash%5 },
	}
	for name, change := range hashes {
		t.Run(name, func(t *testing.T) {
			logs := newLogs(60, 0)
			random := rand.New(rand.NewPCG(9, 10))
			seed := maphash.MakeSeed()
			hashOf := func(k *keyLog) uint64 { return change(hashOf(seed, idOf(k))) }
			var x index
			x.clear()
			plain := map[timestamplog.LogID]*keyLog{}
			for step := range 20_000 {
				adds := step/1000%4 < 2 // first more than are removed, then fewer
				k := logs[random.IntN(len(logs))]
				switch isIn := plain[idOf(k)] != nil; {
				case !isIn && (adds || random.IntN(4) == 0):
					plain[idOf(k)] = k
					x.add(hashOf(k), k)
				case isIn && (!adds || random.IntN(4) == 0):
					delete(plain, idOf(k))
					x.remove(hashOf(k), k)
				}
				if x.count != len(plain) {
					t.Fatalf("step %d: the index has %d logs, want %d", step, x.count, len(plain))
				}
				for _, k := range logs {
					if got, want := x.find(hashOf(k), idOf(k)), plain[idOf(k)]; got != want {
						t.Fatalf("step %d: find returns %v, want %v", step, got, want)
					}
				}
				if step%100 == 0 {
					for name, all := range map[string]iter.Seq2[uint64, *keyLog]{"all": x.all(), "fromAnywhere": x.fromAnywhere()} {
						yielded := maps.Clone(plain)
						for hash, k := range all {
							if hash != hashOf(k) || yielded[idOf(k)] != k {
								t.Fatalf("step %d: %s yields %v, which is not in the index or was yielded before", step, name, idOf(k))
							}
							delete(yielded, idOf(k))
						}
						if len(yielded) > 0 {
							t.Fatalf("step %d: %s leaves out %d logs", step, name, len(yielded))
						}
					}
				}
			}
		})
	}
}

// A walk through the index yields each log that is there throughout exactly once, although the
// index grows and shrinks.
func TestIterationOfAChangingIndex(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	logs := newLogs(4000, 0)
	hashes := map[*keyLog]uint64{}
	var x index
	x.clear()
	for i, k := range logs {
		hashes[k] = random.Uint64() >> (i % 2 * 3) // half of them close together, so that some have to be moved
		x.add(hashes[k], k)
	}
	stays, others := logs[:1000], logs[1000:]
	isIn := map[*keyLog]bool{}
	for _, k := range others {
		isIn[k] = true
	}
	yielded := map[*keyLog]int{}
	for _, k := range x.all() {
		yielded[k]++
		removes := len(yielded)/100%2 == 0
		for range 20 {
			if k := others[random.IntN(len(others))]; isIn[k] == removes {
				if isIn[k] = !removes; removes {
					x.remove(hashes[k], k)
				} else {
					x.add(hashes[k], k)
				}
			}
		}
	}
	for _, k := range stays {
		if yielded[k] != 1 {
			t.Fatalf("a log that was there throughout was yielded %d times", yielded[k])
		}
	}
}

// An index from which most logs were removed frees memory.
func TestIndexShrinks(t *testing.T) {
	logs := newLogs(10_000, 0)
	var x index
	x.clear()
	for i, k := range logs {
		x.add(uint64(i)*0x9e3779b97f4a7c15, k)
	}
	for i, k := range logs[:9_990] {
		x.remove(uint64(i)*0x9e3779b97f4a7c15, k)
	}
	if n := len(x.slots); n > 60 {
		t.Errorf("10 logs take %d slots", n)
	}
}

// BenchmarkIndex compares the index with a map by LogID: the time to find the shard and
// then the log, and the memory of the index. Both need the hash, which chooses the shard.
func BenchmarkIndex(b *testing.B) {
	const logs = 100_000
	all := newLogs(logs, 0)
	ids := make([]timestamplog.LogID, logs) // in random order
	for i, n := range rand.New(rand.NewPCG(7, 8)).Perm(logs) {
		ids[i] = idOf(all[n])
		ids[i].Key = strings.Clone(ids[i].Key)
	}
	measure := func(build func() (find func(timestamplog.LogID) *keyLog)) func(*testing.B) {
		return func(b *testing.B) {
			before := heapBytes()
			find := build()
			size := heapBytes() - before
			i := 0
			for b.Loop() {
				if find(ids[i%logs]).count == 0 {
					b.Fatal("not found")
				}
				i++
			}
			b.ReportMetric(float64(size)/logs, "B/key")
		}
	}
	b.Run("hash", measure(func() func(timestamplog.LogID) *keyLog {
		s := &shard{seed: maphash.MakeSeed()}
		s.clear()
		for _, k := range all {
			s.logs.add(hashOf(s.seed, idOf(k)), k)
		}
		return func(id timestamplog.LogID) *keyLog { return s.logs.find(hashOf(s.seed, id), id) }
	}))
	b.Run("map", measure(func() func(timestamplog.LogID) *keyLog {
		byID := map[timestamplog.LogID]*keyLog{}
		for _, k := range all {
			byID[idOf(k)] = k
		}
		seed := maphash.MakeSeed()
		return func(id timestamplog.LogID) *keyLog {
			if hashOf(seed, id)&(shardCount-1) == shardCount {
				return nil // never; the hash must be computed
			}
			return byID[id]
		}
	}))
}

func heapBytes() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
