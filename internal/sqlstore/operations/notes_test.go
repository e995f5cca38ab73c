package operations_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/notes"
	"github.com/stint-dev/stint/test/storetest"
)

func TestNotesAreListedNewestFirstAndAudited(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		const key = `token:"><script>`
		first, err := f.Notes.AddNote(t.Context(), storetest.Operator, key, "  Same client as in July.\n")
		if err != nil {
			t.Fatal(err)
		}
		if first.Text != "Same client as in July." || first.Author != storetest.Operator.Name || !first.Created.Equal(f.Clock.Now()) {
			t.Errorf("got the note %+v", first)
		}
		f.Clock.Advance(time.Minute)
		second, err := f.Notes.AddNote(t.Context(), storetest.Operator, key, "Their desk has answered.")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Notes.AddNote(t.Context(), storetest.Operator, "token:other", "Another key."); err != nil {
			t.Fatal(err)
		}
		all, _, err := f.Notes.FindNotes(t.Context(), key, "", 0)
		if err != nil || len(all) != 2 || *all[0] != *second || *all[1] != *first {
			t.Fatalf("got %v, %v", all, err)
		}
		if gone, err := f.Notes.DeleteNote(t.Context(), storetest.Operator, first.ID); err != nil || gone.Text != first.Text {
			t.Fatalf("got %+v, %v", gone, err)
		}
		if _, err := f.Notes.DeleteNote(t.Context(), storetest.Operator, first.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("deleting a second time: got %v, want NotFound", err)
		}
		page, err := f.Audit.FindRecords(t.Context(), audit.Filter{Object: "note"})
		if err != nil || len(page.Records) != 4 {
			t.Fatalf("got %d audit records, want 4; %v", len(page.Records), err)
		}
		if e := page.Records[0]; e.Action != "note.delete" || e.Before == nil || e.After != nil || !strings.Contains(e.Summary, `\"><script>`) {
			t.Errorf("got the newest audit record %+v", e)
		}
	})
}

func TestAddNoteRejectsInvalidText(t *testing.T) {
	f := storetest.Open(t, t.TempDir()+"/stint.db")
	for _, text := range []string{"", " \n", strings.Repeat("a", notes.MaxText+1), "a\x00b", "\xff"} {
		if _, err := f.Notes.AddNote(t.Context(), storetest.Operator, "token:a", text); !fault.Is(err, fault.Invalid) {
			t.Errorf("AddNote(%.10q): got %v, want Invalid", text, err)
		}
	}
	// The field of the page counts characters.
	if _, err := f.Notes.AddNote(t.Context(), storetest.Operator, "token:a", strings.Repeat("é", notes.MaxText)); err != nil {
		t.Errorf("AddNote of %d characters with accents: %v", notes.MaxText, err)
	}
}
