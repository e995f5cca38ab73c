package api

import (
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

// entryHandler serves the blocks and the exemptions.
type entryHandler struct {
	common
	entries blocks.Store
	traffic blocklist.TrafficEstimator // nil if nothing is recorded
}

func (h *entryHandler) routes() []route {
	const (
		block     = wire.PathBlocks + "/:id"
		exemption = wire.PathExemptions + "/:id"
	)
	return []route{
		onAdmin(post, wire.PathBlockPreview, identity.Read, h.previewBlock, opPreviewBlock),
		streamed(post, wire.PathBlockImport, identity.Operate, h.importBlocks, opImportBlocks),
		onAdmin(get, wire.PathBlockExport, identity.Read, h.exportBlocks, opExportBlocks),

		onAdmin(get, wire.PathBlocks, identity.Read, ofKind(blocks.Block, h.listEntries), opListBlocks),
		onAdmin(post, wire.PathBlocks, identity.Operate, ofKind(blocks.Block, h.addEntry), opAddBlock),
		onAdmin(get, block, identity.Read, ofKind(blocks.Block, h.getEntry), opGetBlock),
		onAdmin(patch, block, identity.Operate, ofKind(blocks.Block, h.changeEntry), opChangeBlock),
		onAdmin(del, block, identity.Operate, ofKind(blocks.Block, h.endEntry), opEndBlock),
		onAdmin(post, block+"/restore", identity.Operate, ofKind(blocks.Block, h.restoreEntry), opRestoreBlock),

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
	page, err := h.entries.Find(c.Context(), f)
	if err != nil {
		return err
	}
	out := singlePage(page.Items, h.wireEntry)
	out.NextCursor, out.Total = wire.NullString(page.Next), &page.Total
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
	return c.SendJSON(http.StatusOK, h.wireEntry(e))
}

// added is what a request to add a block or an exemption comes to.
type added struct {
	pattern  keys.Pattern
	reason   string
	expires  time.Time
	conflict blocks.Conflict
	// confirmed is the pattern that was sent as confirmation, zero for none.
	confirmed keys.Pattern
}

func (h *entryHandler) readAdded(c *httpserver.Call) (added, error) {
	var request wire.AddEntry
	if err := c.DecodeJSON(&request); err != nil {
		return added{}, err
	}
	pattern, err := h.pattern("pattern", request.Pattern)
	if err != nil {
		return added{}, err
	}
	if err := httpserver.CheckLine("reason", request.Reason, maxReason); err != nil {
		return added{}, err
	}
	expires, err := h.expiry(request.ExpiresIn, request.ExpiresAt)
	if err != nil {
		return added{}, err
	}
	conflict := blocks.Conflict(request.OnConflict)
	switch conflict {
	case "":
		conflict = blocks.Fail
	case blocks.Fail, blocks.Extend, blocks.Replace:
	default:
		return added{}, fault.Field("on_conflict", "must be fail, extend or replace")
	}
	a := added{pattern: pattern, reason: request.Reason, expires: expires, conflict: conflict}
	a.confirmed, err = h.confirmation(request.Confirm)
	return a, err
}

func (h *entryHandler) addEntry(c *httpserver.Call, kind blocks.Kind) error {
	a, err := h.readAdded(c)
	if err != nil {
		return err
	}
	actor := c.Actor()
	ctx := c.Context()
	if err := h.confirmEntry(ctx, kind, a.pattern, a.confirmed); err != nil {
		return err
	}
	all, err := h.entries.Add(ctx, actor, a.conflict, blocks.Entry{
		Kind: kind, Pattern: a.pattern, Reason: a.reason, Author: actor.Name, Source: blocks.Manual, Expires: a.expires,
	})
	if err != nil {
		return err
	}
	done := all[0]
	answer := wire.AddedEntry{
		Entry: h.wireEntry(done.Entry), Outcome: string(done.Outcome),
		Warnings: append(widenedWarnings(a.pattern), h.overlapWarnings(kind, a.pattern)...),
	}
	if kind == blocks.Block && h.surveyor().BlocksCaller(a.pattern, c.Address) {
		answer.Warnings = append(answer.Warnings, "This block refuses your own address, "+c.Address.String()+".")
	}
	if done.Before != nil {
		before := h.wireEntry(done.Before)
		answer.Before = &before
	}
	return sendAdded(c, done.Outcome, entryPath(kind)+"/"+done.Entry.ID, answer)
}

// sendAdded answers 201 where something new was made.
func sendAdded(c *httpserver.Call, outcome blocks.Outcome, location string, answer any) error {
	status := http.StatusOK
	if outcome == blocks.Created || outcome == blocks.Replaced {
		status = http.StatusCreated
		c.Set(fiber.HeaderLocation, location)
	}
	return c.SendJSON(status, answer)
}

func (h *entryHandler) changeEntry(c *httpserver.Call, kind blocks.Kind) error {
	id, change, err := h.readChange(c)
	if err != nil {
		return err
	}
	ctx := c.Context()
	e, err := h.entries.ByID(ctx, kind, id)
	if err != nil {
		return err
	}
	if e.ActiveAt(h.now()) { // the store refuses to change another
		if err := h.confirmLonger(ctx, e, &change); err != nil {
			return err
		}
	}
	e, err = h.entries.Update(ctx, c.Actor(), kind, id, change.Update)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, h.wireEntry(e))
}

// entryChange is a change of a block or an exemption.
type entryChange struct {
	blocks.Update
	confirmed keys.Pattern // zero for none
}

// readChange reads a PATCH of a block or an exemption.
func (h *entryHandler) readChange(c *httpserver.Call) (id string, change entryChange, err error) {
	if id, err = c.PathParam("id"); err != nil {
		return "", change, err
	}
	var patch wire.EntryPatch
	if err = c.DecodeJSON(&patch); err != nil {
		return "", change, err
	}
	if patch.Revision < 0 {
		return "", change, fault.Field("revision", "must be the revision that you have seen, or be left out")
	}
	change.Revision = patch.Revision
	if patch.Reason.Given {
		if err = httpserver.CheckLine("reason", patch.Reason.Value, maxReason); err != nil {
			return "", change, err
		}
		change.Reason = &patch.Reason.Value
	}
	if change.confirmed, err = h.confirmation(patch.Confirm); err != nil {
		return "", change, err
	}
	change.Expires, err = h.expiryChange(patch.ExpiresIn, patch.ExpiresAt)
	if err == nil && change.Reason == nil && change.Expires == nil {
		err = fault.New(fault.Invalid, "Nothing to change: send reason, expires_in or expires_at.")
	}
	return id, change, err
}

func (h *entryHandler) endEntry(c *httpserver.Call, kind blocks.Kind) error {
	id, reason, err := readEnd(c)
	if err != nil {
		return err
	}
	ended, err := h.entries.End(c.Context(), c.Actor(), kind, reason, id)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, h.wireEntry(ended[0]))
}

