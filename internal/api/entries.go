package api

import (
	"cmp"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/api/routes"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

// entryHandler serves the blocks and the exemptions.
type entryHandler struct {
	common
	entries *admin.Entries
}

func (h *entryHandler) routes() []route {
	return slices.Concat(
		[]route{
			routes.Answers(wire.PreviewBlock, h.previewBlock),
			routes.Answers(wire.ImportBlocks, func(c *httpserver.Call, in wire.BlockImport) (wire.ImportAnswer, error) {
				return h.importEntries(c, blocks.Block, in.OnConflict, in.EntryImport)
			}),
			routes.Writes(wire.ExportBlocks, openapi.Answer{Types: []string{"text/csv", "application/json", "text/plain"}, Headers: file}, func(c *httpserver.Call, in wire.BlockExport) error {
				return h.exportEntries(c, blocks.Block, in.Format, in.EntryFilter)
			}),
		},
		(&entriesOfKind{h, blocks.Block}).routes(wire.Blocks),
		[]route{
			routes.Answers(wire.ImportExemptions, func(c *httpserver.Call, in wire.ExemptionImport) (wire.ImportAnswer, error) {
				return h.importEntries(c, blocks.Exemption, in.OnConflict, in.EntryImport)
			}),
			routes.Writes(wire.ExportExemptions, openapi.Answer{Types: []string{"text/csv", "application/json"}, Headers: file}, func(c *httpserver.Call, in wire.ExemptionExport) error {
				return h.exportEntries(c, blocks.Exemption, in.Format, in.EntryFilter)
			}),
		},
		(&entriesOfKind{h, blocks.Exemption}).routes(wire.Exemptions),
	)
}

// entriesOfKind serves the blocks or the exemptions.
type entriesOfKind struct {
	*entryHandler
	kind blocks.Kind
}

func (h *entriesOfKind) routes(ops *wire.EntryOps) []route {
	return []route{
		routes.Answers(ops.List, h.list),
		routes.Makes(ops.Add, h.add),
		routes.Answers(ops.Get, h.get),
		routes.Answers(ops.Change, h.change),
		routes.Answers(ops.End, h.end),
		routes.Answers(ops.Restore, h.restore),
	}
}

func (h *entriesOfKind) list(c *httpserver.Call, in wire.EntryList) (out wire.Page[wire.Entry], err error) {
	f, err := h.entryFilter(h.kind, in.EntryFilter)
	if err != nil {
		return out, err
	}
	f.Order, f.Cursor, f.Limit = blocks.Order(in.Order), in.Cursor, in.Limit
	f.Uncounted = f.Cursor != "" // the first page has the count, which reads every match
	page, err := h.entries.Find(c.Context(), f)
	if err != nil {
		return out, err
	}
	out = wire.NewPage(page.Items, page.Next, h.wireEntry)
	if !f.Uncounted && !page.Over {
		out.Total = &page.Total
	}
	return out, h.nameSources(c, out.Items)
}

func (h *entriesOfKind) get(c *httpserver.Call, in wire.ByID) (wire.Entry, error) {
	return h.shown(c)(h.entries.ByID(c.Context(), h.kind, in.ID))
}

func (h *entriesOfKind) add(c *httpserver.Call, in wire.AddEntry) (answer wire.AddedEntry, path string, err error) {
	all, err := h.entries.Add(c.Context(), callerOf(c), admin.AddEntries{Kind: h.kind, AddEntry: in})
	if err != nil {
		return answer, "", err
	}
	entries := make([]wire.Entry, len(all))
	for i, added := range all {
		entries[i] = h.wireEntry(added.Entry)
	}
	if err := h.nameSources(c, entries); err != nil {
		return answer, "", err
	}
	answer.Added = h.added(all[0], entries[0])
	for i, other := range all[1:] {
		answer.Others = append(answer.Others, h.added(other, entries[i+1]))
	}
	if outcome := all[0].Outcome; outcome == blocks.Created || outcome == blocks.Replaced {
		path = entryPath(h.kind) + "/" + answer.ID
	}
	return answer, path, nil
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

func (h *entriesOfKind) change(c *httpserver.Call, in wire.EntryChange) (out wire.Entry, err error) {
	return h.shown(c)(h.entries.Update(c.Context(), callerOf(c), h.kind, in.ID, in.EntryPatch))
}

func (h *entriesOfKind) end(c *httpserver.Call, in wire.EntryEnd) (out wire.Entry, err error) {
	reason, source, pattern := cmp.Or(in.Reason, in.QueryReason), cmp.Or(in.Source, in.QuerySource), cmp.Or(in.Pattern, in.QueryPattern)
	if source != "" {
		return h.shown(c)(h.entries.EndShare(c.Context(), callerOf(c), h.kind, in.ID, source, pattern, reason))
	}
	if pattern != "" {
		return out, fault.Field("pattern", "is possible with a source only")
	}
	ended, err := h.entries.End(c.Context(), callerOf(c), h.kind, reason, in.ID)
	if err != nil {
		return out, err
	}
	return h.shown(c)(ended[0], nil)
}

func (h *entriesOfKind) restore(c *httpserver.Call, in wire.EntryRestore) (out wire.Entry, err error) {
	restored, err := h.entries.Restore(c.Context(), callerOf(c), h.kind, in.Confirm, in.ID)
	if err != nil {
		return out, err
	}
	return h.shown(c)(restored[0], nil)
}

// shown returns the function that converts the answer of a use case: an entry with its sources.
func (h *entryHandler) shown(c *httpserver.Call) func(*blocks.Entry, error) (wire.Entry, error) {
	return func(e *blocks.Entry, err error) (wire.Entry, error) {
		if err != nil {
			return wire.Entry{}, err
		}
		out := []wire.Entry{h.wireEntry(e)}
		err = h.nameSources(c, out)
		return out[0], err
	}
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

// entryFilter converts a filter of the entries of one kind.
func (h *entryHandler) entryFilter(kind blocks.Kind, in wire.EntryFilter) (f blocks.Filter, err error) {
	f = blocks.Filter{Kind: kind, State: in.State, Holder: in.Source, Author: in.Author, Search: in.Search, Lists: in.Lists}
	switch kind := blocks.Source(f.Holder); kind {
	case blocks.Manual, blocks.Automatic, blocks.Imported, blocks.Listed: // no source has such a name
		f.Source, f.Holder = kind, ""
	}
	if in.Key != "" {
		if f.Key, err = h.key(in.Key); err != nil {
			return f, err
		}
	}
	if in.Within != "" {
		reading := admin.FilterReading(h.catalog)
		reading.Literal = in.Literal
		f.Within, err = fault.ReadPattern(reading, "within", in.Within)
	}
	return f, err
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
		ID: e.ID, Kind: string(e.Kind), Pattern: e.Pattern.String(), EntryTerms: e.EntryTerms, Reason: e.Reason, Author: e.Author, Source: string(e.Source),
		Policy: wire.NullString(policy), Active: e.ActiveAt(now), CreatedAt: wire.At(e.Created.Time()), ExpiresAt: wire.At(e.Expires),
		EndedAt: wire.At(e.Ended()), EndedBy: wire.NullString(e.EndedBy()), Revision: e.Revision,
	}
	out.Scope = e.ScopeOfChecks()
	if e.Level > 0 {
		out.Level = &e.Level
	}
	return out
}
