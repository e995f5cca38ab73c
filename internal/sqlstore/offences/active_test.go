package offences_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/test/keytest"
	"github.com/stint-dev/stint/test/storetest"
)

func TestActiveKeysAreListedWhetherOrNotTheyWereRefused(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		n := newCounting(t, f.Offences, f.Clock, "a", nil)
		s := service(f, n.policy)
		block := &blocks.Entry{Kind: blocks.Block, Pattern: keytest.Pattern(t, "ip:203.0.113.9")}
		n.allowed("ip:192.0.2.1", 7)
		n.allowed("ip:203.0.113.9", 1)
		n.limited("ip:203.0.113.9", 3)
		n.record(gate.Blocked, "ip:203.0.113.9", 5, block)
		n.flush()
		f.Clock.Advance(20 * time.Minute)
		n.allowed("ip:192.0.2.1", 4)
		n.allowed("token:a_b", 1)
		for i := range 5 {
			n.allowed("token:other"+strconv.Itoa(i), 2)
		}
		n.flush()
		query := offences.ActiveQuery{From: f.Clock.Now().Add(-time.Hour), To: f.Clock.Now().Add(time.Minute)}
		list := func(change func(*offences.ActiveQuery)) (rows []offences.ActiveKey, pages int) {
			t.Helper()
			q := query
			change(&q)
			for {
				active, err := s.ActiveKeys(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				rows, pages = append(rows, active.Rows...), pages+1
				if q.Cursor = active.Next; active.Next == "" {
					if int(active.Keys) != len(rows) {
						t.Errorf("%d keys are counted and %d listed", active.Keys, len(rows))
					}
					return rows, pages
				}
			}
		}
		if rows, pages := list(func(q *offences.ActiveQuery) { q.NeverRefused, q.Limit = true, 5 }); len(rows) != 7 || pages != 2 || slices.ContainsFunc(rows, func(k offences.ActiveKey) bool { return k.Limited+k.Blocked > 0 }) {
			t.Errorf("the keys that were never refused have %d pages: %+v, want 7 keys on 2", pages, rows)
		}
		rows, pages := list(func(q *offences.ActiveQuery) { q.Limit = 3 })
		want := []offences.ActiveKey{
			{Key: "ip:192.0.2.1", Allowed: 11}, {Key: "ip:203.0.113.9", Allowed: 1, Limited: 3, Blocked: 5},
			{Key: "token:other0", Allowed: 2}, {Key: "token:other1", Allowed: 2}, {Key: "token:other2", Allowed: 2}, {Key: "token:other3", Allowed: 2},
			{Key: "token:other4", Allowed: 2}, {Key: "token:a_b", Allowed: 1},
		}
		if !slices.Equal(rows, want) || pages != 3 {
			t.Errorf("the list has %d pages: %+v, want %+v", pages, rows, want)
		}
		for name, c := range map[string]struct {
			change func(*offences.ActiveQuery)
			keys   []string
		}{
			"a part":         {func(q *offences.ActiveQuery) { q.Search = "192.0.2" }, []string{"ip:192.0.2.1"}},
			"a star is text": {func(q *offences.ActiveQuery) { q.Search = "A_B" }, []string{"token:a_b"}},
			"a network":      {func(q *offences.ActiveQuery) { q.Pattern = keytest.Pattern(t, "ip:192.0.0.0/16") }, []string{"ip:192.0.2.1"}},
			"a policy":       {func(q *offences.ActiveQuery) { q.Policy = n.policy.ID + 1 }, nil},
			"never refused":  {func(q *offences.ActiveQuery) { q.NeverRefused, q.Pattern = true, keytest.Pattern(t, "ip:*") }, []string{"ip:192.0.2.1"}},
			"earlier":        {func(q *offences.ActiveQuery) { q.To = f.Clock.Now().Add(-10 * time.Minute) }, []string{"ip:203.0.113.9", "ip:192.0.2.1"}},
		} {
			rows, _ := list(c.change)
			var got []string
			for _, r := range rows {
				got = append(got, r.Key)
			}
			if !slices.Equal(got, c.keys) {
				t.Errorf("by %s: %q, want %q", name, got, c.keys)
			}
		}
	})
}

// TestRequestsFromBeforeALongBlockAreFound finds a refusal of a policy from before a block that refused in
// more minutes than are read.
func TestRequestsFromBeforeALongBlockAreFound(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		const key = "ip:203.0.113.7"
		n := newCounting(t, f.Offences, f.Clock, "a", nil)
		s := service(f, n.policy)
		s.Secret = func() []byte { return offenceSecret }
		n.limited(key, 3)
		block := &blocks.Entry{Kind: blocks.Block, ID: "b1", Pattern: keytest.Pattern(t, key)}
		for range 12 {
			f.Clock.Advance(time.Minute)
			n.record(gate.Blocked, key, 2, block)
		}
		n.flush()
		all, isIncomplete, err := s.KeyRequests(t.Context(), key)
		if err != nil || isIncomplete || len(all) == 0 {
			t.Fatalf("%+v, %t, %v", all, isIncomplete, err)
		}
		if first, last := all[0], all[len(all)-1]; first.Outcome != "blocked" || last.Outcome != "limited" || last.Path != "/x" {
			t.Errorf("the newest is %+v and the oldest %+v, want one that the policy refused", first, last)
		}
	})
}
