package audit

import "context"

// Undoer undoes recorded changes.
type Undoer interface {
	// Undo restores what was before a change, as a new change, and returns its
	// record: an ended block is active again until its former expiry, an added
	// one is ended, a replaced policy gets its previous version back as a new
	// one, and so on. Undoing that record makes the first change again. Errors
	// are *fault.Error: NotFound for an unknown id; Conflict where the object has
	// changed since, where its expiry has passed, or where that kind of change
	// cannot be undone.
	Undo(ctx context.Context, by Actor, id int64) (*Record, error)
}
