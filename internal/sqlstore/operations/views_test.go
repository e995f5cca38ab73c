package operations_test

import (
	"fmt"
	"testing"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/test/storetest"
)

func TestViewsAreSavedRenamedAndDeleted(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, s *storetest.Fixture) {
		ctx, by, other := t.Context(), storetest.Operator, audit.Actor{Kind: storetest.Operator.Kind, ID: "other", Name: "other"}
		second, err := s.Views.AddView(ctx, by, "b", "last=1h")
		if err != nil {
			t.Fatal(err)
		}
		first, err := s.Views.AddView(ctx, by, "a 'quoted' <b>", "state=open")
		if err != nil {
			t.Fatal(err)
		}
		if all, err := s.Views.FindViews(ctx); err != nil || len(all) != 2 || all[0] != first || all[1] != second {
			t.Fatalf("got %+v, %v; want %+v and %+v", all, err, first, second)
		}
		taken, free, query := "b", "B", "sort=key"
		if _, err := s.Views.ChangeView(ctx, other, first.ID, &taken, nil); !fault.Is(err, fault.Conflict) {
			t.Errorf("renaming to a name in use: got %v, want Conflict", err)
		}
		if _, err := s.Views.AddView(ctx, by, "b", ""); !fault.Is(err, fault.Conflict) {
			t.Errorf("a second view of the same name: got %v, want Conflict", err)
		}
		changed, err := s.Views.ChangeView(ctx, other, first.ID, &free, &query)
		if err != nil || changed.Name != free || changed.Query != query || changed.Author != by.Name || changed.UpdatedBy != other.Name {
			t.Errorf("ChangeView() = %+v, %v", changed, err)
		}
		if found, err := s.Views.FindView(ctx, first.ID); err != nil || found != changed {
			t.Errorf("found %+v, %v; want %+v", found, err, changed)
		}
		for _, id := range []string{"nobody", "\x00", ""} {
			if err := s.Views.DeleteView(ctx, by, id); !fault.Is(err, fault.NotFound) {
				t.Errorf("DeleteView(%q): got %v, want NotFound", id, err)
			}
		}
		if err := s.Views.DeleteView(ctx, by, first.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Views.FindView(ctx, first.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("FindView of a deleted view: got %v, want NotFound", err)
		}
		for i := range offences.MaxSavedViews - 1 {
			if _, err := s.Views.AddView(ctx, by, fmt.Sprint(i), ""); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Views.AddView(ctx, by, "one more", ""); !fault.Is(err, fault.Conflict) {
			t.Errorf("saving more than %d views: got %v, want Conflict", offences.MaxSavedViews, err)
		}
	})
}
