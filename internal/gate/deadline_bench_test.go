package gate

import (
	"context"
	"testing"
	"time"
)

// BenchmarkGate compares lazyDeadline with context.WithTimeout, both for an answer from memory,
// for which no caller waits for the deadline, and for an answer with such a wait.
func BenchmarkGate(b *testing.B) {
	var timers timerPool
	lazy := func(ask func(context.Context)) {
		limited := lazyDeadline{Context: context.Background(), until: time.Now().Add(time.Second), timers: &timers}
		ask(&limited)
		limited.release()
	}
	plain := func(ask func(context.Context)) {
		limited, cancel := context.WithTimeout(context.Background(), time.Second)
		ask(limited)
		cancel()
	}
	answered := make(chan struct{}, 1)
	for _, c := range []struct {
		name string
		ask  func(context.Context)
	}{
		{"from memory", func(ctx context.Context) {
			if ctx.Err() != nil {
				b.Fatal(ctx.Err())
			}
		}},
		{"waited for", func(ctx context.Context) {
			answered <- struct{}{}
			select {
			case <-answered:
			case <-ctx.Done():
				b.Fatal(ctx.Err())
			}
		}},
	} {
		b.Run(c.name+"/lazy", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				lazy(c.ask)
			}
		})
		b.Run(c.name+"/plain", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				plain(c.ask)
			}
		})
	}
}
