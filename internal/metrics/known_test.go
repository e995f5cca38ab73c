package metrics

import (
	"strconv"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestKnownKeepsWhatSyncMapKeeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var k known[int]
		var plain sync.Map
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			n := rapid.IntRange(0, 9).Draw(t, "name")
			if n == 0 {
				long := func(name string) bool { return len(name) > 1 }
				k.keep(long)
				plain.Range(func(name, _ any) bool {
					if !long(name.(string)) {
						plain.Delete(name)
					}
					return true
				})
				continue
			}
			name := strconv.Itoa(n * n)
			made := new(int)
			want, _ := plain.LoadOrStore(name, made)
			if got := k.get(name, func(string) *int { return made }); got != want {
				t.Fatalf("%s: got another value than was kept", name)
			}
		}
		size := 0
		plain.Range(func(name, want any) bool {
			if size++; k.find(name.(string)) != want {
				t.Fatalf("%s is not known", name)
			}
			return true
		})
		if k.len() != size {
			t.Fatalf("%d are known, want %d", k.len(), size)
		}
	})
}

func BenchmarkKnown(b *testing.B) {
	names := []string{"default", "login", "search", "a name of some words"}
	var k known[int]
	var plain sync.Map
	for _, name := range names {
		plain.Store(name, k.get(name, func(string) *int { return new(int) }))
	}
	b.Run("fast", func(b *testing.B) {
		for n := range b.N {
			*k.find(names[n%len(names)])++
		}
	})
	b.Run("plain", func(b *testing.B) {
		for n := range b.N {
			v, _ := plain.Load(names[n%len(names)])
			*v.(*int)++
		}
	})
}
