package api

import (
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// entryHandler serves the blocks and the exemptions.
type entryHandler struct {
	common
	entries *admin.Entries
}

func (h *entryHandler) routes() []route {
	const (
		block     = wire.PathBlocks + "/:id"
		exemption = wire.PathExemptions + "/:id"
	)
	return []route{
		routes.Answers(wire.PreviewBlock, h.previewBlock),
		streamed(post, wire.PathBlockImport, identity.Operate, ofKind(blocks.Block, h.importEntries), opImportBlocks),
		onAdmin(get, wire.PathBlockExport, identity.Read, ofKind(blocks.Block, h.exportEntries), opExportBlocks),

		onAdmin(get, wire.PathBlocks, identity.Read, ofKind(blocks.Block, h.listEntries), opListBlocks),
		onAdmin(post, wire.PathBlocks, identity.Operate, ofKind(blocks.Block, h.addEntry), opAddBlock),
		onAdmin(get, block, identity.Read, ofKind(blocks.Block, h.getEntry), opGetBlock),
		onAdmin(patch, block, identity.Operate, ofKind(blocks.Block, h.changeEntry), opChangeBlock),
		onAdmin(del, block, identity.Operate, ofKind(blocks.Block, h.endEntry), opEndBlock),
		onAdmin(post, block+"/restore", identity.Operate, ofKind(blocks.Block, h.restoreEntry), opRestoreBlock),

		streamed(post, wire.PathExemptionImport, identity.Operate, ofKind(blocks.Exemption, h.importEntries), opImportExemptions),
		onAdmin(get, wire.PathExemptionExport, identity.Read, ofKind(blocks.Exemption, h.exportEntries), opExportExemptions),

		onAdmin(get, wire.PathExemptions, identity.Read, ofKind(blocks.Exemption, h.listEntries), opListExemptions),
		onAdmin(post, wire.PathExemptions, identity.Operate, ofKind(blocks.Exemption, h.addEntry), opAddExemption),
		onAdmin(get, exemption, identity.Read, ofKind(blocks.Exemption, h.getEntry), opGetExemption),
		onAdmin(patch, exemption, identity.Operate, ofKind(blocks.Exemption, h.changeEntry), opChangeExemption),
		onAdmin(del, exemption, identity.Operate, ofKind(blocks.Exemption, h.endEntry), opEndExemption),
		onAdmin(post, exemption+"/restore", identity.Operate, ofKind(blocks.Exemption, h.restoreEntry), opRestoreExemption),
	}
}

func (h *entryHandler) listEntries(c *httpserver.Call, kind blocks.Kind) error {
	f, err := h.entryFilter(c, kind, filterParams)
	if err != nil {
		return err
	}
	f.Uncounted = f.Cursor != "" // the first page has the count, which reads every match
	page, err := h.entries.Find(c.Context(), f)
	if err != nil {
		return err
	}
	out := routes.CursorPage(page.Items, page.Next, h.wireEntry)
	if err := h.nameSources(c, out.Items); err != nil {
		return err
	}
	if !f.Uncounted {
		out.Total = &page.Total
	}
	return c.SendJSON(http.StatusOK, out)
}

func (h *entryHandler) getEntry(c *httpserver.Call, kind blocks.Kind) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	e, err := h.entries.ByID(c.Context(), kind, id)
	if err != nil {
		return err
	}
	return h.sendEntry(c, e)
}

func (h *entryHandler) addEntry(c *httpserver.Call, kind blocks.Kind) error {
	var request wire.AddEntry
	if err := c.DecodeJSON(&request); err != nil {
		return err
	}
	all, err := h.entries.Add(c.Context(), callerOf(c), admin.AddEntries{
		Kind: kind, Patterns: []string{request.Pattern}, Literal: request.Literal, Scope: request.Scope, Action: blocks.Action(request.Action), Reason: request.Reason, Expiry: admin.ExpiryOf(request.ExpiresIn, request.ExpiresAt),
		OnConflict: blocks.Conflict(request.OnConflict), Source: request.Source, Confirm: request.Confirm,
	})
	if err != nil {
		return err
	}
	entries := make([]wire.Entry, len(all))
	for i, added := range all {
		entries[i] = h.wireEntry(added.Entry)
	}
	if err := h.nameSources(c, entries); err != nil {
		return err
	}
	answer := wire.AddedEntry{Added: h.added(all[0], entries[0])}
	for i, other := range all[1:] {
		answer.Others = append(answer.Others, h.added(other, entries[i+1]))
	}
	return sendAdded(c, all[0].Outcome, entryPath(kind)+"/"+all[0].Entry.ID, answer)
}

func (h *entryHandler) added(added admin.Added, entry wire.Entry) wire.Added {
	answer := wire.Added{Entry: entry, Outcome: string(added.Outcome), Warnings: notNil(added.Warnings)}
	if added.Before != nil {
		before := h.wireEntry(added.Before)
		answer.Before = &before
	}
	return answer
}

// notNil returns all as a list that is [] in JSON if it is empty.
func notNil(all []string) []string {
	if all == nil {
		return []string{}
	}
	return all
}

// sendAdded answers 201 if an entry was created.
func sendAdded(c *httpserver.Call, outcome blocks.Outcome, location string, answer any) error {
	status := http.StatusOK
	if outcome == blocks.Created || outcome == blocks.Replaced {
		status = http.StatusCreated
		c.Set(fiber.HeaderLocation, location)
	}
	return c.SendJSON(status, answer)
}

