package adminui

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// What is done from the pages about what happens, where the eye is. Each action
// goes back to its page, which tells what was done and offers to undo it.
func (u *UI) actRoutes() []httpserver.Route {
	return []httpserver.Route{
		u.post("/act/block", identity.Operate, u.actBlock),
		u.post("/act/lift", identity.Operate, u.actLift),
		u.post("/act/restore", identity.Operate, u.actRestore),
		u.post("/act/reset", identity.Operate, u.actReset),
		u.post("/act/resume", identity.Operate, u.actResume),
		u.post("/act/note", identity.Operate, u.actNote),
		u.post("/act/note/delete", identity.Operate, u.actDeleteNote),
	}
}

// manyPage asks how long and why before many keys are blocked or exempted.
type manyPage struct {
	Frame
	Keys     []string
	Exempt   bool
	For      string
	Until    string
	Reason   string
	Back     string
	Mistakes form.FieldErrors
	// Own says that one of them counts whoever asks.
	Own bool
	// Filter selects them, and All is how many they are, where all that match
	// are meant; Keys are the first then. "" for those that were chosen.
	Filter string
	All    int
}

// Count returns how many keys are asked about.
func (p *manyPage) Count() int {
	if p.Filter != "" {
		return p.All
	}
	return len(p.Keys)
}

// Unlisted returns how many of them are not named.
func (p *manyPage) Unlisted() int { return p.Count() - len(p.Keys) }

// Choices returns the lengths that the form offers.
func (p *manyPage) Choices() []form.Choice { return lengthChoices }

// What names what is done.
func (p *manyPage) What() string {
	verb := "Block"
	if p.Exempt {
		verb = "Exempt"
	}
	return verb + " " + format.Plural(p.Count(), "key")
}

var lengthChoices = []form.Choice{{"1h", "1 h"}, {"4h", "4 h"}, {"24h", "24 h"}, {"7d", "7 days"}, {"30d", "30 days"}, {"good", "For good"}, {"until", "Until"}}

// maxMany is how many keys one form may name.
const maxMany = 200

// actBlock blocks the patterns of a form, or exempts them. A form that does not
// say for how long is answered with the question.
func (u *UI) actBlock(c *httpserver.Call) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	page := &manyPage{
		Exempt: values.Get("what") == "exempt", For: values.Get("for"), Until: values.Get("until"),
		Back: ownPath(values.Get("back")), Mistakes: form.FieldErrors{},
	}
	if page.Reason, err = form.Line(values, "reason", maxReason); err != nil {
		if err = page.Mistakes.Add(err); err != nil {
			return err
		}
	}
	if values.Get("all") == "yes" {
		if page.Exempt {
			return fault.New(fault.Invalid, "Nothing was changed: choose the keys to exempt one by one; an exemption beats every block.")
		}
		return u.blockAll(c, page, values)
	}
	page.Keys = values["key"]
	patterns, err := u.patternsOf(page.Keys)
	if err != nil {
		return err
	}
	s, done := blockTexts, "blocked"
	if page.Exempt {
		s, done = exemptionTexts, "exempted"
	}
	if p, why := u.unconfirmed(c, s, patterns); why != "" {
		return u.askWide(c, s, page, p, why)
	}
	if page.For == "" {
		page.For = "24h"
		return u.askMany(c, http.StatusOK, page, patterns)
	}
	ends, err := u.endOf(page.For, page.Until, u.Now())
	if err != nil {
		if err = page.Mistakes.Add(err); err != nil {
			return err
		}
	}
	if len(page.Mistakes) > 0 {
		return u.askMany(c, statusOfForm, page, patterns)
	}
	ctx := c.Context()
	actor := c.Actor()
	var ids []string
	for i, p := range patterns {
		added, err := u.Entries.Add(ctx, actor, blocks.Replace, blocks.Entry{Kind: s.Kind, Pattern: p, Reason: page.Reason, Author: actor.Name, Source: blocks.Manual, Expires: ends})
		if err != nil {
			if i > 0 {
				return partly(err, i, len(patterns))
			}
			return err
		}
		ids = append(ids, added[0].Entry.ID)
	}
	return u.back(c, page.Back, done, ids)
}

func (u *UI) askMany(c *httpserver.Call, status int, page *manyPage, patterns []keys.Pattern) error {
	page.Frame = u.frame(c, page.What(), "/offenders")
	own := u.Catalog.Parser().AddressKey(c.Address)
	page.Own = !page.Exempt && slices.ContainsFunc(patterns, func(p keys.Pattern) bool { return p.Matches(own) })
	return u.render(c, status, "many", page)
}

