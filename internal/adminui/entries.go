package adminui

import (
	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

// kindTexts are the differences between the pages of blocks and of exemptions.
type kindTexts struct {
	Kind  blocks.Kind
	Path  string // "/blocks"
	Head  string // "Blocks"
	Noun  string // "block", in a sentence
	Verb  string // "Block", on the button that adds one
	Past  string // "Blocked"
	End   string // "Unblock", on the button that ends one
	About string // one sentence for the empty list
	// Blocks means that these entries refuse. Their pages show a source, and a warning if one
	// would refuse its author's address.
	Blocks bool
}

var blockTexts = &kindTexts{
	Kind: blocks.Block, Path: "/blocks", Head: "Blocks", Noun: "block", Verb: "Block", Past: "Blocked", End: "Unblock", Blocks: true,
	About: "A block refuses every key of a pattern until it ends, whatever the rules say.",
}

var exemptionTexts = &kindTexts{
	Kind: blocks.Exemption, Path: "/exemptions", Head: "Exemptions", Noun: "exemption", Verb: "Exempt", Past: "Exempted", End: "End",
	About: "An exemption allows every key of a pattern: no rule and no block applies to it until it ends.",
}

// entryRow is one row of the page.
type entryRow struct {
	*blocks.Entry
	Active     bool
	PolicyName string
	KeyLink    string     // of the page of the one key that the pattern selects, "" for none
	Exempt     bool       // an exemption covers this whole block
	Refused    int64      // refused requests in the last hour
	Edit       *edit      // nil unless the row is open
	Fold       *entryFold // nil unless the row is that of several entries
	// Others are the shares beside the one that lasts longest.
	Others []blocks.Share
}

// SourceWord returns how a block was created.
func (i *entryRow) SourceWord() string {
	if i.Source == blocks.Manual {
		return "manual"
	}
	return string(i.Source)
}

// entriesHandler lists, adds, changes and ends blocks and exemptions.
type entriesHandler struct {
	*site.Site
	entries   *admin.Entries
	detection *admin.Detection // nil if offences are not counted
	toasts    *toasts
}

// routes returns the routes of both kinds.
func (h *entriesHandler) routes() []httpserver.Route {
	var all []httpserver.Route
	for i, s := range []*kindTexts{blockTexts, exemptionTexts} {
		on := func(h func(*httpserver.Call, *kindTexts) error) httpserver.Handler {
			return func(c *httpserver.Call) error { return h(c, s) }
		}
		all = append(all,
			h.InMenu(site.Enforce, 1+i, s.Head, h.Get(s.Path, identity.Read, on(h.showEntries))),
			h.Get(s.Path+"/export", identity.Read, on(h.exportEntries)),
			h.Get(s.Path+"/new", identity.Operate, on(h.showAdd)),
			h.Post(s.Path+"/new", identity.Operate, on(h.previewAdd)),
			h.Post(s.Path, identity.Operate, on(h.addEntry)),
			h.Post(s.Path+"/end", identity.Operate, on(h.endEntries)),
			h.Post(s.Path+"/restore", identity.Operate, on(h.restoreEntries)),
			h.Post(s.Path+"/:id", identity.Operate, on(h.updateEntry)),
		)
	}
	return all
}

// rowOf returns the row of an entry.
func (h *entriesHandler) rowOf(e *blocks.Entry, refused map[string]int64) *entryRow {
	now := h.Now()
	row := &entryRow{Entry: e, KeyLink: h.LinkOfPattern(e.Pattern), Active: e.ActiveAt(now), Refused: refused[e.ID]}
	if p, found := h.Catalog.Selector().ByID(e.PolicyID); found {
		row.PolicyName = p.Name
	}
	if e.Kind != blocks.Block || !row.Active {
		return row
	}
	for _, x := range h.Catalog.Blocks().Overlapping(blocks.Exemption, e.Pattern, now, maxTouching) {
		if x.Pattern.Covers(e.Pattern) {
			row.Exempt = true
		}
	}
	return row
}

// maxTouching bounds the exemptions or blocks that are examined for one row.
const maxTouching = 50
