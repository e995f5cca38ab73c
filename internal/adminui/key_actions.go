package adminui

import (
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/httpserver"
)

// resetKey resets the counts of a key under the policy of the form, or under all.
func (h *keyHandler) resetKey(c *httpserver.Call) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	by := site.CallerOf(c)
	if _, err := h.keys.Reset(c.Context(), by, values.Get("key"), values.Get("policy")); err != nil {
		return err
	}
	return h.ReturnTo(c, values.Get("back"), "reset", nil)
}

func (h *keyHandler) addNote(c *httpserver.Call) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	by := site.CallerOf(c)
	if _, err := h.keys.AddNote(c.Context(), by, values.Get("key"), values.Get("text")); err != nil {
		return err
	}
	return h.ReturnTo(c, values.Get("back"), "noted", nil)
}

func (h *keyHandler) deleteNote(c *httpserver.Call) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	by := site.CallerOf(c)
	if _, err := h.keys.DeleteNote(c.Context(), by, values.Get("id")); err != nil {
		return err
	}
	return h.ReturnTo(c, values.Get("back"), "notedeleted", nil)
}
