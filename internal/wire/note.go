package wire

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
