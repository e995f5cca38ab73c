package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/wire"
)

// viewHandler serves the saved views of the offenders.
type viewHandler struct {
	views *admin.Views
}

func (h *viewHandler) routes() []route {
	const one = wire.PathViews + "/:id"
	return []route{
		onAdmin(get, wire.PathViews, identity.Read, h.listViews, opListViews),
		onAdmin(post, wire.PathViews, identity.Operate, h.addView, opAddView),
		onAdmin(get, one, identity.Read, h.getView, opGetView),
		onAdmin(patch, one, identity.Operate, h.changeView, opChangeView),
		onAdmin(del, one, identity.Operate, h.deleteView, opDeleteView),
	}
}

var (
	opListViews = &openapi.Operation{
		ID: "listViews", Tag: "offenders", Summary: "List the saved views of the offenders.",
		Answers: ok("The views, by name.", wire.Page[wire.View]{}),
	}
	opAddView = &openapi.Operation{
		ID: "addView", Tag: "offenders", Summary: "Save a filter of the offenders, its order and time range under a name, for all users.", Body: wire.ViewRequest{},
		Answers: []openapi.Answer{{Status: http.StatusCreated, Doc: "The view.", Body: wire.View{}}},
	}
	opGetView    = &openapi.Operation{ID: "getView", Tag: "offenders", Summary: "Show a saved view.", Answers: ok("The view.", wire.View{})}
	opChangeView = &openapi.Operation{
		ID: "changeView", Tag: "offenders", Summary: "Rename a saved view, or replace what it shows.", Body: wire.ViewPatch{},
		Answers: ok("The view.", wire.View{}),
	}
	opDeleteView = &openapi.Operation{
		ID: "deleteView", Tag: "offenders", Summary: "Delete a saved view.",
		Answers: []openapi.Answer{{Status: http.StatusNoContent, Doc: "It is deleted."}},
	}
)

func (h *viewHandler) listViews(c *httpserver.Call) error {
	if err := c.ParseQuery().Err(); err != nil {
		return err
	}
	all, err := h.views.List(c.Context())
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, singlePage(all, fromView))
}

func (h *viewHandler) getView(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	found, err := h.views.Find(c.Context(), id)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, fromView(found))
}

func (h *viewHandler) addView(c *httpserver.Call) error {
	var request wire.ViewRequest
	if err := c.DecodeJSON(&request); err != nil {
		return err
	}
	made, err := h.views.Save(c.Context(), callerOf(c), request.Name, request.Query)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusCreated, fromView(made))
}

func (h *viewHandler) changeView(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	var change wire.ViewPatch
	if err := c.DecodeJSON(&change); err != nil {
		return err
	}
	var name, query *string
	if change.Name.Given {
		name = &change.Name.Value
	}
	if change.Query.Given {
		query = &change.Query.Value
	}
	if name == nil && query == nil {
		return fault.Field("name", "is missing; send name, query or both")
	}
	changed, err := h.views.Change(c.Context(), callerOf(c), id, name, query)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, fromView(changed))
}

func (h *viewHandler) deleteView(c *httpserver.Call) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	if err := h.views.Delete(c.Context(), callerOf(c), id); err != nil {
		return err
	}
	return c.SendStatus(http.StatusNoContent)
}

// fromView returns a saved view as the API shows it.
func fromView(v offences.SavedView) wire.View {
	return wire.View{
		ID: v.ID, Name: v.Name, Query: v.Query, Author: v.Author, CreatedAt: wire.At(v.Created), UpdatedAt: wire.At(v.Updated), UpdatedBy: v.UpdatedBy,
	}
}
