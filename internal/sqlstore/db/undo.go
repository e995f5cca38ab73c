package db

import (
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
)

// NotUndoable returns the error that no change of this kind can be undone.
func NotUndoable(e *audit.Record) error {
	return fault.New(fault.Conflict, "Entry %d, %q, cannot be undone.", e.ID, e.Action)
}

// ChangedSince returns the error that the object of a record was changed again.
func ChangedSince(e *audit.Record) error {
	return fault.New(fault.Conflict, "The %s has changed since entry %d; undo the later change first.", e.Object, e.ID)
}
