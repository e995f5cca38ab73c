package offences_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/geoip"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/test/geofiles"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/storetest"
)

func TestRankSelectsKeysByOriginPattern(t *testing.T) {
	files, err := geoip.Open(geofiles.Dir(t, geofiles.Rows...))
	if err != nil {
		t.Fatal(err)
	}
	defer keys.LocateBy(files)()
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", nil)
		for i := range 7 {
			n.limited(fmt.Sprintf("ip:203.0.113.%d", i), 10-i/3)
			n.limited(fmt.Sprintf("ip:198.51.100.%d", i), 20) // of another country
		}
		n.limited("ip:2001:db8::/64", 3)
		n.limited("token:NL", 30)
		n.allowed("ip:203.0.113.6", 5)
		n.flush()
		nl, err := keys.Parser{}.Pattern("country:NL")
		if err != nil {
			t.Fatal(err)
		}
		q := offences.Query{From: f.Clock.Now().Add(-time.Hour), To: f.Clock.Now().Add(time.Minute), Limit: 3, Pattern: nl}
		const want = "[ip:203.0.113.0 ip:203.0.113.1 ip:203.0.113.2 ip:203.0.113.3 ip:203.0.113.4 ip:203.0.113.5 ip:203.0.113.6 ip:2001:db8::/64]"
		for _, q.Sort = range []offences.Sort{offences.ByOffences, offences.ByKey, offences.ByLast} {
			var got []string
			pages := 0
			for q.Cursor = ""; pages == 0 || q.Cursor != ""; pages++ {
				r, err := f.Offences.Rank(t.Context(), q)
				if err != nil || r.Keys != 8 || r.Offences != 3*10+3*9+8+3 || len(r.Rows) == 0 || r.Rows[0].First.IsZero() {
					t.Fatalf("by %s: %+v, %v", q.Sort, r, err)
				}
				for _, row := range r.Rows {
					got = append(got, row.Key)
				}
				q.Cursor = r.Next
			}
			if q.Sort == offences.ByOffences && fmt.Sprint(got) != want || len(got) != 8 || pages != 3 {
				t.Errorf("by %s: %d pages of %v", q.Sort, pages, got)
			}
		}
		q.Sort = ""
		sum := int64(0)
		if _, err := f.Offences.EachRanked(t.Context(), q, func(row offences.Ranked) error { sum += row.Offences; return nil }); err != nil || sum != 68 {
			t.Errorf("EachRanked: %d offences, want 68; %v", sum, err)
		}
		seen, err := f.Offences.Seen(t.Context(), nl, q.From, q.To, 2)
		if err != nil || seen.Keys != 8 || seen.Offenders != 8 || seen.Refused != 68 || seen.Allowed != 5 || len(seen.Samples) != 2 || seen.Samples[0].Key != "ip:203.0.113.6" || seen.AllRefused != 68+7*20+30 {
			t.Errorf("Seen() = %+v, %v", seen, err)
		}
		report, err := service(f).Origins(t.Context(), offences.Query{From: q.From, To: q.To}, "asn")
		if err != nil || report.Total != 3 || report.Rows[0].Pattern.String() != "asn:64501" || report.Rows[0].Offences != 140 || report.Rows[1].Keys != 8 || !report.Rows[2].Pattern.IsZero() {
			t.Errorf("by network: %+v, %v", report, err)
		}
		d := service(f)
		d.View.Blocks().Apply(&blocks.Entry{ID: "a", Kind: blocks.Block, Pattern: keytest.Pattern(t, "ip:203.0.113.0/24"), Revision: 1}, f.Clock.Now())
		for state, want := range map[offences.Triage][2]int64{offences.TriageBlocked: {7, 30 + 27 + 8}, offences.TriageOpen: {9, 140 + 3 + 30}, offences.TriageExempt: {}} {
			report, err := d.Origins(t.Context(), offences.Query{From: q.From, To: q.To, State: state}, "asn")
			if err != nil || report.Keys != want[0] || report.Offences != want[1] {
				t.Errorf("%s by network: %+v, %v", state, report, err)
			}
		}
	})
}
