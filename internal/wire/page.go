package wire

// Page is one page of a list.
type Page[T any] struct {
	Items []T `json:"items"`
	// NextCursor is sent as ?cursor= for the page after, null on the last.
	NextCursor NullString `json:"next_cursor"`
	// Total counts everything that the filter selects, null where counting
	// would cost too much.
	Total *int `json:"total"`
}
