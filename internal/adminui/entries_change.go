package adminui

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/wire"
)

// edit contains the fields of an open row.
type edit struct {
	ID string
	// The change that the fields of the texts make, of the revision that the page showed.
	wire.EntryPatch
	For         string // one of editChoices
	Until       string // in the format of date fields, UTC
	FieldErrors form.FieldErrors
	// Ask is the pattern to type to confirm the change, "" for none.
	Ask string
	// Theirs is what somebody else saved while the row was edited, nil for nothing.
	Theirs *blocks.Entry
}

func editOf(i *blocks.Entry) *edit {
	e := &edit{ID: i.ID, EntryPatch: i.Patch(), FieldErrors: form.FieldErrors{}}
	e.Revision = i.Revision
	e.For, e.Until = site.ExpiryChoice(i.Expires)
	return e
}

// EditChoices returns the expiries that an open row offers.
func (e *edit) EditChoices() []form.Choice {
	return form.Choices("1h", "+ 1 h", "24h", "+ 24 h", "7d", "+ 7 days", "good", "Permanent", "until", "Until (UTC)")
}

// updateEntry saves an open row.
func (h *entriesHandler) updateEntry(c *httpserver.Call, s *kindTexts) error {
	id := c.Params("id")
	values := form.Values(c)
	before, err := h.entries.ByID(c.Context(), s.Kind, id)
	if err != nil {
		return err
	}
	e := &edit{ID: before.ID, For: values.Get("for"), Until: values.Get("until"), FieldErrors: form.FieldErrors{}}
	form.Fill(values, &e.EntryPatch)
	if e.Revision, err = strconv.ParseInt(values.Get("revision"), 10, 64); err != nil || e.Revision < 1 {
		return fault.Field("revision", "must be the revision that the page showed")
	}
	from := before.Expires
	if from.IsZero() {
		from = h.Now()
	}
	update := e.EntryPatch
	// The form has the expiry in minutes: if it is the same, the expiry is not changed.
	if length, until := site.ExpiryChoice(before.Expires); e.For != length || e.Until != until {
		var expiry blocks.Expiry
		expiry, err = site.ExpiryOf(e.For, e.Until, from)
		update.ExpiresAt = wire.To(wire.At(expiry.Until))
	}
	what := "changed"
	if err == nil {
		var after *blocks.Entry
		if after, err = h.entries.Update(c.Context(), site.CallerOf(c), s.Kind, id, update); err == nil && after.Revision == before.Revision {
			what = "same"
		}
	}
	switch text, _, asks := site.NeededConfirmation(err); {
	case err == nil:
		return h.done(c, s, values.Get("back"), what, id)
	case asks:
		e.Ask = text
	case fault.Is(err, fault.Outdated):
		e.Theirs, e.Revision = before, before.Revision
		return h.renderEntries(c, httpserver.StatusOf(err), s, site.Query{"q": {before.Pattern.String()}}, e)
	}
	if err = e.FieldErrors.Add(err); err != nil {
		return err
	}
	return h.renderEntries(c, site.StatusInvalidForm, s, site.Query{}, e)
}

// endEntries ends the entries that a form names.
func (h *entriesHandler) endEntries(c *httpserver.Call, s *kindTexts) error {
	values := form.Values(c)
	ids, err := idsOf(values, s)
	if err != nil {
		return err
	}
	if err := endOf(c, h.entries, s.Kind, values, ids); err != nil {
		return err
	}
	return h.done(c, s, values.Get("back"), "ended", ids...)
}

// endOf ends the entries that a form names. The form of a toast also has their revision, so that
// it ends none that somebody has changed since.
func endOf(c *httpserver.Call, entries *admin.Entries, kind blocks.Kind, values url.Values, ids []string) (err error) {
	if !values.Has("revision") {
		_, err = entries.End(c.Context(), site.CallerOf(c), kind, "", ids...)
		return err
	}
	revision, err := strconv.ParseInt(values.Get("revision"), 10, 64)
	if err != nil {
		return fault.Field("revision", "must be a number")
	}
	_, err = entries.EndUnchanged(c.Context(), site.CallerOf(c), kind, revision, ids...)
	return err
}

