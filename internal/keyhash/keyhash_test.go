package keyhash

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// The first vectors of the SipHash paper's reference implementation: key 00 to
// 0f, messages of 0, 1 and 15 bytes 00, 01 and so on.
func TestSum64IsSipHash(t *testing.T) {
	h := Hash{0x0706050403020100, 0x0f0e0d0c0b0a0908}
	message, _ := hex.DecodeString("000102030405060708090a0b0c0d0e")
	for n, want := range map[int]uint64{0: 0x726fdb47dd0e0e31, 1: 0x74f839c593dc67fd, 15: 0xa129ca6149be45e5} {
		if got := h.Sum64(string(message[:n])); got != want {
			t.Errorf("%d bytes: got %016x, want %016x", n, got, want)
		}
	}
}

func TestHashDependsOnSecretAndLabel(t *testing.T) {
	seen := map[uint64]string{}
	for _, secret := range []string{"a", "b"} {
		for _, label := range []string{"shards", "samples"} {
			sum := New([]byte(secret), label).Sum64("ip:203.0.113.7")
			if other, found := seen[sum]; found {
				t.Errorf("%s and %s have the same hash", other, secret+label)
			}
			seen[sum] = secret + label
			if again := New([]byte(secret), label).Sum64("ip:203.0.113.7"); again != sum {
				t.Errorf("two hashes with one secret and label differ: %x, %x", sum, again)
			}
		}
	}
}

func TestSum64DoesNotAllocate(t *testing.T) {
	h, key := New([]byte("secret"), "label"), strings.Repeat("k", 128)
	if n := testing.AllocsPerRun(100, func() { h.Sum64(key) }); n > 0 {
		t.Errorf("Sum64 made %v allocations, want 0", n)
	}
}

func BenchmarkSum64(b *testing.B) {
	for _, n := range []int{16, 64, 512} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			h, key := New([]byte("secret"), "label"), strings.Repeat("k", n)
			for b.Loop() {
				h.Sum64(key)
			}
		})
	}
}
