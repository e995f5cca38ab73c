package sqlstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/notes"
)

func TestNotesOnAKeyAreKeptNewestFirstAndAudited(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		const key = `token:"><script>`
		first, err := f.AddNote(t.Context(), operator, key, "  Same client as in July.\n")
		if err != nil {
			t.Fatal(err)
		}
		if first.Text != "Same client as in July." || first.Author != operator.Name || !first.Created.Equal(f.clock.Now()) {
			t.Errorf("the note is %+v", first)
		}
		f.clock.Advance(time.Minute)
		second, err := f.AddNote(t.Context(), operator, key, "Their desk has answered.")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.AddNote(t.Context(), operator, "token:other", "Another key."); err != nil {
			t.Fatal(err)
		}
		all, err := f.FindNotes(t.Context(), key, 0)
		if err != nil || len(all) != 2 || *all[0] != *second || *all[1] != *first {
			t.Fatalf("got %v, %v", all, err)
		}
		if gone, err := f.DeleteNote(t.Context(), operator, first.ID); err != nil || gone.Text != first.Text {
			t.Fatalf("got %+v, %v", gone, err)
		}
		if _, err := f.DeleteNote(t.Context(), operator, first.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("deleting it twice: %v", err)
		}
		page, err := f.FindRecords(t.Context(), audit.Filter{Object: "note"})
		if err != nil || len(page.Records) != 4 {
			t.Fatalf("the audit has %d entries, %v", len(page.Records), err)
		}
		if e := page.Records[0]; e.Action != "note.delete" || e.Before == nil || e.After != nil || !strings.Contains(e.Summary, `\"><script>`) {
			t.Errorf("the newest entry is %+v", e)
		}
	})
}

func TestANoteWithoutTextOrWithTooMuchIsRefused(t *testing.T) {
	f := newFixture(t, t.TempDir()+"/stint.db")
	for _, text := range []string{"", " \n", strings.Repeat("a", notes.MaxText+1), "a\x00b", "\xff"} {
		if _, err := f.AddNote(t.Context(), operator, "token:a", text); !fault.Is(err, fault.Invalid) {
			t.Errorf("%.10q: got %v", text, err)
		}
	}
}
