package client_test

import (
	"net/http"
	"testing"

	"github.com/stint-dev/stint/client"
)

// BenchmarkCheck asks about one key by 64 callers at once, once over the
// package's own connections and once over those that net/http keeps by default.
func BenchmarkCheck(b *testing.B) {
	for _, over := range []struct {
		name    string
		options []client.Option
	}{
		{"its own connections", nil},
		{"without retries", []client.Option{client.WithRetries(0)}},
		{"http.DefaultClient", []client.Option{client.WithHTTPClient(http.DefaultClient)}},
	} {
		b.Run(over.name, func(b *testing.B) {
			c, key := connect(b, append(over.options, client.WithMemory(0))...), fresh("free")
			b.SetParallelism(32)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := c.Check(b.Context(), client.Check{Key: key, Detail: client.DetailNone}); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// BenchmarkRemembered asks about a key that is known to be refused.
func BenchmarkRemembered(b *testing.B) {
	c, key := connect(b), fresh("never")
	b.ReportAllocs()
	for b.Loop() {
		ask(b, c, client.Check{Key: key})
	}
}