// patternsOf reads the keys or patterns of a form.
func (u *UI) patternsOf(texts []string) ([]keys.Pattern, error) {
	switch {
	case len(texts) == 0:
		return nil, fault.New(fault.Invalid, "Nothing was changed: choose at least one key.")
	case len(texts) > maxMany:
		return nil, fault.New(fault.Invalid, "Nothing was changed: choose at most %d keys at a time.", maxMany)
	}
	patterns := make([]keys.Pattern, len(texts))
	for i, text := range texts {
		p, err := u.Catalog.Parser().Pattern(text)
		if err != nil {
			return nil, fault.Field("key", "%s", format.Capital(err.Error()))
		}
		patterns[i] = p
	}
	return patterns, nil
}

// unconfirmed returns the first of the patterns that must be confirmed, and
// why; "" where none must.
func (u *UI) unconfirmed(c *httpserver.Call, s *kindTexts, patterns []keys.Pattern) (keys.Pattern, string) {
	ctx := c.Context()
	for _, p := range patterns {
		if why := u.whyConfirm(ctx, s, p); why != "" {
			return p, why
		}
	}
	return keys.Pattern{}, ""
}

// askWide asks about a pattern that must be confirmed on the page that shows
// whom it would hit. Several are too much for it.
func (u *UI) askWide(c *httpserver.Call, s *kindTexts, page *manyPage, p keys.Pattern, why string) error {
	if len(page.Keys) > 1 {
		return fault.New(fault.NeedConfirm, "Nothing was changed: %s is wide: %s. Add it alone on the page of %ss, which shows whom it would hit.", p, why, s.Noun)
	}
	ask := url.Values{"pattern": {p.String()}}
	for name, value := range map[string]string{"reason": page.Reason, "for": page.For, "until": page.Until} {
		if value != "" {
			ask.Set(name, value)
		}
	}
	return u.seeOther(c, s.Path+"/new?"+ask.Encode())
}

// actLift lifts the blocks, or removes the exemptions, that a form names.
func (u *UI) actLift(c *httpserver.Call) error {
	return u.actOnIDs(c, nil, func(s *kindTexts) string {
		if s.Blocks {
			return "lifted"
		}
		return "removed"
	}, func(ctx context.Context, s *kindTexts, id string) (string, error) {
		_, err := u.Entries.End(ctx, c.Actor(), s.Kind, "", id)
		if fault.Is(err, fault.Conflict) { // it has ended meanwhile, which is what was wanted
			err = nil
		}
		return id, err
	})
}

// actRestore undoes actLift.
func (u *UI) actRestore(c *httpserver.Call) error {
	return u.actOnIDs(c, u.askRestore, func(s *kindTexts) string {
		if s.Blocks {
			return "blocked"
		}
		return "exempted"
	}, func(ctx context.Context, s *kindTexts, id string) (string, error) {
		_, err := u.Entries.Restore(ctx, c.Actor(), s.Kind, id)
		return id, err
	})
}

// asker asks before something is done to entries, and reports whether it did.
type asker func(ctx context.Context, c *httpserver.Call, s *kindTexts, ids []string) (bool, error)

// actOnIDs does something to each entry that a form names, unless ask, which may
// be nil, asks first.
func (u *UI) actOnIDs(c *httpserver.Call, ask asker, done func(*kindTexts) string, do func(context.Context, *kindTexts, string) (string, error)) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	s := blockTexts
	if values.Get("what") == "exempt" {
		s = exemptionTexts
	}
	ids := values["id"]
	if len(ids) == 0 || len(ids) > maxMany {
		return fault.New(fault.Invalid, "Nothing was changed: choose from 1 to %d.", maxMany)
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
	return u.back(c, values.Get("back"), done(s), after)
}

// back goes back to a page, which tells what was done.
func (u *UI) back(c *httpserver.Call, path, done string, ids []string) error {
	at, err := url.Parse(ownPath(path))
	if err != nil {
		return fault.Field("back", "is no address")
	}
	q := at.Query()
	q.Del("ask")
	q.Set("done", done)
	q.Del("ids")
	// An address has no room for very many; the toast then counts without undo.
	if len(ids) > 0 && len(ids) <= entriesPerPage {
		q.Set("ids", strings.Join(ids, ","))
	}
	at.RawQuery = q.Encode()
	at.Fragment = ""
	return u.seeOther(c, at.String())
}

// deeds are what a page may be told to tell.
var deeds = map[string]struct {
	text, plural string
	undo         string // the action that undoes it, "" for none
	exempt       bool
}{
	"blocked":   {"Blocked", "Blocked", "/act/lift", false},
	"exempted":  {"Exempted", "Exempted", "/act/lift", true},
	"lifted":    {"Ended the block of", "Ended the blocks of", "/act/restore", false},
	"removed":   {"Ended the exemption of", "Ended the exemptions of", "/act/restore", true},
	"reset":     {"Its requests are forgotten; every rule starts afresh.", "", "", false},
	"noted":     {"The note is saved.", "", "", false},
	"unnoted":   {"The note is deleted.", "", "", false},
	"resumed":   {"The automatic blocks go on.", "", "", false},
	"known":     {"Nothing was changed: each of them has a block of its own.", "", "", false},
	"dismissed": {"Dismissed. The range is left alone for a day.", "", "", false},
}

