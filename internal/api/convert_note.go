package api

import (
	"github.com/stint-dev/stint/internal/notes"
	"github.com/stint-dev/stint/internal/wire"
)

// fromNote shows one note.
func fromNote(n *notes.Note) wire.Note {
	return wire.Note{ID: n.ID, Key: n.Key, Text: n.Text, Author: n.Author, CreatedAt: wire.At(n.Created)}
}
