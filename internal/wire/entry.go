package wire

import (
	"iter"
	"reflect"
	"strings"
)

// The paths of what is declared here.
const (
	PathBlocks          = "/v1/blocks"
	PathExemptions      = "/v1/exemptions"
	PathBlockPreview    = "/v1/blocks/preview"
	PathBlockImport     = "/v1/blocks/import"
	PathBlockExport     = "/v1/blocks/export"
	PathExemptionImport = "/v1/exemptions/import"
	PathExemptionExport = "/v1/exemptions/export"
)

// The groups of these operations in the OpenAPI document.
var (
	TagBlocks     = Tag{"blocks", "Entries that refuse the keys of a pattern."}
	TagExemptions = Tag{"exemptions", "Entries that allow the keys of a pattern, whatever rules and blocks say."}
)

// The answers to a pattern that has an active entry of the same kind.
const (
	ConflictFail    = "fail"    // 409, the default of adding; not for imports
	ConflictKeep    = "keep"    // leave the active entry as it is, the default of an import
	ConflictExtend  = "extend"  // move the expiry of the active entry, never earlier
	ConflictReplace = "replace" // end the active entry and add the new one
)

// DefaultBlock is how long a block lasts that a page or a command adds without another choice; for
// a request without expires_in and expires_at it is permanent.
const DefaultBlock = "24h"

// EntryTerms are set when a block or an exemption is added: texts, each "" if it is omitted. How it is
// stored, its column in files, its field of forms, its column in lists of the command line and, with
// the tag flag, its flag follow from a field. It does not change unless EntryPatch has its name too.
type EntryTerms struct {
	// Scope limits a block to checks with this scope, such as login: everything else of the
	// keys goes on, and firewalls and bouncers do not get it. Blocks only.
	Scope string `json:"scope,omitzero" flag:"refuse only checks with this scope, for example login"`
	// Action challenge makes a block that challenges: its clients pass once their browsers have
	// solved a challenge; firewalls do not get it, and bouncers only if they show captchas.
	// Omitted, it refuses. Blocks only.
	Action string `json:"action,omitzero" enum:"challenge" flag:"challenge: let clients pass that solve a challenge, instead of refusing them"`
}

// Texts yields the fields with their names in JSON.
func (t *EntryTerms) Texts() iter.Seq2[string, *string] { return fieldsOf[string](t) }

// fieldsOf yields the fields of the type T of the struct that of points to, with their names in JSON.
func fieldsOf[T any](of any) iter.Seq2[string, *T] {
	return func(yield func(string, *T) bool) {
		v := reflect.ValueOf(of).Elem()
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if field, is := v.Field(i).Addr().Interface().(*T); is && !yield(name, field) {
				return
			}
		}
	}
}

// Entry is one block or exemption.
type Entry struct {
	ID      string `json:"id"`
	Kind    string `json:"kind" enum:"block,exemption"` // block or exemption
	Pattern string `json:"pattern"`
	EntryTerms
	Reason string `json:"reason"`
	Author string `json:"author"`
	Source string `json:"source" enum:"manual,automatic,imported,list"` // manual, automatic, imported or list
	// Policy and Level name the policy whose escalation made an automatic block and
	// the level; null otherwise.
	Policy    NullString `json:"policy"`
	Level     *int       `json:"level"`
	Active    bool       `json:"active"`
	CreatedAt Time       `json:"created_at"`
	ExpiresAt Time       `json:"expires_at"` // null: permanent
	EndedAt   Time       `json:"ended_at"`   // when an operator ended it, null otherwise
	EndedBy   NullString `json:"ended_by"`   // who ended it, null otherwise
	Revision  int64      `json:"revision"`
	// Sources are all that hold the entry, the one that lasts longest first, whose reason, author,
	// source and expiry are those of the entry. The entry ends with the last of them. Only the
	// answers about blocks and exemptions themselves have them; omitted elsewhere.
	Sources []EntrySource `json:"sources,omitzero"`
}