// restoreEntry makes an ended entry active again. A broad one is confirmed as
// when it is added.
func (h *entryHandler) restoreEntry(c *httpserver.Call, kind blocks.Kind) error {
	id, err := c.PathParam("id")
	if err != nil {
		return err
	}
	var request wire.RestoreRequest
	if err := c.DecodeOptional(&request); err != nil {
		return err
	}
	confirmed, err := h.confirmation(request.Confirm)
	if err != nil {
		return err
	}
	ctx := c.Context()
	e, err := h.entries.ByID(ctx, kind, id)
	if err != nil {
		return err
	}
	if err := h.confirmEntry(ctx, kind, e.Pattern, confirmed); err != nil {
		return err
	}
	all, err := h.entries.Restore(ctx, c.Actor(), kind, id)
	if err != nil {
		return err
	}
	return c.SendJSON(http.StatusOK, h.wireEntry(all[0]))
}

// readEnd reads a DELETE of a block or an exemption: the reason stands in the
// body or, for clients that cannot send one with DELETE, in the query.
func readEnd(c *httpserver.Call) (id, reason string, err error) {
	if id, err = c.PathParam("id"); err != nil {
		return "", "", err
	}
	q := c.ParseQuery("reason")
	if reason = q.Line("reason"); q.Err() != nil {
		return "", "", q.Err()
	}
	request := wire.EndRequest{Reason: reason}
	if err = c.DecodeOptional(&request); err != nil {
		return "", "", err
	}
	return id, request.Reason, httpserver.CheckLine("reason", request.Reason, maxReason)
}

// filterParams are the query parameters of the lists of entries.
var filterParams = []string{"state", "source", "author", "search", "key", "within", "order", "cursor", "limit"}

// entryFilter reads a filter of the entries of a kind.
func (h *entryHandler) entryFilter(c *httpserver.Call, kind blocks.Kind, params []string) (blocks.Filter, error) {
	q := c.ParseQuery(params...)
	f := blocks.Filter{
		Kind:   kind,
		State:  q.OneOf("state", "active", "ended", "all"),
		Source: blocks.Source(q.OneOf("source", string(blocks.Manual), string(blocks.Automatic), string(blocks.Imported))),
		Author: q.Line("author"),
		Search: q.Line("search"),
		Order:  blocks.Order(q.OneOf("order", string(blocks.ByCreated), string(blocks.ByExpiry))),
		Cursor: q.Line("cursor"),
		Limit:  q.Limit(),
		At:     h.now(),
	}
	if q.Err() != nil {
		return f, q.Err()
	}
	var err error
	if q.Given("key") {
		if f.Key, err = h.key(q.Raw("key")); err != nil {
			return f, err
		}
	}
	if q.Given("within") {
		f.Within, err = h.pattern("within", q.Raw("within"))
	}
	return f, err
}

// ofKind returns a handler of the entries of one kind.
func ofKind(kind blocks.Kind, h func(*httpserver.Call, blocks.Kind) error) httpserver.Handler {
	return func(c *httpserver.Call) error { return h(c, kind) }
}

// entryPath returns the path of the entries of a kind.
func entryPath(kind blocks.Kind) string {
	if kind == blocks.Exemption {
		return wire.PathExemptions
	}
	return wire.PathBlocks
}

// fromEntry returns a block or exemption as the API shows it at an instant.
// policy names the policy of an automatic block, "" for another.
func fromEntry(e *blocks.Entry, policy string, now time.Time) wire.Entry {
	out := wire.Entry{
		ID: e.ID, Kind: string(e.Kind), Pattern: e.Pattern.String(), Reason: e.Reason, Author: e.Author, Source: string(e.Source),
		Policy: wire.NullString(policy), Active: e.ActiveAt(now), CreatedAt: wire.At(e.Created), ExpiresAt: wire.At(e.Expires),
		EndedAt: wire.At(e.Ended), EndedBy: wire.NullString(e.EndedBy), Revision: e.Revision,
	}
	if e.Level > 0 {
		out.Level = &e.Level
	}
	return out
}
