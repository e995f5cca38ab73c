package profiles

import (
	"net/url"

	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/httpserver"
)

// invalidPage is a form of the page of a key with its errors, so that nothing that was typed is
// lost: that of the own limit, or that of the plan, the labels and the note.
type invalidPage struct {
	site.Frame
	Values      url.Values
	Key, Back   string
	IsLimit     bool
	Choices     []form.Choice
	FieldErrors form.FieldErrors
}

// Typed returns the value of a field.
func (p invalidPage) Typed(name string) string { return p.Values.Get(name) }

// fieldsOf are the fields of the two forms that can have errors.
func fieldsOf(isLimit bool) []string {
	if isLimit {
		return []string{"rules", "expires_at", "reason"}
	}
	return []string{"plan", "labels", "note"}
}

// answerInvalid shows the form of the request again if failed concerns one of its fields, and
// returns any other error.
func (h *Handler) answerInvalid(c *httpserver.Call, failed error) error {
	values := form.Values(c)
	page := invalidPage{
		Values: values, Key: values.Get("key"), Back: site.OwnPath(values.Get("back")), IsLimit: c.Path() == limitPath,
		Choices: h.Choices, FieldErrors: form.FieldErrors{},
	}
	if err := page.FieldErrors.Add(failed); err != nil {
		return err
	}
	for _, name := range fieldsOf(page.IsLimit) {
		if page.FieldErrors[name] != "" {
			page.Frame = h.NewFrame(c, "Not saved", Path)
			return h.Render(c, site.StatusInvalidForm, "profile-invalid", page)
		}
	}
	return failed
}

const limitPath = site.KeyPath + "/limit"
