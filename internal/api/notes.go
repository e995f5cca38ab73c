package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/notes"
	"github.com/stint-dev/stint/internal/wire"
)

// noteHandler serves the notes on keys.
type noteHandler struct {
	keys *admin.Keys
}

func (h *noteHandler) routes() []route {
	return []route{
		onAdmin(get, wire.PathNotes, identity.Read, h.listNotes, opListNotes),
		onAdmin(post, wire.PathNotes, identity.Operate, h.addNote, opAddNote),
		onAdmin(del, wire.PathNotes+"/:id", identity.Operate, h.deleteNote, opDeleteNote),
	}
}

var (
	opListNotes = &openapi.Operation{
		ID: "listNotes", Tag: "keys", Summary: "List the notes about a key.",
		Query:   []openapi.Param{{Name: "key", Doc: "The key, for example ip:203.0.113.7.", Required: true}, cursorParam, limitParam},
		Answers: ok("The notes, the newest first.", wire.Page[wire.Note]{}),
	}
	opAddNote = &openapi.Operation{
		ID: "addNote", Tag: "keys", Summary: "Add a note about a key, for other operators.", Body: wire.NoteRequest{},
		Answers: []openapi.Answer{{Status: http.StatusCreated, Doc: "The note.", Body: wire.Note{}}},
	}
	opDeleteNote = &openapi.Operation{
		ID: "deleteNote", Tag: "keys", Summary: "Delete a note. The audit keeps its text.",
		Answers: []openapi.Answer{{Status: http.StatusNoContent, Doc: "It is deleted."}},
	}
)

func (h *noteHandler) listNotes(c *httpserver.Call) error {
	q := c.ParseQuery("key", "cursor", "limit")
	cursor, limit := q.Raw("cursor"), q.Limit()
	if q.Err() == nil && !q.Given("key") {
		q.Fail("key", "is missing; send for example ?key=ip:203.0.113.7")
	}
	if q.Err() != nil {
		return q.Err()
	}
	key, err := h.keys.Parse(q.Raw("key"))
	if err != nil {
		return err
	}
	page, next, err := h.keys.FindNotes(c.Context(), key, cursor, limit)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, routes.CursorPage(page, next, fromNote))
}

func (h *noteHandler) addNote(c *httpserver.Call) error {
	var request wire.NoteRequest
	if err := c.DecodeJSON(&request); err != nil {
		return err
	}
	n, err := h.keys.AddNote(c.Context(), callerOf(c), request.Key, request.Text)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusCreated, fromNote(n))
}

func (h *noteHandler) deleteNote(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	if _, err := h.keys.DeleteNote(c.Context(), callerOf(c), id); err != nil {
		return err
	}
	return c.SendStatus(http.StatusNoContent)
}

// fromNote returns a note as the API shows it.
func fromNote(n *notes.Note) wire.Note {
	return wire.Note{ID: n.ID, Key: n.Key, Text: n.Text, Author: n.Author, CreatedAt: wire.At(n.Created)}
}
