package adminui

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/wire"
)

// bulkHandler adds and ends blocks and exemptions for keys that a monitoring page lists. After
// each action it returns to that page, which shows the change and offers to undo it.
type bulkHandler struct {
	*site.Site
	entries *admin.Entries
}

func (h *bulkHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.Post("/bulk/add", identity.Operate, h.addBulk),
		h.Post("/bulk/end", identity.Operate, h.endBulk),
		h.Post("/bulk/restore", identity.Operate, h.restoreBulk),
	}
}

// bulkPage asks for the duration and the reason before keys are blocked or
// exempted.
type bulkPage struct {
	site.Frame
	Keys   []string
	Exempt bool
	wire.AddEntry
	For         string
	Until       string
	Back        string
	FieldErrors form.FieldErrors
	// Own reports whether a key matches the caller's address.
	Own bool
	// Filter selects all matching keys; All is their number, and Keys are the first of them. It
	// is "" if Keys were chosen individually.
	Filter string
	All    int
}

// Count returns the number of keys.
func (p *bulkPage) Count() int {
	if p.Filter != "" {
		return p.All
	}
	return len(p.Keys)
}

// Unlisted returns the number of keys that are not in Keys.
func (p *bulkPage) Unlisted() int { return p.Count() - len(p.Keys) }

// Choices returns the durations that the form offers.
func (p *bulkPage) Choices() []form.Choice { return lengthChoices }

// What names the action: "Block 3 keys".
func (p *bulkPage) What() string {
	verb := "Block"
	if p.Exempt {
		verb = "Exempt"
	}
	return verb + " " + phrase.Count(p.Count(), "key")
}

var lengthChoices = form.Choices("1h", "1 h", "4h", "4 h", "24h", "24 h", "7d", "7 days", "30d", "30 days", "good", "Permanent", "until", "Until (UTC)")

// Conflicts returns the choices for keys with an active entry.
func (p *bulkPage) Conflicts() []form.Choice { return conflictChoices }

// IsConflict reports whether a choice of Conflicts is selected.
func (p *bulkPage) IsConflict(value string) bool { return p.OnConflict == value }

var conflictChoices = form.Choices(wire.ConflictKeep, "Keep them", wire.ConflictExtend, "Extend them", wire.ConflictReplace, "Replace them")

// maxBulk bounds the keys of one form.
const maxBulk = 200

// addBulk blocks or exempts the patterns of a form. If the form has no duration, the response
// is the page that asks for it.
func (h *bulkHandler) addBulk(c *httpserver.Call) error {
	values := form.Values(c)
	page := &bulkPage{
		Exempt: values.Get("what") == "exempt", For: values.Get("for"), Until: values.Get("until"),
		Back: site.OwnPath(values.Get("back")), FieldErrors: form.FieldErrors{},
	}
	form.Fill(values, &page.AddEntry)
	if values.Get("all") == "yes" {
		if page.Exempt {
			return fault.New(fault.Invalid, "Nothing was changed: choose the keys to exempt one by one; an exemption beats every block.")
		}
		return h.blockMatching(c, page, values)
	}
	page.Keys = values["key"]
	patterns, err := h.patternsOf(page.Keys)
	if err != nil {
		return err
	}
	if page.For == "" && !values.Has("reason") { // the list sent it, not the form
		if page.OnConflict = wire.ConflictExtend; !page.Exempt {
			page.For = wire.DefaultBlock
		}
		return h.askBulk(c, http.StatusOK, page, patterns)
	}
	s, done := blockTexts, "blocked"
	if page.Exempt {
		s, done = exemptionTexts, "exempted"
	}
	if page.OnConflict == "" { // the form has no such field
		page.OnConflict = wire.ConflictExtend
	}
	page.Literal = true
	var added []admin.Added
	if page.ExpiresAt.Time, err = h.ParseExpiry(page.For, page.Until, h.Now()); err == nil {
		added, err = h.entries.Add(c.Context(), site.CallerOf(c), admin.AddEntries{Kind: s.Kind, Patterns: page.Keys, AddEntry: page.AddEntry})
	}
	if err != nil {
		if _, _, asks := site.NeededConfirmation(err); asks {
			return askBroad(h.Site, c, s, page, err)
		}
		if err = page.FieldErrors.Add(err); err != nil {
			return err
		}
		return h.askBulk(c, site.StatusInvalidForm, page, patterns)
	}
	if known, ids := doneWithout(s, added); known != "" {
		return h.ReturnTo(c, page.Back, known, ids)
	}
	var ids []string
	for _, one := range added {
		if one.Outcome == blocks.Created { // undo must not end an entry that existed before
			ids = append(ids, one.Entry.ID)
		}
	}
	return h.ReturnTo(c, page.Back, done, ids)
}

