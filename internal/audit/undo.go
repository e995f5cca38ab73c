package audit

import "context"

// Undoer takes recorded changes back.
type Undoer interface {
	// Undo brings back what stood before a record, as a new change with a
	// record of its own, which it returns: an ended block is active again until its
	// old end, an added one is ended, a replaced policy gets its previous
	// version back as a new one, and so on. Undoing what it did brings the
	// change about again. Errors are *fault.Error: NotFound for an id that is
	// not there; Conflict where the thing has changed since, where its end has
	// passed, or where that kind of change cannot be undone.
	Undo(ctx context.Context, by Actor, id int64) (*Record, error)
}
