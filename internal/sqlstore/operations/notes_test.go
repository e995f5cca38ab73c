package operations_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/wire"
	"github.com/stint-dev/stint/test/storetest"
)

func TestNotesAreListedNewestFirstAndAudited(t *testing.T) {
	storetest.OnBoth(t, func(t *testing.T, f *storetest.Fixture) {
		const key = `token:"><script>`
		first, err := f.Notes.AddNote(t.Context(), storetest.Operator, wire.NoteRequest{Key: key, Text: "Same client as in July."})
		if err != nil {
			t.Fatal(err)
		}
		if first.Text != "Same client as in July." || first.Author != storetest.Operator.Name || !first.CreatedAt.Equal(f.Clock.Now()) {
			t.Errorf("got the note %+v", first)
		}
		f.Clock.Advance(time.Minute)
		second, err := f.Notes.AddNote(t.Context(), storetest.Operator, wire.NoteRequest{Key: key, Text: "Their desk has answered."})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Notes.AddNote(t.Context(), storetest.Operator, wire.NoteRequest{Key: "token:other", Text: "Another key."}); err != nil {
			t.Fatal(err)
		}
		all, err := f.Notes.FindNotes(t.Context(), wire.NoteList{Key: key})
		if err != nil || !slices.Equal(all.Items, []wire.Note{second, first}) {
			t.Fatalf("got %v, %v", all, err)
		}
		if err := f.Notes.DeleteNote(t.Context(), storetest.Operator, first.ID); err != nil {
			t.Fatal(err)
		}
		if err := f.Notes.DeleteNote(t.Context(), storetest.Operator, first.ID); !fault.Is(err, fault.NotFound) {
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
	for _, text := range []string{"a\x00b", "\xff"} {
		if _, err := f.Notes.AddNote(t.Context(), storetest.Operator, wire.NoteRequest{Key: "token:a", Text: text}); !fault.Is(err, fault.Invalid) {
			t.Errorf("AddNote(%q): got %v, want Invalid", text, err)
		}
	}
}