// EntrySource is one source of an entry: an operator, a jail of fail2ban, a list, a policy.
type EntrySource struct {
	// Name is what the source is called, or its author.
	Name string `json:"name"`
	// Pattern is what the source asked for where that differs from the pattern of the entry:
	// the address of an IPv6 client, which is known by its network. Omitted otherwise.
	Pattern   string `json:"pattern,omitzero"`
	Reason    string `json:"reason"`
	Author    string `json:"author"`
	Kind      string `json:"kind" enum:"manual,automatic,imported,list"` // how it was made
	ExpiresAt Time   `json:"expires_at"`                                 // null: permanent
}

// AddEntry adds a block or an exemption. With neither ExpiresIn nor ExpiresAt it
// is permanent.
type AddEntry struct {
	// Pattern is a pattern, an address or network without its kind, a range such as
	// 10.0.0.1-10.0.0.9, AS64500, RU, or a list of these separated by commas. Text that looks like
	// one of them and is none, a key without a kind, and a kind that neither a policy nor a key
	// of the last week has are refused.
	Pattern string `json:"pattern"`
	// Literal says that a pattern that is neither an address nor a network is meant exactly as
	// written.
	Literal bool `json:"literal,omitzero"`
	EntryTerms
	Reason string `json:"reason,omitzero"`
	// Source is the name of the source that adds it, such as fail2ban/sshd, of 1 to 100 letters,
	// digits and . _ / @ : -. A source has a share of its own in an entry: it joins an active entry
	// of others, which does not conflict, and ends its own share only. Omitted, the caller is
	// the source.
	Source     string   `json:"source,omitzero"`
	ExpiresIn  Duration `json:"expires_in,omitzero"`
	ExpiresAt  Time     `json:"expires_at,omitzero"`
	OnConflict string   `json:"on_conflict,omitzero" enum:"fail,keep,extend,replace"` // what to do if the pattern has an active entry; fail if omitted
	// Confirm is the pattern once more, which a broad one needs.
	Confirm string `json:"confirm,omitzero"`
}

// AddedEntry is what adding entries did: the first of them, and Others.
type AddedEntry struct {
	Added
	// Others are the further entries of a range or a list, which are added with this one or not
	// at all; omitted if there are none.
	Others []Added `json:"others,omitzero"`
}

// Added is what adding one entry did.
type Added struct {
	Entry
	Outcome string `json:"outcome" enum:"created,extended,joined,replaced,unchanged"` // created, extended, joined (another source holds it too), replaced or unchanged
	// Before is what was extended or replaced.
	Before *Entry `json:"before"`
	// Warnings says for example that a bare IPv6 address was read as its
	// network, or which exemptions and blocks overlap with the entry.
	Warnings []string `json:"warnings"`
}

// EntryPatch changes a block or an exemption: its texts, which are the reason and terms of the same
// names, and its end. The form of a page, the flag of a command and what is stored follow from a text.
type EntryPatch struct {
	Reason Change[string] `json:"reason,omitzero" flag:"the new reason"`
	// ExpiresIn counts from now. Only one of the two may be sent.
	ExpiresIn Change[Duration] `json:"expires_in,omitzero"`
	// ExpiresAt null makes it permanent.
	ExpiresAt Change[Time] `json:"expires_at,omitzero"`
	// Revision is the revision that the change expects; any if omitted.
	Revision int64 `json:"revision,omitzero"`
	// Confirm is the pattern, which a broad one needs to last longer.
	Confirm string `json:"confirm,omitzero"`
}

// Texts yields the changes of texts with their names in JSON.
func (p *EntryPatch) Texts() iter.Seq2[string, *Change[string]] { return fieldsOf[Change[string]](p) }

// EntryChange changes a block or an exemption.
type EntryChange struct {
	ID string `path:"id" json:"-"`
	EntryPatch
}

// EndRequest ends a block or an exemption, with the shares of all its sources; the body may be
// omitted.
type EndRequest struct {
	ID     string `path:"id" json:"-"`
	Reason string `json:"reason,omitzero"`
	// Source ends the share of this source only: the entry goes on while another holds it. 404
	// not_found if it has none.
	Source string `json:"source,omitzero"`
	// Pattern is the pattern as the source added it, where that is an address of an IPv6 client.
	Pattern string `json:"pattern,omitzero"`
}

