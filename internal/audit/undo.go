package audit

import "context"

// Undoer takes recorded changes back.
type Undoer interface {
	// UndoEntry brings back what stood before an entry, as a new change with an
	// entry of its own, which it returns: a lifted block stands again until its
	// old end, an added one is lifted, a replaced policy gets its previous
	// version back as a new one, and so on. Undoing what it did brings the
	// change about again. Errors are *fault.Error: NotFound for an id that is
	// not there; Conflict where the thing has changed since, where its end has
	// passed, or where that kind of change cannot be undone.
	UndoEntry(ctx context.Context, by Actor, id int64) (*Entry, error)
}
