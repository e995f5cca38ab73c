package entries_test

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/test/storetest"
)

func TestAddAllowsOneBlockPerPatternAndScope(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		now := f.Clock.Now()
		scoped := storetest.NewBlock(t, "token:a", now.Add(time.Hour))
		scoped.Scope = "login"
		login := storetest.AddEntry(t, f, scoped, blocks.Fail).Entry
		all := storetest.AddEntry(t, f, storetest.NewBlock(t, "token:a", time.Time{}), blocks.Fail)
		if login.Scope != "login" || all.Outcome != blocks.Created {
			t.Fatalf("added %+v and %+v", login, all)
		}
		_, err := f.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, scoped)
		storetest.WantFault(t, err, fault.Conflict)
		wrong := scoped
		wrong.Kind = blocks.Exemption
		_, err = f.Entries.Add(t.Context(), storetest.Operator, blocks.Fail, wrong)
		storetest.WantFault(t, err, fault.Invalid)
		if _, err := f.Entries.End(t.Context(), storetest.Operator, blocks.Block, "", login.ID); err != nil {
			t.Fatal(err)
		}
		restored, err := f.Entries.Restore(t.Context(), storetest.Operator, blocks.Block, login.ID)
		if err != nil || restored[0].Scope != "login" || !restored[0].ActiveAt(now) {
			t.Fatalf("restored %+v, %v", restored, err)
		}
		// An import replaces the block of the same scope only.
		longer := scoped
		longer.Expires = now.Add(2 * time.Hour)
		rows := func(yield func(blocks.Entry, error) bool) { yield(longer, nil) }
		result, err := f.Entries.Import(t.Context(), storetest.Operator, rows, blocks.Replace, nil)
		if err != nil || result.Replaced != 1 || result.Created != 0 {
			t.Errorf("imported %+v, %v", result, err)
		}
		page, err := f.Entries.Find(t.Context(), blocks.Filter{Kind: blocks.Block})
		if err != nil || len(page.Items) != 2 {
			t.Fatalf("%d blocks are active, want 2; %v", len(page.Items), err)
		}
		for _, e := range page.Items {
			if want := map[string]bool{"login": true, "": false}[e.Scope]; want != e.Expires.Equal(longer.Expires) {
				t.Errorf("active: %+v", e)
			}
		}
	})
}
