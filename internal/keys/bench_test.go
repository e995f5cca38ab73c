package keys_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stint-dev/stint/internal/keys"
)

var benchKeys = map[string]string{
	"token":       "token:sk_live_51H8xYzABCDEFGH",
	"IPv4":        "ip:203.0.113.7",
	"IPv6":        "ip:2001:db8:1:2:3:4:5:6",
	"IPv6 by /64": "ip:2001:db8:1:2::/64",
}

func BenchmarkParseKey(b *testing.B) {
	for name, text := range benchKeys {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := (keys.Parser{}).Key(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParsePattern(b *testing.B) {
	for b.Loop() {
		if _, err := (keys.Parser{}).Pattern("ip:203.0.113.0/24"); err != nil {
			b.Fatal(err)
		}
	}
}

// benchIndex returns an index of n patterns, a quarter each of IPv4 networks, IPv6 networks,
// prefixes of many lengths and exact keys. It also returns keys that they select and keys that
// they do not.
func benchIndex(b *testing.B, n int) (x *keys.Index[*int], hits, misses []keys.Key) {
	random := rand.New(rand.NewPCG(1, 2))
	x = keys.NewIndex[*int]()
	for i := range n {
		pattern, hit, miss := benchPattern(random, i)
		x.Set(mustPattern(b, pattern), &i)
		if i%max(1, n/4096) == 0 {
			hits = append(hits, mustKey(b, hit))
			misses = append(misses, mustKey(b, miss))
		}
	}
	random.Shuffle(len(hits), func(i, j int) {
		hits[i], hits[j] = hits[j], hits[i]
		misses[i], misses[j] = misses[j], misses[i]
	})
	return x, hits, misses
}

// benchPattern returns a pattern, a key that it selects, and a key that no pattern of
// benchPattern selects.
func benchPattern(random *rand.Rand, i int) (pattern, hit, miss string) {
	a, b, c, d := random.IntN(100)+1, random.IntN(256), random.IntN(256), random.IntN(256)
	switch i % 4 {
	case 0:
		if i%8 == 0 {
			return fmt.Sprintf("ip:%d.%d.%d.0/24", a, b, c), fmt.Sprintf("ip:%d.%d.%d.%d", a, b, c, d), fmt.Sprintf("ip:%d.%d.%d.%d", a+100, b, c, d)
		}
		address := fmt.Sprintf("ip:%d.%d.%d.%d", a, b, c, d)
		return address, address, fmt.Sprintf("ip:%d.%d.%d.%d", a+100, b, c, d)
	case 1:
		rest := fmt.Sprintf("%x:%x:%x::", a, b*256+c, random.IntN(65536))
		return "ip:2001:" + rest + "/64", "ip:2001:" + rest + "1", "ip:2002:" + rest + "1"
	case 2:
		text := "token:" + benchText(random, 4+random.IntN(200))
		return text + "*", text + "_more", "token:" + benchText(random, 40)
	default:
		text := "user:" + benchText(random, 16)
		return text, text, text + "x"
	}
}

func benchText(random *rand.Rand, length int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	var text strings.Builder
	for range length {
		text.WriteByte(letters[random.IntN(len(letters))])
	}
	return text.String()
}

func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
		x, hits, misses := benchIndex(b, n)
		for name, asked := range map[string][]keys.Key{"hit": hits, "miss": misses} {
			b.Run(fmt.Sprintf("best/%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if _, _, found := x.Best(asked[i%len(asked)]); found != (name == "hit") {
						b.Fatal("found:", found)
					}
				}
			})
			b.Run(fmt.Sprintf("all/%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				var room [24]*int
				for i := 0; b.Loop(); i++ {
					found := len(x.AppendMatching(room[:0], asked[i%len(asked)]))
					if (found > 0) != (name == "hit") {
						b.Fatal("found:", found)
					}
				}
			})
		}
	}
}