// doneWithout returns the toast, and the ids in it, of adding entries of which each pattern had an
// active one, "" if one was created.
func doneWithout(s *kindTexts, added []admin.Added) (done string, ids []string) {
	is := func(outcome blocks.Outcome) bool {
		return slices.ContainsFunc(added, func(a admin.Added) bool { return a.Effect() == outcome })
	}
	switch {
	case is(blocks.Created):
		return "", nil
	case len(added) == 1 && is(blocks.Extended) && s.Blocks:
		return "extended", []string{added[0].Entry.ID}
	case is(blocks.Extended) || is(blocks.Replaced):
		done = "renewed"
	default:
		done = "unchanged"
	}
	if !s.Blocks {
		done += "-exempt"
	}
	return done, nil
}

func (h *bulkHandler) askBulk(c *httpserver.Call, status int, page *bulkPage, patterns []keys.Pattern) error {
	page.Frame = h.NewFrame(c, page.What(), "/offenders")
	own := h.Catalog.Parser().AddressKey(c.Address)
	page.Own = !page.Exempt && slices.ContainsFunc(patterns, func(p keys.Pattern) bool { return p.Matches(own) })
	return h.Render(c, status, "bulk", page)
}

// patternsOf parses the keys or patterns of a form.
func (h *bulkHandler) patternsOf(texts []string) ([]keys.Pattern, error) {
	switch {
	case len(texts) == 0:
		return nil, fault.New(fault.Invalid, "Nothing was changed: choose at least one key.")
	case len(texts) > maxBulk:
		return nil, fault.New(fault.Invalid, "Nothing was changed: choose at most %d keys at a time.", maxBulk)
	}
	patterns := make([]keys.Pattern, len(texts))
	for i, text := range texts {
		p, err := h.Catalog.Parser().Pattern(text)
		if err != nil {
			return nil, fault.Field("key", "%s", format.Capital(err.Error()))
		}
		patterns[i] = p
	}
	return patterns, nil
}

// endBulk ends the blocks or exemptions that a form names.
func (h *bulkHandler) endBulk(c *httpserver.Call) error {
	s, ids, values, err := bulkIDs(c)
	if err != nil {
		return err
	}
	if err := endOf(c, h.entries, s.Kind, values, ids); err != nil {
		return err
	}
	done := "unblocked"
	if !s.Blocks {
		done = "unexempted"
	}
	return h.ReturnTo(c, values.Get("back"), done, ids)
}

// restoreBulk undoes endBulk.
func (h *bulkHandler) restoreBulk(c *httpserver.Call) error {
	s, ids, values, err := bulkIDs(c)
	if err != nil {
		return err
	}
	if _, err := h.entries.Restore(c.Context(), site.CallerOf(c), s.Kind, "", ids...); err != nil {
		return askRestore(h.Site, c, h.entries, s, ids, err)
	}
	done := "restored"
	if !s.Blocks {
		done += "-exempt"
	}
	return h.ReturnTo(c, values.Get("back"), done, ids)
}

// bulkIDs returns the kind and the ids that a form names.
func bulkIDs(c *httpserver.Call) (s *kindTexts, ids []string, values url.Values, err error) {
	s, values = blockTexts, form.Values(c)
	if values.Get("what") == "exempt" {
		s = exemptionTexts
	}
	ids, err = idsOf(values, s)
	return s, ids, values, err
}
