package api

import (
	"net/http"

	v1 "github.com/stint-dev/stint/internal/api/v1"
)

var (
	opListNotes = &Operation{
		ID: "listNotes", Tag: "keys", Summary: "What operators wrote about a key.",
		Query:   []Param{{Name: "key", Doc: "The key, for example ip:203.0.113.7.", Required: true}, limitParam},
		Answers: ok("The notes, the newest first.", v1.Page[v1.Note]{}),
	}
	opAddNote = &Operation{
		ID: "addNote", Tag: "keys", Summary: "Write a note about a key, for others to read.", Body: v1.NoteRequest{},
		Answers: []Answer{{Status: http.StatusCreated, Doc: "The note.", Body: v1.Note{}}},
	}
	opDeleteNote = &Operation{
		ID: "deleteNote", Tag: "keys", Summary: "Delete a note. The audit keeps what it said.",
		Answers: []Answer{{Status: http.StatusNoContent, Doc: "It is deleted."}},
	}
)

func (s *Server) listNotes(c *Call) error {
	q := c.query("key", "limit")
	limit := q.limit()
	if q.err == nil && !q.given("key") {
		q.fail("key", "is missing; send for example ?key=ip:203.0.113.7")
	}
	if q.err != nil {
		return q.err
	}
	key, err := s.key(q.values["key"])
	if err != nil {
		return err
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	all, err := s.Notes.FindNotes(ctx, key.String(), limit)
	if err != nil {
		return err
	}
	return sendJSON(c, http.StatusOK, wholePage(all, v1.FromNote))
}

func (s *Server) addNote(c *Call) error {
	var request v1.NoteRequest
	if err := decodeJSON(c, &request); err != nil {
		return err
	}
	key, err := s.key(request.Key)
	if err != nil {
		return err
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	n, err := s.Notes.AddNote(ctx, c.Actor(), key.String(), request.Text)
	if err != nil {
		return err
	}
	return sendJSON(c, http.StatusCreated, v1.FromNote(n))
}

func (s *Server) deleteNote(c *Call) error {
	id, err := c.param("id")
	if err != nil {
		return err
	}
	ctx, cancel := c.StoreContext()
	defer cancel()
	if _, err := s.Notes.DeleteNote(ctx, c.Actor(), id); err != nil {
		return err
	}
	return c.SendStatus(http.StatusNoContent)
}
