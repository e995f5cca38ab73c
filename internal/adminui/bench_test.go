package adminui_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/keys"
)

// BenchmarkBlocks shows lists among 100,000 blocks, over HTTP.
func BenchmarkBlocks(b *testing.B) {
	n := newNode(b)
	_, err := n.store.Entries.Import(context.Background(), audit.SystemActor("test"), manyBlocks(b, 100_000, n.clock.Now().Add(time.Hour)), blocks.Keep, nil)
	must(b, err)
	v := n.as(b, "vic")
	for name, path := range map[string]string{
		"first page": "/blocks", "search that finds few": "/blocks?q=10.1.120.7", "search that finds many": "/blocks?q=10.1.1", "search that finds all": "/blocks?q=abuse+list",
		"search that finds none": "/blocks?q=nothing", "source": "/blocks?source=imported&order=expiry", "policies": "/policies",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				v.get(path).is(http.StatusOK)
			}
		})
	}
}

func manyBlocks(t testing.TB, count int, end time.Time) iter.Seq2[blocks.Entry, error] {
	return func(yield func(blocks.Entry, error) bool) {
		for i := range count {
			p, err := keys.Parser{}.Pattern(fmt.Sprintf("ip:10.%d.%d.%d", i>>16, i>>8&255, i&255))
			must(t, err)
			if !yield(blocks.Entry{Kind: blocks.Block, Pattern: p, Reason: "abuse list", Author: "import", Source: blocks.Imported, Expires: end}, nil) {
				return
			}
		}
	}
}
