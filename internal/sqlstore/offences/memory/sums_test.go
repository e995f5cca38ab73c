package memory_test

import (
	"fmt"
	"testing"
	"unique"

	"github.com/stint-dev/stint/internal/sqlstore/offences/memory"
)

func TestByRuleCountsEachKeyOfEachOfManyRefusersOnce(t *testing.T) {
	const refusers = 150
	var parts []memory.Part[memory.Row]
	for range 2 { // each key in both slots
		p := memory.Part[memory.Row]{}
		for i := range refusers {
			for k := range i + 1 {
				p.Rows = append(p.Rows, memory.Row{
					Key: unique.Make(fmt.Sprintf("ip:192.0.2.%d", k)), Group: unique.Make(memory.Group{RefusedBy: fmt.Sprint(i)}), Offences: 3,
				})
			}
		}
		parts = append(parts, p)
	}
	totals := memory.ByRule(parts)
	if len(totals) != refusers {
		t.Fatalf("got %d totals, want %d", len(totals), refusers)
	}
	for n, total := range totals {
		keys := int64(refusers - n) // the most first
		if total.Keys != keys || total.Count != 6*keys || total.RefusedBy != fmt.Sprint(keys-1) {
			t.Errorf("got %+v in place %d, want %d keys", total, n, keys)
		}
	}
}