// EntryEnd ends a block or an exemption. A client that cannot send a body with DELETE says it in the
// query.
type EntryEnd struct {
	EndRequest
	QueryReason  string `query:"reason" json:"-"`  // The reason, where the body has none.
	QuerySource  string `query:"source" json:"-"`  // The source in the body, where the body has none.
	QueryPattern string `query:"pattern" json:"-"` // The pattern in the body, where the body has none.
}

// EntryRestore makes an ended block or exemption active again.
type EntryRestore struct {
	ID string `path:"id" json:"-"`
	RestoreRequest
}

// RestoreRequest makes an ended block or exemption active again; the body may be
// omitted.
type RestoreRequest struct {
	// Confirm is the pattern, which a broad one needs.
	Confirm string `json:"confirm,omitzero"`
}

// UndoRequest undoes a change; the body may be omitted.
type UndoRequest struct {
	ID string `path:"id" json:"-"`
	// Confirm is the pattern of the block or exemption, or the name of the
	// policy, which one that is broad needs to be brought back.
	Confirm string `json:"confirm,omitzero"`
}

// EntryFilter selects blocks or exemptions.
type EntryFilter struct {
	State   string `query:"state" json:"-" enum:"active,ended,all"` // The state of the entries; active if omitted.
	Source  string `query:"source" json:"-"`                        // Only entries that the source of this name holds, such as fail2ban/sshd, or that were made in this way: manual, automatic, imported or list.
	Author  string `query:"author" json:"-"`                        // Only entries in which this author has a part.
	Search  string `query:"search" json:"-"`                        // Only entries whose pattern or reason contains this text, case-insensitive.
	Key     string `query:"key" json:"-" filled:"true"`             // Only entries whose pattern covers this key.
	Within  string `query:"within" json:"-" filled:"true"`          // Only entries whose pattern is covered by this pattern, which is read as that of a new entry.
	Literal bool   `query:"literal" json:"-"`                       // The pattern of within is meant exactly as written.
	Lists   bool   `query:"lists" json:"-"`                         // Rows of lists that are pulled too, which are otherwise selected only by source, author, search, key or within.
}

// EntryList selects a page of blocks or exemptions.
type EntryList struct {
	EntryFilter
	Order string `query:"order" json:"-" enum:"created,expiry"` // created: the newest first; expiry: what ends soonest first.
	PageList
}

// BlockExport selects blocks for a file. A plain list does not say that it exempts, so that only
// blocks are exported as one: an import of blocks would take it.
type BlockExport struct {
	Format string `query:"format" json:"-" enum:"csv,json,plain"` // csv if omitted.
	EntryFilter
}

// ExemptionExport selects exemptions for a file.
type ExemptionExport struct {
	Format string `query:"format" json:"-" enum:"csv,json"` // csv if omitted.
	EntryFilter
}

// BlockImport says how a file of blocks is imported.
type BlockImport struct {
	OnConflict string `query:"on_conflict" json:"-" enum:"keep,extend,replace"` // What to do with a pattern that is blocked already; keep, the default, leaves it as it is.
	EntryImport
}

// ExemptionImport says how a file of exemptions is imported.
type ExemptionImport struct {
	OnConflict string `query:"on_conflict" json:"-" enum:"keep,extend,replace"` // What to do with a pattern that is exempt already; keep, the default, leaves it as it is.
	EntryImport
}

// EntryImport says how a file of blocks or exemptions is imported.
type EntryImport struct {
	SkipBad   bool     `query:"skip_bad" json:"-"`   // Skip invalid rows instead of importing nothing.
	Literal   bool     `query:"literal" json:"-"`    // The patterns of all rows are meant exactly as written, as that of a new entry with literal.
	Column    string   `query:"column" json:"-"`     // Where the patterns are in a table of another form: the name of a column, its number from 1, or in JSON the name of the member.
	DryRun    bool     `query:"dry_run" json:"-"`    // Change nothing and say what would be done.
	Source    string   `query:"source" json:"-"`     // The name of the source of the rows, such as that of a list: it has a part of its own in each entry. The caller if omitted.
	Reason    string   `query:"reason" json:"-"`     // The reason of rows without one.
	ExpiresIn Duration `query:"expires_in" json:"-"` // The expiry of rows without one, from now, for example 7d.
	ExpiresAt Time     `query:"expires_at" json:"-"` // The expiry of rows without one, as an RFC 3339 time.
	Confirm   string   `query:"confirm" json:"-"`    // Imports broad rows too: the value of confirm in a dry run of the same file, or in the answer 409 confirmation_required.
}

