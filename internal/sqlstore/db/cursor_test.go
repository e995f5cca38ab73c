package db_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/internal/sqlstore/db"
)

type listed struct {
	rank     int64
	text, id string
}

func TestPageOfReadsEachRowOnceInOrder(t *testing.T) {
	position := func(r listed) db.Position { return db.Position{Rank: r.rank, Text: r.text, ID: r.id} }
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) listed {
			return listed{rapid.Int64Range(-2, 2).Draw(t, "rank"), rapid.SampledFrom([]string{"", "a b", "a", "ü"}).Draw(t, "text"), rapid.StringMatching(`[a-z0-9.-]{1,2}`).Draw(t, "id")}
		}), 0, 20, func(r listed) string { return r.id }).Draw(t, "rows")
		want, err := db.PageOf(slices.Clone(rows), "o", "", 0, position)
		if err != nil || want.Next != "" || len(want.Items) != len(rows) || want.Total != len(rows) {
			t.Fatalf("all: got %v, %v", want, err)
		}
		limit, cursor := rapid.IntRange(1, 6).Draw(t, "limit"), ""
		var got []listed
		for {
			page, err := db.PageOf(slices.Clone(rows), "o", cursor, limit, position)
			if err != nil || len(page.Items) > limit || page.Total != len(rows) {
				t.Fatalf("got %v, %v", page, err)
			}
			if got = append(got, page.Items...); page.Next == "" {
				break
			}
			cursor = page.Next
		}
		if !slices.Equal(got, want.Items) {
			t.Errorf("got %v, want %v", got, want.Items)
		}
	})
}
