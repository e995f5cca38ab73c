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
	"github.com/stint-dev/stint/internal/etag"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/test/storetest"
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

// BenchmarkPolicies shows lists among 2,000 policies, over HTTP, and the size of the page.
func BenchmarkPolicies(b *testing.B) {
	for name, database := range map[string]string{"SQLite": storetest.Migrated.SQLite(b), "Postgres": storetest.Migrated.Postgres(b).URL} {
		n := newNodeOn(b, database)
		var changes []rules.PolicyChange
		for i := range 2000 {
			p := storetest.NewPolicy(b, fmt.Sprintf("customer-%04d", i), fmt.Sprintf("token:%d-*", i), "5/s", "100/m")
			changes = append(changes, rules.PolicyChange{Name: p.Name, Policy: p, Expect: etag.New})
		}
		_, err := n.store.Policies.ApplyPolicies(b.Context(), audit.SystemActor("test"), changes)
		must(b, err)
		v := n.as(b, "vic")
		for _, path := range []string{"/policies", "/policies?q=customer-1&order=updated", "/policies/customer-1000"} {
			b.Run(name+path, func(b *testing.B) {
				size := 0
				for b.Loop() {
					size = len(v.get(path).is(http.StatusOK).body)
				}
				b.ReportMetric(float64(size), "B/page")
			})
		}
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
