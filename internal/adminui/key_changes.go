package adminui

import (
	"net/http"
	"strings"

	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

// resetKey resets the counts of a key under the policy of the form, or under all.
func (h *keyHandler) resetKey(c *httpserver.Call) error {
	values := form.Values(c)
	by := site.CallerOf(c)
	policy := strings.TrimSpace(values.Get("policy"))
	if _, err := h.keys.Reset(c.Context(), by, values.Get("key"), policy); err != nil {
		return h.askAgain(c, values.Get("key"), policy, err)
	}
	done := "reset"
	if policy != "" {
		done = "reset-policy"
	}
	return h.ReturnTo(c, values.Get("back"), done, nil)
}

// eraseKey erases a key that the form confirms.
func (h *keyHandler) eraseKey(c *httpserver.Call) error {
	values := form.Values(c)
	if _, err := h.keys.Erase(c.Context(), site.CallerOf(c), wire.EraseKeyRequest{Key: values.Get("key"), Confirm: values.Get("confirm")}); err != nil {
		return err
	}
	return h.ReturnTo(c, values.Get("back"), "erased", nil)
}

// askAgain shows the page of a key with the form for resetting it if err concerns the policy,
// and returns any other error.
func (h *keyHandler) askAgain(c *httpserver.Call, key, policy string, err error) error {
	invalid := form.FieldErrors{}
	if err := invalid.Add(err, "policy"); err != nil {
		return err
	}
	w, err := h.NewMonitorPage(c, "Key", "/offenders")
	if err != nil {
		return err
	}
	w.Path, w.Query = site.KeyPath, site.Query{"key": {key}, "ask": {"reset"}}
	w.Here = w.With()
	page := &keyPage{MonitorPage: w, Ask: "reset", ResetPolicy: policy, FieldErrors: invalid}
	if err := h.fill(c, page); err != nil {
		return err
	}
	return h.Render(c, http.StatusUnprocessableEntity, "keypage", page)
}

func (h *keyHandler) addNote(c *httpserver.Call) error {
	values := form.Values(c)
	by := site.CallerOf(c)
	if _, err := h.keys.AddNote(c.Context(), by, wire.NoteRequest{Key: values.Get("key"), Text: values.Get("text")}); err != nil {
		return err
	}
	return h.ReturnTo(c, values.Get("back"), "noted", nil)
}

func (h *keyHandler) deleteNote(c *httpserver.Call) error {
	values := form.Values(c)
	by := site.CallerOf(c)
	if _, err := h.keys.DeleteNote(c.Context(), by, wire.ByID{ID: values.Get("id")}); err != nil {
		return err
	}
	return h.ReturnTo(c, values.Get("back"), "notedeleted", nil)
}
