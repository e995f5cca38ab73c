package wire

// Page is one page of a list.
type Page[T any] struct {
	Items []T `json:"items"`
	// NextCursor is sent as ?cursor= for the page after, null on the last.
	NextCursor NullString `json:"next_cursor"`
	// Total counts everything that the filter selects. It is null where counting would
	// cost too much: in some lists always, in others on the pages after the first, and where
	// a filter selects more than 10,000 of what must be read to be counted.
	Total *int `json:"total"`
}

// WholeList is the part of an input that selects a page of a list, which is one page unless a
// request limits it.
type WholeList struct {
	Limit  int    `query:"limit" json:"-"`  // How many items a page holds, 1 to 1000; all if omitted.
	Cursor string `query:"cursor" json:"-"` // The next_cursor of the page before.
}

// PageList is the part of an input that selects a page of a long list.
type PageList struct {
	Cursor string `query:"cursor" json:"-"` // The next_cursor of the page before.
	Limit  int    `query:"limit" json:"-"`  // How many items a page holds, 1 to 1000; 100 if omitted.
}

// Whole returns a page that holds all items.
func Whole[T any](all []T) Page[T] {
	return WholePage(all, func(item T) T { return item })
}

// WholePage returns a page that holds all items.
func WholePage[T, W any](all []T, convert func(T) W) Page[W] {
	total := len(all)
	page := NewPage(all, "", convert)
	page.Total = &total
	return page
}

// NewPage returns one page of a list whose items are not counted. next is the cursor of the next
// page, "" for the last one.
func NewPage[T, W any](items []T, next string, convert func(T) W) Page[W] {
	page := Page[W]{Items: make([]W, 0, len(items)), NextCursor: NullString(next)}
	for _, item := range items {
		page.Items = append(page.Items, convert(item))
	}
	return page
}

// Texts returns the texts of all.
func Texts[T ~string](all []T) []string {
	texts := make([]string, len(all))
	for i, text := range all {
		texts[i] = string(text)
	}
	return texts
}