// EntryOps are the operations of one kind of entries.
type EntryOps struct {
	List    Op[EntryList, Page[Entry]]
	Add     Op[AddEntry, AddedEntry]
	Get     Op[ByID, Entry]
	Change  Op[EntryChange, Entry]
	End     Op[EntryEnd, Entry]
	Restore Op[EntryRestore, Entry]
}

// The operations of blocks and of exemptions.
var (
	Blocks     = entryOps(PathBlocks, TagBlocks, "Block", "block", "a block", "Block a pattern.")
	Exemptions = entryOps(PathExemptions, TagExemptions, "Exemption", "exemption", "an exemption", "Exempt a pattern from every rule and block.")

	ImportBlocks = Op[BlockImport, ImportAnswer]{
		ID: "importBlocks", Route: "POST " + PathBlockImport, Access: "operate", Tag: TagBlocks, Takes: entryFiles,
		Summary: "Import up to 1,000,000 blocks from CSV, JSON, a plain list or what others publish, all or nothing.",
		Doc:     fileByContent, Answer: "What was done.",
	}
	ImportExemptions = Op[ExemptionImport, ImportAnswer]{
		ID: "importExemptions", Route: "POST " + PathExemptionImport, Access: "operate", Tag: TagExemptions, Takes: entryFiles,
		Summary: "Import up to 1,000,000 exemptions from CSV, JSON, a plain list or what others publish, all or nothing.",
		Doc:     fileByContent, Answer: "What was done.",
	}
	ExportBlocks = Op[BlockExport, File]{
		ID: "exportBlocks", Route: "GET " + PathBlockExport, Access: "read", Tag: TagBlocks,
		Summary: "Export blocks in the format that an import reads.", Answer: "The file.",
	}
	ExportExemptions = Op[ExemptionExport, File]{
		ID: "exportExemptions", Route: "GET " + PathExemptionExport, Access: "read", Tag: TagExemptions,
		Summary: "Export exemptions in the format that an import reads.", Answer: "The file.",
	}
)

const fileByContent = "The format of a body of the type application/octet-stream is found by its content. It may be packed by gzip."

// entryFiles are the media types of the files that an import of entries reads.
var entryFiles = []string{"text/csv", "application/json", "application/x-ndjson", "text/plain", "application/octet-stream"}

// entryOps declares the operations of one kind of entries. id ends the ids of the operations.
func entryOps(path string, tag Tag, id, noun, article, add string) *EntryOps {
	the := "The " + noun + "."
	return &EntryOps{
		List: Op[EntryList, Page[Entry]]{ID: "list" + id + "s", Route: "GET " + path, Access: "read", Tag: tag, Summary: "List " + noun + "s.", Answer: "A page of them."},
		Add: Op[AddEntry, AddedEntry]{
			ID: "add" + id, Route: "POST " + path, Access: "operate", Tag: tag, Summary: add, Answer: "Extended or unchanged.", Made: "Created or replaced.",
		},
		Get: Op[ByID, Entry]{ID: "get" + id, Route: "GET " + path + "/:id", Access: "read", Tag: tag, Summary: "Show " + article + ".", Answer: the},
		Change: Op[EntryChange, Entry]{
			ID: "change" + id, Route: "PATCH " + path + "/:id", Access: "operate", Tag: tag, Summary: "Change " + article + "'s reason or end.", Answer: the,
		},
		End: Op[EntryEnd, Entry]{
			ID: "end" + id, Route: "DELETE " + path + "/:id", Access: "operate", Tag: tag, OptionalBody: true, Summary: "End " + article + ".", Answer: the,
		},
		Restore: Op[EntryRestore, Entry]{
			ID: "restore" + id, Route: "POST " + path + "/:id/restore", Access: "operate", Tag: tag, OptionalBody: true,
			Summary: "Make an ended " + noun + " active again, until its former expiry.", Answer: the,
		},
	}
}
