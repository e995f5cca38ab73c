package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

var (
	opListNotes = &Operation{
		ID: "listNotes", Tag: "keys", Summary: "What operators wrote about a key.",
		Query:   []Param{{Name: "key", Doc: "The key, for example ip:203.0.113.7.", Required: true}, limitParam},
		Answers: ok("The notes, the newest first.", wire.Page[wire.Note]{}),
	}
	opAddNote = &Operation{
		ID: "addNote", Tag: "keys", Summary: "Write a note about a key, for others to read.", Body: wire.NoteRequest{},
		Answers: []Answer{{Status: http.StatusCreated, Doc: "The note.", Body: wire.Note{}}},
	}
	opDeleteNote = &Operation{
		ID: "deleteNote", Tag: "keys", Summary: "Delete a note. The audit keeps what it said.",
		Answers: []Answer{{Status: http.StatusNoContent, Doc: "It is deleted."}},
	}
)

func (s *API) listNotes(c *httpserver.Call) error {
	q := c.ParseQuery("key", "limit")
	limit := q.Limit()
	if q.Err() == nil && !q.Given("key") {
		q.Fail("key", "is missing; send for example ?key=ip:203.0.113.7")
	}
	if q.Err() != nil {
		return q.Err()
	}
	key, err := s.key(q.Raw("key"))
	if err != nil {
		return err
	}
	ctx := c.Context()
	all, err := s.Notes.FindNotes(ctx, key.String(), limit)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, wholePage(all, fromNote))
}

func (s *API) addNote(c *httpserver.Call) error {
	var request wire.NoteRequest
	if err := c.DecodeJSON(&request); err != nil {
		return err
	}
	key, err := s.key(request.Key)
	if err != nil {
		return err
	}
	ctx := c.Context()
	n, err := s.Notes.AddNote(ctx, c.Actor(), key.String(), request.Text)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusCreated, fromNote(n))
}

func (s *API) deleteNote(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	ctx := c.Context()
	if _, err := s.Notes.DeleteNote(ctx, c.Actor(), id); err != nil {
		return err
	}
	return c.SendStatus(http.StatusNoContent)
}
