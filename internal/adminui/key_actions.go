package adminui

import (
	"errors"
	"net/url"
	"strings"

	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// resetKey deletes what the logs have counted for a key. The audit record is
// written first, so that no reset is without a record.
func (h *keyHandler) resetKey(c *httpserver.Call) error {
	values, key, err := h.formKey(c)
	if err != nil {
		return err
	}
	ctx := c.Context()
	err = h.recorder.AddRecord(ctx, audit.Record{
		Actor: c.Actor(), Action: "key.reset", Object: "key", ObjectID: key.String(),
		Summary: "Reset what " + format.VisibleText(key.String()) + " has used under all policies",
	})
	if err != nil {
		return err
	}
	for _, p := range h.Catalog.Selector().Policies() {
		for _, log := range h.logs {
			_, err := log.Reset(ctx, timestamplog.LogIDOf(p, key.String()))
			if errors.Is(err, timestamplog.ErrUnreachable) {
				return &fault.Error{Code: fault.Unavailable, Message: "The timestamp log is unreachable; the key may not be reset everywhere, so repeat it.", Err: err}
			}
			if err != nil {
				return err
			}
		}
	}
	return h.ReturnTo(c, values.Get("back"), "reset", nil)
}

// formKey returns a form and the key that it names.
func (h *keyHandler) formKey(c *httpserver.Call) (url.Values, keys.Key, error) {
	values, err := form.Read(c)
	if err != nil {
		return nil, keys.Key{}, err
	}
	key, err := h.Catalog.Parser().Key(values.Get("key"))
	if err != nil {
		return nil, key, fault.Field("key", "%s", format.Capital(err.Error()))
	}
	return values, key, nil
}

func (h *keyHandler) addNote(c *httpserver.Call) error {
	values, key, err := h.formKey(c)
	if err != nil {
		return err
	}
	if h.notes == nil {
		return errNoNotes
	}
	ctx := c.Context()
	text := strings.ReplaceAll(values.Get("text"), "\r\n", "\n")
	if _, err := h.notes.AddNote(ctx, c.Actor(), key.String(), text); err != nil {
		return err
	}
	return h.ReturnTo(c, values.Get("back"), "noted", nil)
}

func (h *keyHandler) deleteNote(c *httpserver.Call) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	if h.notes == nil {
		return errNoNotes
	}
	ctx := c.Context()
	if _, err := h.notes.DeleteNote(ctx, c.Actor(), values.Get("id")); err != nil {
		return err
	}
	return h.ReturnTo(c, values.Get("back"), "notedeleted", nil)
}

var errNoNotes = fault.New(fault.NotFound, "This node keeps no notes.")
