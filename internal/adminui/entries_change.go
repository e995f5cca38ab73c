package adminui

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
)

const maxReason = 1000

// edit is an open row: what its fields hold.
type edit struct {
	ID          string
	Reason      string
	For         string // one of editChoices
	Until       string // as fields of dates write it, UTC
	Revision    int64
	FieldErrors form.FieldErrors
	// Ask is the pattern that is to be typed for the change, "" for none.
	Ask string
	// Meanwhile is what somebody else made of it while it was edited, nil for
	// nothing.
	Meanwhile *blocks.Entry
}

func editOf(i *blocks.Entry) *edit {
	e := &edit{ID: i.ID, Reason: i.Reason, Until: format.DateOf(i.Expires), Revision: i.Revision, For: "until", FieldErrors: form.FieldErrors{}}
	if i.Expires.IsZero() {
		e.For = "good"
	}
	return e
}

// EditChoices returns the ends that an open row offers.
func (e *edit) EditChoices() []form.Choice {
	return form.Choices("1h", "+ 1 h", "24h", "+ 24 h", "7d", "+ 7 days", "good", "For good", "until", "Until")
}

// updateEntry saves an open row.
func (h *entriesHandler) updateEntry(c *httpserver.Call, s *kindTexts) error {
	id, err := site.PathParam(c, "id")
	if err != nil {
		return err
	}
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	ctx := c.Context()
	before, err := h.entries.ByID(ctx, s.Kind, id)
	if err != nil {
		return err
	}
	e, change, err := h.readEdit(values, before)
	if err != nil {
		return err
	}
	if len(e.FieldErrors) > 0 {
		return h.renderEntries(c, site.StatusInvalidForm, s, site.Query{}, e)
	}
	if ask := before.Pattern.String(); blocklist.Prolongs(before.Expires, *change.Expires) && strings.TrimSpace(values.Get("confirm")) != ask {
		if why := h.whyConfirm(ctx, s, before.Pattern); why != "" {
			e.Ask, e.FieldErrors["confirm"] = ask, "Nothing was changed: "+why+". To make it last longer, type "+ask+"."
			return h.renderEntries(c, site.StatusInvalidForm, s, site.Query{}, e)
		}
	}
	after, err := h.entries.Update(ctx, c.Actor(), s.Kind, id, change)
	if fault.Is(err, fault.Outdated) {
		e.Meanwhile, e.Revision = before, before.Revision
		return h.renderEntries(c, httpserver.StatusOf(err), s, site.Query{"q": {before.Pattern.String()}}, e)
	}
	if err != nil {
		return err
	}
	return h.done(c, s, values.Get("back"), "changed", after.ID)
}

func (h *entriesHandler) readEdit(values url.Values, before *blocks.Entry) (*edit, blocks.Update, error) {
	e := &edit{ID: before.ID, For: values.Get("for"), Until: values.Get("until"), FieldErrors: form.FieldErrors{}}
	var err error
	if e.Reason, err = form.Line(values, "reason", maxReason); err != nil {
		if err = e.FieldErrors.Add(err); err != nil {
			return nil, blocks.Update{}, err
		}
	}
	e.Revision, err = strconv.ParseInt(values.Get("revision"), 10, 64)
	if err != nil || e.Revision < 1 {
		return nil, blocks.Update{}, fault.Field("revision", "is not one that the page had")
	}
	from := before.Expires
	if from.IsZero() {
		from = h.Now()
	}
	end, err := h.ParseExpiry(e.For, e.Until, from)
	if err != nil {
		if err = e.FieldErrors.Add(err); err != nil {
			return nil, blocks.Update{}, err
		}
	}
	return e, blocks.Update{Reason: &e.Reason, Expires: &end, Revision: e.Revision}, nil
}

// endEntries ends one or many.
func (h *entriesHandler) endEntries(c *httpserver.Call, s *kindTexts) error {
	return h.eachGiven(c, s, nil, "ended", func(ctx context.Context, id string) error {
		_, err := h.entries.End(ctx, c.Actor(), s.Kind, "", id)
		return err
	})
}

// restoreEntries undoes endEntries.
func (h *entriesHandler) restoreEntries(c *httpserver.Call, s *kindTexts) error {
	return h.eachGiven(c, s, h.askRestore, "restored", func(ctx context.Context, id string) error {
		_, err := h.entries.Restore(ctx, c.Actor(), s.Kind, id)
		return err
	})
}

// eachGiven does something to each id that a form names, unless ask, which may
// be nil, asks first.
func (h *entriesHandler) eachGiven(c *httpserver.Call, s *kindTexts, ask asker, done string, do func(context.Context, string) error) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	ids := values["id"]
	if only := values["only"]; len(only) > 0 { // a row's own button, whatever is chosen
		ids = only
	}
	if len(ids) == 0 {
		return fault.New(fault.Invalid, "Choose at least one %s.", s.Noun)
	}
	if len(ids) > site.RowsPerPage {
		return fault.New(fault.Invalid, "Choose at most %d at a time.", site.RowsPerPage)
	}
	ctx := c.Context()
	if ask != nil {
		if asked, err := ask(ctx, c, s, ids); asked || err != nil {
			return err
		}
	}
	for i, id := range ids {
		if err := do(ctx, id); err != nil {
			if i > 0 {
				return partly(err, i, len(ids))
			}
			return err
		}
	}
	return h.done(c, s, values.Get("back"), done, ids...)
}

// partly says that something stopped in the middle.
func partly(err error, done, all int) error {
	var invalid *fault.Error
	if !errors.As(err, &invalid) {
		return err
	}
	partial := *invalid
	partial.Message = strconv.Itoa(done) + " of " + strconv.Itoa(all) + " are done, then: " + invalid.Message
	return &partial
}

// done redirects to the list, which shows what changed.
func (h *entriesHandler) done(c *httpserver.Call, s *kindTexts, back, what string, ids ...string) error {
	target := s.Path
	if path := site.OwnPath(back); path == s.Path || strings.HasPrefix(path, s.Path+"?") {
		target = path
	}
	at, err := url.Parse(target)
	if err != nil {
		return fault.Field("back", "is no address")
	}
	q := at.Query()
	q.Del("edit")
	q.Set("done", what)
	q.Set("ids", strings.Join(ids, ","))
	at.RawQuery = q.Encode()
	return h.Redirect(c, at.String())
}

// entriesToast returns the toast that the address asks for, nil for none.
func (h *entriesHandler) entriesToast(ctx context.Context, s *kindTexts, q site.Query) (*site.Toast, error) {
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
		t.Text = s.Past
	case "changed":
		t.Text = "Changed the " + s.Noun + " of"
	case "restored":
		t.Text = "Restored the " + s.Noun + " of"
	case "ended":
		if h.Now().Sub(first.Ended) > toastTime {
			return nil, nil
		}
		t.Text, t.Undo = s.Ended+" the "+s.Noun+" of", s.Path+"/restore"
		t.Fields = site.HiddenIDs(ids)
	default:
		return nil, nil
	}
	if several {
		t.Text, t.Key = strings.Fields(t.Text)[0]+" "+format.Plural(len(ids), s.Noun)+".", ""
	}
	return t, nil
}
