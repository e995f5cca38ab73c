package limit_test

import (
	"strconv"
	"testing"

	"github.com/stint-dev/stint/limit"
)

func BenchmarkAllow(b *testing.B) {
	l, err := limit.New(limit.Memory(), "bench", "1000/1m")
	if err != nil {
		b.Fatal(err)
	}
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = "user:" + strconv.Itoa(i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := l.Allow(b.Context(), keys[i%len(keys)]); err != nil {
			b.Fatal(err)
		}
	}
}
