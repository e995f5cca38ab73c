package recorder

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// plainTopk is the plain version of topk: a map, and a new entry for each key.
type plainTopk[K comparable, V any] struct {
	maxEntries int
	entries    []*entry[K, V] // in the order of their insertion
	byKey      map[K]*entry[K, V]
}

func newPlainTopk[K comparable, V any](maxEntries int) *plainTopk[K, V] {
	return &plainTopk[K, V]{maxEntries: maxEntries, byKey: map[K]*entry[K, V]{}}
}

func (t *plainTopk[K, V]) find(_ uint64, k *K) *entry[K, V] { return t.byKey[*k] }

func (t *plainTopk[K, V]) insert(hash uint64, k K, evict func(*entry[K, V]), _ func(*V)) *entry[K, V] {
	if len(t.entries) >= t.maxEntries {
		t.trim(evict)
	}
	e := &entry[K, V]{hash: hash, key: k}
	t.entries, t.byKey[k] = append(t.entries, e), e
	return e
}

func (t *plainTopk[K, V]) drop(gone func(*entry[K, V]) bool) {
	t.entries = slices.DeleteFunc(t.entries, func(e *entry[K, V]) bool {
		if !gone(e) {
			return false
		}
		delete(t.byKey, e.key)
		return true
	})
}

// trim evicts the lighter half, of equal ones the oldest first.
func (t *plainTopk[K, V]) trim(evict func(*entry[K, V])) {
	lightest := make([]int, len(t.entries))
	for i := range lightest {
		lightest[i] = i
	}
	slices.SortFunc(lightest, func(a, b int) int {
		return cmp.Or(cmp.Compare(t.entries[a].upper(), t.entries[b].upper()), cmp.Compare(a, b))
	})
	isLight := make([]bool, len(t.entries))
	for _, i := range lightest[:max(1, len(lightest)/2)] {
		isLight[i] = true
	}
	i := -1
	t.drop(func(e *entry[K, V]) bool {
		if i++; isLight[i] {
			evict(e)
		}
		return isLight[i]
	})
}

// counter is topk or plainTopk.
type counter[K comparable, V any] interface {
	find(hash uint64, k *K) *entry[K, V]
	insert(hash uint64, k K, evict func(*entry[K, V]), reset func(*V)) *entry[K, V]
	drop(gone func(*entry[K, V]) bool)
}

// TestTopkCountsAsItsPlainVersion counts the same keys in both. Many keys have the same hash.
func TestTopkCountsAsItsPlainVersion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		maxEntries := rapid.IntRange(2, 40).Draw(t, "maxEntries")
		top, plain := newTopk[string, int](maxEntries), newPlainTopk[string, int](maxEntries)
		var evicted [2][]string
		count := func(i int, c counter[string, int], hash uint64, key string) uint32 {
			e := c.find(hash, &key)
			if e == nil {
				e = c.insert(hash, key, func(e *entry[string, int]) {
					evicted[i] = append(evicted[i], fmt.Sprint(e.key, e.certain))
				}, func(v *int) { *v = 0 })
			}
			e.certain++
			e.value++
			if e.certain != uint32(e.value) {
				t.Fatalf("the entry of %s began with another's value", key)
			}
			return e.certain
		}
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			n := rapid.IntRange(0, 60).Draw(t, "key")
			if n == 0 {
				odd := func(e *entry[string, int]) bool { return e.certain%2 == 1 }
				top.drop(odd)
				plain.drop(odd)
				top.forget()
				continue
			}
			hash, key := uint64(n%8)<<61|uint64(n%8), strconv.Itoa(n)
			if got, want := count(0, top, hash, key), count(1, plain, hash, key); got != want {
				t.Fatalf("key %s has %d, want %d", key, got, want)
			}
		}
		if !slices.Equal(evicted[0], evicted[1]) {
			t.Fatalf("it evicted %v, want %v", evicted[0], evicted[1])
		}
		if len(top.entries) != len(plain.entries) {
			t.Fatalf("it has %d entries, want %d", len(top.entries), len(plain.entries))
		}
	})
}

// BenchmarkTopk counts the traffic of random keys in a shard: of as many as it has entries for, and
// of six times as many.
func BenchmarkTopk(b *testing.B) {
	const maxEntries = 512 // of one of 32 shards
	p := &policyMinute{minute: &minute{start: 1}, policy: 1}
	for _, load := range []struct {
		name string
		keys int
	}{{"known", maxEntries}, {"flood", 6 * maxEntries}} {
		all := make([]trafficKey, load.keys)
		hashes := make([]uint64, load.keys)
		for i := range all {
			all[i], hashes[i] = trafficKey{p, "ip:10.0." + strconv.Itoa(i/250) + "." + strconv.Itoa(i%250)}, rand.Uint64()
		}
		for _, version := range []struct {
			name string
			make func() counter[trafficKey, trafficValue]
		}{
			{"topk", func() counter[trafficKey, trafficValue] { return newTopk[trafficKey, trafficValue](maxEntries) }},
			{"plain", func() counter[trafficKey, trafficValue] {
				return newPlainTopk[trafficKey, trafficValue](maxEntries)
			}},
		} {
			b.Run(load.name+"/"+version.name, func(b *testing.B) {
				c := version.make()
				b.ReportAllocs()
				for b.Loop() {
					i := rand.IntN(len(all))
					e := c.find(hashes[i], &all[i])
					if e == nil {
						e = c.insert(hashes[i], all[i], func(*trafficEntry) {}, (*trafficValue).reset)
					}
					e.certain++
				}
			})
		}
	}
}
