package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/auditfile"
	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// entryID reads the id of an audit entry from the path.
func entryID(c *httpserver.Call) (int64, error) {
	text, err := c.PathParam("id")
	if err != nil {
		return 0, err
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, fault.New(fault.NotFound, "There is no audit entry of that id; ids are whole numbers.")
	}
	return id, nil
}

// undoEntry takes a change back. The route asks for the access that blocks
// need; policies need more.
func (s *API) undoEntry(c *httpserver.Call) error {
	id, err := entryID(c)
	if err != nil {
		return err
	}
	var request wire.UndoRequest
	if err := c.DecodeOptional(&request); err != nil {
		return err
	}
	ctx := c.Context()
	e, err := s.Audit.FindRecordByID(ctx, id)
	if err != nil {
		return err
	}
	if e.Object != "block" && e.Object != "exemption" && !c.Principal.May(identity.Admin) {
		return fault.New(fault.Forbidden, "Undoing a change of this kind needs the access %q; the credential gives %s.", identity.Admin, httpserver.AccessList(c.Principal.Access))
	}
	if err := s.confirmUndo(ctx, e, request.Confirm); err != nil {
		return err
	}
	made, err := s.Undo.Undo(ctx, c.Actor(), id)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusCreated, auditfile.Entry(made))
}

// confirmUndo refuses to bring back what is broad until it is confirmed.
func (s *API) confirmUndo(ctx context.Context, e *audit.Record, confirm string) error {
	if e.Object == "policy" {
		before, after, err := blocklist.BroughtBackPolicy(e)
		if err != nil || confirm == e.ObjectID {
			return err
		}
		return blocklist.NeedConfirmPolicy(e.ObjectID, blocklist.BroadPolicy(before, after))
	}
	confirmed, err := s.confirmed(confirm)
	if err != nil {
		return err
	}
	pattern, err := blocklist.BroughtBack(e)
	if err != nil || pattern.IsZero() {
		return err
	}
	return s.confirmEntry(ctx, blocks.Kind(e.Object), pattern, confirmed)
}
