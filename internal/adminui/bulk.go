package adminui

import (
	"context"
	"net/http"
	"slices"

	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offenders"
)

// bulkHandler adds and ends blocks and exemptions for keys that a monitoring page
// lists. Each action goes back to its page, which shows what changed and offers
// to undo it.
type bulkHandler struct {
	*site.Site
	*confirmer
	entries   blocks.Store
	offenders *offenders.Service // nil where offences are not counted
	audit     audit.Store
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
	Keys        []string
	Exempt      bool
	For         string
	Until       string
	Reason      string
	Back        string
	FieldErrors form.FieldErrors
	// Own reports whether one of them matches the caller's address.
	Own bool
	// Filter selects all keys that match; All counts them, and Keys are the
	// first of them. "" where Keys are the chosen ones.
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
	return verb + " " + format.Plural(p.Count(), "key")
}

var lengthChoices = form.Choices("1h", "1 h", "4h", "4 h", "24h", "24 h", "7d", "7 days", "30d", "30 days", "good", "For good", "until", "Until")

// maxBulk bounds the keys or ids of one form.
const maxBulk = 200

// addBulk blocks or exempts the patterns of a form. A form without a duration is
// answered with the page that asks for it.
func (h *bulkHandler) addBulk(c *httpserver.Call) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	page := &bulkPage{
		Exempt: values.Get("what") == "exempt", For: values.Get("for"), Until: values.Get("until"),
		Back: site.OwnPath(values.Get("back")), FieldErrors: form.FieldErrors{},
	}
	if page.Reason, err = form.Line(values, "reason", maxReason); err != nil {
		if err = page.FieldErrors.Add(err); err != nil {
			return err
		}
	}
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
	s, done := blockTexts, "blocked"
	if page.Exempt {
		s, done = exemptionTexts, "exempted"
	}
	if p, why := h.unconfirmed(c, s, patterns); why != "" {
		return h.askBroad(c, s, page, p, why)
	}
	if page.For == "" {
		page.For = "24h"
		return h.askBulk(c, http.StatusOK, page, patterns)
	}
	ends, err := h.ParseExpiry(page.For, page.Until, h.Now())
	if err != nil {
		if err = page.FieldErrors.Add(err); err != nil {
			return err
		}
	}
	if len(page.FieldErrors) > 0 {
		return h.askBulk(c, site.StatusInvalidForm, page, patterns)
	}
	ctx := c.Context()
	actor := c.Actor()
	var ids []string
	for i, p := range patterns {
		added, err := h.entries.Add(ctx, actor, blocks.Replace, blocks.Entry{Kind: s.Kind, Pattern: p, Reason: page.Reason, Author: actor.Name, Source: blocks.Manual, Expires: ends})
		if err != nil {
			if i > 0 {
				return partly(err, i, len(patterns))
			}
			return err
		}
		ids = append(ids, added[0].Entry.ID)
	}
	return h.ReturnTo(c, page.Back, done, ids)
}

func (h *bulkHandler) askBulk(c *httpserver.Call, status int, page *bulkPage, patterns []keys.Pattern) error {
	page.Frame = h.NewFrame(c, page.What(), "/offenders")
	own := h.Catalog.Parser().AddressKey(c.Address)
	page.Own = !page.Exempt && slices.ContainsFunc(patterns, func(p keys.Pattern) bool { return p.Matches(own) })
	return h.Render(c, status, "bulk", page)
}

// patternsOf reads the keys or patterns of a form.
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
	return h.eachID(c, nil, func(s *kindTexts) string {
		if s.Blocks {
			return "unblocked"
		}
		return "unexempted"
	}, func(ctx context.Context, s *kindTexts, id string) (string, error) {
		_, err := h.entries.End(ctx, c.Actor(), s.Kind, "", id)
		if fault.Is(err, fault.Conflict) { // it has already ended
			err = nil
		}
		return id, err
	})
}

// restoreBulk undoes endBulk.
func (h *bulkHandler) restoreBulk(c *httpserver.Call) error {
	return h.eachID(c, h.askRestore, func(s *kindTexts) string {
		if s.Blocks {
			return "blocked"
		}
		return "exempted"
	}, func(ctx context.Context, s *kindTexts, id string) (string, error) {
		_, err := h.entries.Restore(ctx, c.Actor(), s.Kind, id)
		return id, err
	})
}

// eachID calls do for each entry that a form names, unless ask, which may be nil,
// answers with a question first.
func (h *bulkHandler) eachID(c *httpserver.Call, ask asker, done func(*kindTexts) string, do func(context.Context, *kindTexts, string) (string, error)) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	s := blockTexts
	if values.Get("what") == "exempt" {
		s = exemptionTexts
	}
	ids := values["id"]
	if len(ids) == 0 || len(ids) > maxBulk {
		return fault.New(fault.Invalid, "Nothing was changed: choose from 1 to %d.", maxBulk)
	}
	ctx := c.Context()
	if ask != nil {
		if asked, err := ask(ctx, c, s, ids); asked || err != nil {
			return err
		}
	}
	var after []string
	for i, id := range ids {
		made, err := do(ctx, s, id)
		if err != nil {
			if i > 0 {
				return partly(err, i, len(ids))
			}
			return err
		}
		after = append(after, made)
	}
	return h.ReturnTo(c, values.Get("back"), done(s), after)
}
