package api

import (
	"net/http"

	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/wire"
)

var (
	endedParams = []openapi.Param{
		{Name: "state", Doc: "The state of the entries; active if omitted.", Enum: []string{"active", "ended", "all"}},
		{Name: "source", Doc: "Only entries that the source of this name holds, such as fail2ban/sshd, or that were made in this way: manual, automatic, imported or list."},
		{Name: "author", Doc: "Only entries in which this author has a part."},
		{Name: "search", Doc: "Only entries whose pattern or reason contains this text, case-insensitive."},
		{Name: "key", Doc: "Only entries whose pattern covers this key."},
		{Name: "within", Doc: "Only entries whose pattern is covered by this pattern, which is read as that of a new entry."},
		{Name: "literal", Doc: "The pattern of within is meant exactly as written.", Boolean: true},
		{Name: "lists", Doc: "Rows of lists that are pulled too, which are otherwise selected only by source, author, search, key or within.", Boolean: true},
		{Name: "order", Doc: "created: the newest first; expiry: what ends soonest first.", Enum: []string{"created", "expiry"}},
		cursorParam, limitParam,
	}
	// selectionParams are endedParams without those for paging and order.
	selectionParams = endedParams[:8]
	opListBlocks    = &openapi.Operation{
		ID: "listBlocks", Tag: "blocks", Summary: "List blocks.", Answers: ok("A page of them.", wire.Page[wire.Entry]{}),
		Query: endedParams,
	}
	opAddBlock = &openapi.Operation{
		ID: "addBlock", Tag: "blocks", Summary: "Block a pattern.", Body: wire.AddEntry{},
		Answers: append(ok("Extended or unchanged.", wire.AddedEntry{}), openapi.Answer{Status: http.StatusCreated, Doc: "Created or replaced.", Body: wire.AddedEntry{}, Headers: location}),
	}
	opGetBlock     = &openapi.Operation{ID: "getBlock", Tag: "blocks", Summary: "Show a block.", Answers: ok("The block.", wire.Entry{})}
	opChangeBlock  = &openapi.Operation{ID: "changeBlock", Tag: "blocks", Summary: "Change a block's reason or end.", Body: wire.EntryPatch{}, Answers: ok("The block.", wire.Entry{})}
	opEndBlock     = &openapi.Operation{ID: "endBlock", Tag: "blocks", Summary: "End a block.", Query: endParams, Body: wire.EndRequest{}, BodyOptional: true, Answers: ok("The block.", wire.Entry{})}
	opRestoreBlock = &openapi.Operation{
		ID: "restoreBlock", Tag: "blocks", Summary: "Make an ended block active again, until its former expiry.",
		Body: wire.RestoreRequest{}, BodyOptional: true, Answers: ok("The block.", wire.Entry{}),
	}
	opListExemptions = &openapi.Operation{
		ID: "listExemptions", Tag: "exemptions", Summary: "List exemptions.", Query: endedParams, Answers: ok("A page of them.", wire.Page[wire.Entry]{}),
	}
	opAddExemption = &openapi.Operation{
		ID: "addExemption", Tag: "exemptions", Summary: "Exempt a pattern from every rule and block.", Body: wire.AddEntry{},
		Answers: append(ok("Extended or unchanged.", wire.AddedEntry{}), openapi.Answer{Status: http.StatusCreated, Doc: "Created or replaced.", Body: wire.AddedEntry{}, Headers: location}),
	}
	opGetExemption     = &openapi.Operation{ID: "getExemption", Tag: "exemptions", Summary: "Show an exemption.", Answers: ok("The exemption.", wire.Entry{})}
	opChangeExemption  = &openapi.Operation{ID: "changeExemption", Tag: "exemptions", Summary: "Change an exemption's reason or end.", Body: wire.EntryPatch{}, Answers: ok("The exemption.", wire.Entry{})}
	opEndExemption     = &openapi.Operation{ID: "endExemption", Tag: "exemptions", Summary: "End an exemption.", Query: endParams, Body: wire.EndRequest{}, BodyOptional: true, Answers: ok("The exemption.", wire.Entry{})}
	opRestoreExemption = &openapi.Operation{
		ID: "restoreExemption", Tag: "exemptions", Summary: "Make an ended exemption active again, until its former expiry.",
		Body: wire.RestoreRequest{}, BodyOptional: true, Answers: ok("The exemption.", wire.Entry{}),
	}
	opImportBlocks     = importOperation("importBlocks", "blocks", "What to do with a pattern that is blocked already; keep, the default, leaves it as it is.")
	opImportExemptions = importOperation("importExemptions", "exemptions", "What to do with a pattern that is exempt already; keep, the default, leaves it as it is.")
	opExportBlocks     = exportOperation("exportBlocks", "blocks", exportFormats(blocks.Block), "text/csv", "application/json", "text/plain")
	opExportExemptions = exportOperation("exportExemptions", "exemptions", exportFormats(blocks.Exemption), "text/csv", "application/json")
)

// exportOperation describes the export of what a tag names.
func exportOperation(id, tag string, formats []string, media ...string) *openapi.Operation {
	return &openapi.Operation{
		ID: id, Tag: tag, Summary: "Export " + tag + " in the format that an import reads.",
		Query:   append([]openapi.Param{{Name: "format", Doc: "csv if omitted.", Enum: formats}}, selectionParams...),
		Answers: []openapi.Answer{{Status: http.StatusOK, Doc: "The file.", Types: media, Headers: file}},
	}
}

// importOperation describes the import of what a tag names.
func importOperation(id, tag, onConflict string) *openapi.Operation {
	return &openapi.Operation{
		ID: id, Tag: tag, Summary: "Import up to 1,000,000 " + tag + " from CSV, JSON, a plain list or what others publish, all or nothing.",
		Doc:       "The format of a body of the type application/octet-stream is found by its content. It may be packed by gzip.",
		BodyTypes: []string{"text/csv", "application/json", "application/x-ndjson", "text/plain", "application/octet-stream"},
		Query: []openapi.Param{
			{Name: "on_conflict", Doc: onConflict, Enum: []string{wire.ConflictKeep, wire.ConflictExtend, wire.ConflictReplace}},
			{Name: "skip_bad", Doc: "Skip invalid rows instead of importing nothing.", Boolean: true},
			{Name: "literal", Doc: "The patterns of all rows are meant exactly as written, as that of a new entry with literal.", Boolean: true},
			{Name: "column", Doc: "Where the patterns are in a table of another form: the name of a column, its number from 1, or in JSON the name of the member."},
			{Name: "dry_run", Doc: "Change nothing and say what would be done.", Boolean: true},
			{Name: "source", Doc: "The name of the source of the rows, such as that of a list: it has a part of its own in each entry. The caller if omitted."},
			{Name: "reason", Doc: "The reason of rows without one."},
			{Name: "expires_in", Doc: "The expiry of rows without one, from now, for example 7d."},
			{Name: "expires_at", Doc: "The expiry of rows without one, as an RFC 3339 time."},
			{Name: "confirm", Doc: "Imports broad rows too: the value of confirm in a dry run of the same file, or in the answer 409 confirmation_required."},
		},
		Answers: ok("What was done.", wire.ImportAnswer{}),
	}
}
