package wire

// PathNotes is the path of what is declared here.
const PathNotes = "/v1/keys/notes"

// Note is what an operator wrote about a key.
type Note struct {
	ID        string `json:"id"`
	Key       string `json:"key"`
	Text      string `json:"text"` // what the operator wrote
	Author    string `json:"author"`
	CreatedAt Time   `json:"created_at"`
}

// NoteRequest writes a note about a key, of at most 2,000 characters.
type NoteRequest struct {
	Key  string `json:"key"`
	Text string `json:"text"` // 1 to 2,000 characters
}

// NoteList selects the notes about a key.
type NoteList struct {
	Key string `query:"key" json:"-" required:"send for example ?key=ip:203.0.113.7"` // The key, for example ip:203.0.113.7.
	PageList
}

// The operations of notes.
var (
	ListNotes = Op[NoteList, Page[Note]]{
		ID: "listNotes", Route: "GET " + PathNotes, Access: "read", Tag: TagKeys,
		Summary: "List the notes about a key.", Answer: "The notes, the newest first.",
	}
	AddNote = Op[NoteRequest, Note]{
		ID: "addNote", Route: "POST " + PathNotes, Access: "operate", Tag: TagKeys, Created: true,
		Summary: "Add a note about a key, for other operators.", Answer: "The note.",
	}
	DeleteNote = Op[ByID, None]{
		ID: "deleteNote", Route: "DELETE " + PathNotes + "/:id", Access: "operate", Tag: TagKeys,
		Summary: "Delete a note. The audit keeps its text.", Answer: "It is deleted.",
	}
)
