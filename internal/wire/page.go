package wire

// Page is one page of a list.
type Page[T any] struct {
	Items []T `json:"items"`
	// NextCursor is sent as ?cursor= for the page after, null on the last.
	NextCursor NullString `json:"next_cursor"`
	// Total counts everything that the filter selects. It is null where counting would
	// cost too much: in some lists always, in others on the pages after the first.
	Total *int `json:"total"`
}
