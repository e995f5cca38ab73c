package offences_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/test/storetest"
)

// TestAllOffendersAreOfOneState changes the order of the keys while they are read page by page.
func TestAllOffendersAreOfOneState(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		const keys = 2100 // three pages
		n := newCounting(t, f.Offences, f.Clock, "a", nil)
		for i := range keys {
			n.limited(fmt.Sprintf("token:%04d", i), 1+(keys-i)/1000)
		}
		n.flush()
		q := offences.Query{From: f.Clock.Now().Add(-time.Hour), To: f.Clock.Now().Add(time.Minute)}
		seen, pages := map[string]int64{}, 0
		err := service(f).EachOffenderPage(t.Context(), q, func(r *offences.OffenderReport) error {
			for _, row := range r.Rows {
				if _, twice := seen[row.Key]; twice || row.First.IsZero() || row.RefusedBy == "" {
					t.Fatalf("twice %v: %+v", twice, row)
				}
				seen[row.Key] = row.Offences
			}
			if pages++; pages == 1 { // the last key becomes the first
				n.limited(fmt.Sprintf("token:%04d", keys-1), 50)
				n.flush()
			}
			return nil
		})
		if err != nil || pages != 3 || len(seen) != keys || seen[fmt.Sprintf("token:%04d", keys-1)] != 1 {
			t.Errorf("%d pages of %d keys, the last with %d offences, %v", pages, len(seen), seen[fmt.Sprintf("token:%04d", keys-1)], err)
		}

		stop := errors.New("the reader has gone")
		if err := service(f).EachOffenderPage(t.Context(), q, func(*offences.OffenderReport) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("got %v", err)
		}
	})
}
