package blocks_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
)

// BenchmarkMatch matches two keys with 60,000 blocks of networks: one that a block selects and
// one that none selects.
func BenchmarkMatch(b *testing.B) {
	s := blocks.NewSet()
	for i, n := range networks(60000) {
		s.Apply(block(b, n, n, int64(i+1), 0), noon)
	}
	s.Apply(&blocks.Entry{ID: "e", Kind: blocks.Exemption, Pattern: pattern(b, "ip:198.51.100.0/24"), Revision: 9}, noon)
	for name, text := range map[string]string{"blocked": "ip:10.1.2.3", "free": "ip:192.0.2.1"} {
		k := key(b, text)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if s.Match(k, noon).Refuses() != (name == "blocked") {
					b.Fatal("the match is wrong")
				}
			}
		})
	}
}

func networks(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("ip:10.%d.%d.0/24", i/256%256, i%256))
	}
	return all
}

// BenchmarkCountBySource counts 60,000 blocks by their source.
func BenchmarkCountBySource(b *testing.B) {
	s := blocks.NewSet()
	for i := range 60000 {
		n := fmt.Sprintf("ip:10.%d.%d.1", i/256, i%256)
		s.Apply(block(b, n, n, int64(i+1), time.Hour), noon)
	}
	for b.Loop() {
		if s.CountBySource(noon)[""] != 60000 {
			b.Fatal("the count is wrong")
		}
	}
}

// BenchmarkFind finds a page among a million blocks.
func BenchmarkFind(b *testing.B) {
	s := blocks.NewSet()
	for i := range 1_000_000 {
		e := block(b, fmt.Sprintf("%032d", i), fmt.Sprintf("ip:10.%d.%d.%d", i>>16, i>>8&255, i&255), int64(i+1), 0)
		e.Reason, e.Source = "abuse list", blocks.Imported
		s.Apply(e, noon)
	}
	for name, f := range map[string]blocks.Filter{
		"few": {Search: "10.1.2"}, "all": {Search: "abuse"}, "none": {Search: "nothing like it"}, "within": {Within: pattern(b, "ip:10.1.0.0/16")},
	} {
		f.Kind, f.At, f.Limit = blocks.Block, noon, 50
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s.Find(f)
			}
		})
	}
}