// actToast tells what the address says was done, where it was done just now,
// and takes that out of the address.
func (u *UI) actToast(ctx context.Context, w *watch) (*Toast, error) {
	done := w.Query.Get("done")
	deed, known := deeds[done]
	ids := strings.FieldsFunc(w.Query.Get("ids"), func(r rune) bool { return r == ',' })
	delete(w.Query, "done")
	delete(w.Query, "ids")
	if done == "allblocked" && len(ids) == 1 {
		w.Here = w.With()
		return u.allToast(ctx, ids[0])
	}
	if !known || len(ids) > entriesPerPage {
		return nil, nil
	}
	w.Here = w.With()
	if deed.plural == "" {
		return &Toast{Text: deed.text}, nil
	}
	if len(ids) == 0 {
		return nil, nil
	}
	s := blockTexts
	what := "block"
	if deed.exempt {
		s, what = exemptionTexts, "exempt"
	}
	first, err := u.Entries.ByID(ctx, s.Kind, ids[0])
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	changed := first.Created
	if !first.Ended.IsZero() {
		changed = first.Ended
	}
	if u.Now().Sub(changed) > toastTime {
		return nil, nil
	}
	t := &Toast{Text: deed.text, Key: first.Pattern.String(), Undo: deed.undo, Fields: []Field{{"back", w.Here}, {"what", what}}}
	for _, id := range ids {
		t.Fields = append(t.Fields, Field{"id", id})
	}
	if len(ids) > 1 {
		t.Text, t.Key = deed.plural+" "+format.Plural(len(ids), "key")+".", ""
	}
	return t, nil
}

// actReset forgets what a key has used. The audit is written first: nothing is
// forgotten that nobody answers for.
func (u *UI) actReset(c *httpserver.Call) error {
	values, key, err := u.formKey(c)
	if err != nil {
		return err
	}
	ctx := c.Context()
	err = u.Recorder.AddRecord(ctx, audit.Record{
		Actor: c.Actor(), Action: "key.reset", Object: "key", ObjectID: key.String(),
		Summary: "Reset what " + format.VisibleText(key.String()) + " has used under all policies",
	})
	if err != nil {
		return err
	}
	for _, p := range u.Catalog.Selector().Policies() {
		for _, log := range u.Logs {
			_, err := log.Reset(ctx, timestamplog.LogIDOf(p, key.String()))
			if errors.Is(err, timestamplog.ErrUnreachable) {
				return &fault.Error{Code: fault.Unavailable, Message: "The timestamp log is unreachable; the key may not be reset everywhere, so repeat it.", Err: err}
			}
			if err != nil {
				return err
			}
		}
	}
	return u.back(c, values.Get("back"), "reset", nil)
}

// formKey returns a form and the key that it names.
func (u *UI) formKey(c *httpserver.Call) (url.Values, keys.Key, error) {
	values, err := form.Read(c)
	if err != nil {
		return nil, keys.Key{}, err
	}
	key, err := u.Catalog.Parser().Key(values.Get("key"))
	if err != nil {
		return nil, key, fault.Field("key", "%s", format.Capital(err.Error()))
	}
	return values, key, nil
}

// actResume lets an escalation go on that its guard has stopped.
func (u *UI) actResume(c *httpserver.Call) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	p, found := u.Catalog.Selector().ByName(values.Get("policy"))
	if !found || u.Offenders == nil {
		return fault.New(fault.NotFound, "There is no policy of that name.")
	}
	ctx := c.Context()
	if err := u.Offenders.Store.ResumeEscalation(ctx, c.Actor(), p.ID); err != nil {
		return err
	}
	return u.back(c, values.Get("back"), "resumed", nil)
}

func (u *UI) actNote(c *httpserver.Call) error {
	values, key, err := u.formKey(c)
	if err != nil {
		return err
	}
	if u.Notes == nil {
		return errNoNotes
	}
	ctx := c.Context()
	text := strings.ReplaceAll(values.Get("text"), "\r\n", "\n")
	if _, err := u.Notes.AddNote(ctx, c.Actor(), key.String(), text); err != nil {
		return err
	}
	return u.back(c, values.Get("back"), "noted", nil)
}

var errNoNotes = fault.New(fault.NotFound, "This node keeps no notes.")

func (u *UI) actDeleteNote(c *httpserver.Call) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	if u.Notes == nil {
		return errNoNotes
	}
	ctx := c.Context()
	if _, err := u.Notes.DeleteNote(ctx, c.Actor(), values.Get("id")); err != nil {
		return err
	}
	return u.back(c, values.Get("back"), "unnoted", nil)
}