func (h *entryHandler) changeEntry(c *httpserver.Call, kind blocks.Kind) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	var patch wire.EntryPatch
	if err := c.DecodeJSON(&patch); err != nil {
		return err
	}
	update := admin.UpdateEntry{Revision: patch.Revision, Confirm: patch.Confirm}
	if patch.Reason.Given {
		update.Reason = &patch.Reason.Value
	}
	if update.Expiry, err = admin.ExpiryChange(patch.ExpiresIn, patch.ExpiresAt); err != nil {
		return err
	}
	e, err := h.entries.Update(c.Context(), callerOf(c), kind, id, update)
	if err != nil {
		return err
	}
	return h.sendEntry(c, e)
}

// endEntry ends an entry. The reason is in the body or, for clients that cannot send a body
// with DELETE, in the query.
func (h *entryHandler) endEntry(c *httpserver.Call, kind blocks.Kind) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	q := c.ParseQuery("reason", "source", "pattern")
	request := wire.EndRequest{Reason: q.Line("reason"), Source: q.Line("source"), Pattern: q.Line("pattern")}
	if q.Err() != nil {
		return q.Err()
	}
	if err := c.DecodeOptional(&request); err != nil {
		return err
	}
	if request.Source != "" {
		e, err := h.entries.EndShare(c.Context(), callerOf(c), kind, id, request.Source, request.Pattern, request.Reason)
		if err != nil {
			return err
		}
		return h.sendEntry(c, e)
	}
	if request.Pattern != "" {
		return fault.Field("pattern", "is possible with a source only")
	}
	ended, err := h.entries.End(c.Context(), callerOf(c), kind, request.Reason, id)
	if err != nil {
		return err
	}
	return h.sendEntry(c, ended[0])
}

func (h *entryHandler) restoreEntry(c *httpserver.Call, kind blocks.Kind) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	var request wire.RestoreRequest
	if err := c.DecodeOptional(&request); err != nil {
		return err
	}
	restored, err := h.entries.Restore(c.Context(), callerOf(c), kind, request.Confirm, id)
	if err != nil {
		return err
	}
	return h.sendEntry(c, restored[0])
}

// sendEntry answers with an entry and its sources.
func (h *entryHandler) sendEntry(c *httpserver.Call, e *blocks.Entry) error {
	out := []wire.Entry{h.wireEntry(e)}
	if err := h.nameSources(c, out); err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, out[0])
}

// nameSources adds their sources to entries.
func (h *entryHandler) nameSources(c *httpserver.Call, all []wire.Entry) error {
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i].ID
	}
	shares, err := h.entries.Shares(c.Context(), ids...)
	for i := range all {
		for _, s := range shares[all[i].ID] {
			all[i].Sources = append(all[i].Sources, wire.EntrySource{Name: s.Name, Pattern: s.Ref, Reason: s.Reason, Author: s.Author, Kind: string(s.Source), ExpiresAt: wire.At(s.Expires)})
		}
	}
	return err
}

// filterParams are the query parameters of the lists of entries.
var filterParams = []string{"state", "source", "author", "search", "key", "within", "literal", "lists", "order", "cursor", "limit"}

// entryFilter reads a filter of the entries of one kind.
func (h *entryHandler) entryFilter(c *httpserver.Call, kind blocks.Kind, params []string) (blocks.Filter, error) {
	q := c.ParseQuery(params...)
	f := blocks.Filter{
		Kind:   kind,
		State:  q.OneOf("state", "active", "ended", "all"),
		Holder: q.Line("source"),
		Author: q.Line("author"),
		Search: q.Line("search"),
		Order:  blocks.Order(q.OneOf("order", string(blocks.ByCreated), string(blocks.ByExpiry))),
		Cursor: q.Line("cursor"),
		Limit:  q.Limit(),
	}
	literal := q.Flag("literal")
	f.Lists = q.Flag("lists")
	if q.Err() != nil {
		return f, q.Err()
	}
	switch kind := blocks.Source(f.Holder); kind {
	case blocks.Manual, blocks.Automatic, blocks.Imported, blocks.Listed: // no source has such a name
		f.Source, f.Holder = kind, ""
	}
	var err error
	if q.Given("key") {
		if f.Key, err = h.key(q.Raw("key")); err != nil {
			return f, err
		}
	}
	if q.Given("within") {
		reading := admin.FilterReading(h.catalog)
		reading.Literal = literal
		f.Within, err = fault.ReadPattern(reading, "within", q.Raw("within"))
	}
	return f, err
}

// ofKind binds a handler to one kind of entry.
func ofKind(kind blocks.Kind, h func(*httpserver.Call, blocks.Kind) error) httpserver.Handler {
	return func(c *httpserver.Call) error { return h(c, kind) }
}

// entryPath returns the path of the entries of one kind.
func entryPath(kind blocks.Kind) string {
	if kind == blocks.Exemption {
		return wire.PathExemptions
	}
	return wire.PathBlocks
}

// fromEntry returns a block or exemption as the API shows it at an instant. policy is the name
// of the policy of an automatic block, "" for other entries.
func fromEntry(e *blocks.Entry, policy string, now time.Time) wire.Entry {
	out := wire.Entry{
		ID: e.ID, Kind: string(e.Kind), Pattern: e.Pattern.String(), Scope: e.ScopeOfChecks(), Action: string(e.Action), Reason: e.Reason, Author: e.Author, Source: string(e.Source),
		Policy: wire.NullString(policy), Active: e.ActiveAt(now), CreatedAt: wire.At(e.Created.Time()), ExpiresAt: wire.At(e.Expires),
		EndedAt: wire.At(e.Ended()), EndedBy: wire.NullString(e.EndedBy()), Revision: e.Revision,
	}
	if e.Level > 0 {
		out.Level = &e.Level
	}
	return out
}
