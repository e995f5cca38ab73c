package recorder

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/keys"
)

func BenchmarkRecord(b *testing.B) {
	all := make([]keys.Key, 10_000)
	for i := range all {
		all[i] = key(b, "ip:10.0."+strconv.Itoa(i/250)+"."+strconv.Itoa(i%250))
	}
	block := &blocks.Entry{Kind: blocks.Block, ID: "b1"}
	for _, kind := range []struct {
		name string
		make func(keys.Key) *gate.Decision
	}{
		{"allowed", func(k keys.Key) *gate.Decision { return allowed(k, noon) }},
		{"limited", func(k keys.Key) *gate.Decision { return limited(k, noon, 1) }},
		{"blocked", func(k keys.Key) *gate.Decision {
			d := limited(k, noon, -1)
			d.Outcome, d.Block = gate.Blocked, block
			return d
		}},
		{"limited with meta", func(k keys.Key) *gate.Decision {
			d := limited(k, noon, 1)
			d.Check.Source, d.Check.Meta = "edge-1", map[string]string{"path": "/search", "agent": "curl"}
			return d
		}},
	} {
		b.Run(kind.name, func(b *testing.B) {
			r := testRecorder(Options{})
			ready := make([]*gate.Decision, len(all))
			for i, k := range all {
				ready[i] = kind.make(k)
				r.Record(ready[i])
			}
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(p *testing.PB) {
				i := rand.IntN(len(ready))
				for p.Next() {
					r.Record(ready[i%len(ready)])
					i++
				}
			})
		})
	}
	// Five of six keys have no entry and take that of another key.
	for _, d := range []*gate.Decision{allowed(all[0], noon), limited(all[0], noon, 1)} {
		b.Run(string(d.Outcome)+" of 100,000 keys", func(b *testing.B) {
			r := testRecorder(Options{})
			flood := make([]keys.Key, 100_000)
			for i := range flood {
				flood[i] = key(b, "ip:10."+strconv.Itoa(i/62500)+"."+strconv.Itoa(i/250%250)+"."+strconv.Itoa(i%250))
			}
			b.ReportAllocs()
			for b.Loop() {
				d.Check.Key = flood[rand.IntN(len(flood))]
				r.Record(d)
			}
		})
	}
}