// restoreEntries undoes endEntries.
func (h *entriesHandler) restoreEntries(c *httpserver.Call, s *kindTexts) error {
	values := form.Values(c)
	ids, err := idsOf(values, s)
	if err != nil {
		return err
	}
	if _, err := h.entries.Restore(c.Context(), site.CallerOf(c), s.Kind, "", ids...); err != nil {
		return askRestore(h.Site, c, h.entries, s, ids, err)
	}
	return h.done(c, s, values.Get("back"), "restored", ids...)
}

// idsOf returns the ids in a form: those of the selected rows, or of the row whose button was
// pressed.
func idsOf(values url.Values, s *kindTexts) ([]string, error) {
	chosen := values["id"]
	if only := values["only"]; len(only) > 0 {
		chosen = only
	}
	var ids []string
	for _, of := range chosen { // the box of a fold has the ids of its rows
		ids = append(ids, strings.Fields(of)...)
	}
	if len(ids) == 0 {
		return nil, fault.New(fault.Invalid, "Nothing was changed: choose at least one %s.", s.Noun)
	}
	return ids, nil
}

// done redirects to the list, which shows what was done.
func (h *entriesHandler) done(c *httpserver.Call, s *kindTexts, back, what string, ids ...string) error {
	target := s.Path
	if path := site.OwnPath(back); path == s.Path || strings.HasPrefix(path, s.Path+"?") {
		target = path
	}
	at, err := url.Parse(target)
	if err != nil {
		return fault.Field("back", "is not an address")
	}
	q := at.Query()
	q.Del("edit")
	q.Set("done", what)
	if len(ids) <= site.RowsPerPage { // more do not fit into an address; the toast then has no undo
		q.Set("ids", strings.Join(ids, ","))
	}
	at.RawQuery = q.Encode()
	return h.Redirect(c, at.String())
}

// entriesToast returns the toast for a recent change that the address names, nil for none.
func (h *entriesHandler) entriesToast(ctx context.Context, page *site.Frame, s *kindTexts, q site.Query) (*site.Toast, error) {
	ids := strings.Split(q.Get("ids"), ",")
	if q.Get("done") == "" || len(ids) > site.RowsPerPage {
		return nil, nil
	}
	first, err := h.entries.ByID(ctx, s.Kind, ids[0])
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t := &site.Toast{Key: first.Pattern.String()}
	several := len(ids) > 1
	switch q.Get("done") {
	case "added":
		if first.End != nil || h.Now().Sub(first.Created.Time()) > toastTime {
			return nil, nil
		}
		t.Text = s.Past
		if t.Undo, t.Fields, err = h.toasts.endAdded(ctx, page, s.Path+"/end", first, ids); err != nil {
			return nil, err
		}
	case "replaced": // ending it would not restore the former entry
		t.Text = "Replaced the " + s.Noun + " of"
	case "changed":
		t.Text = "Changed the " + s.Noun + " of"
		if t.Undo, t.Fields, err = h.toasts.undoChange(ctx, page, string(s.Kind), first.ID, "update"); err != nil {
			return nil, err
		}
	case "same":
		t.Text = "Nothing was changed in the " + s.Noun + " of"
	case "restored":
		t.Text = "Restored the " + s.Noun + " of"
	case "ended":
		if h.Now().Sub(first.Ended()) > toastTime {
			return nil, nil
		}
		t.Text, t.Undo = "Ended the "+s.Noun+" of", s.Path+"/restore"
		t.Fields = site.HiddenIDs(ids)
	default:
		return nil, nil
	}
	if several {
		t.Text, t.Key = strings.Fields(t.Text)[0]+" "+phrase.Count(len(ids), s.Noun)+".", ""
	}
	return t, nil
}
