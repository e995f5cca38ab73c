// Package form reads the forms and files that pages send.
package form

import (
	"errors"
	"mime"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

const maxForm = 1 << 20

// The routes whose forms may contain a file.
const (
	ImportBlocksPath     = "/blocks/import"
	ImportExemptionsPath = "/exemptions/import"
	ImportKeysPath       = "/keys/import"
	TryNewPath           = "/new-policy/try"
	TryPolicyPath        = "/policies/:name/try"
)

type requestKey string

const (
	fieldsLocal requestKey = "form fields"
	uploadLocal requestKey = "form upload"
)

// UploadOf returns the file of a form that was read, nil if it has none.
func UploadOf(c *httpserver.Call) *httpserver.Upload {
	u, _ := c.Locals(uploadLocal).(*httpserver.Upload)
	if u == nil || !u.HasFile() {
		return nil
	}
	return u
}

// Fields returns the fields of a request's form. If the form has a file, these are the fields
// before the file. The first call reads the body.
func Fields(c *fiber.Ctx) (url.Values, error) {
	if values, read := c.Locals(fieldsLocal).(url.Values); read {
		return values, nil
	}
	media, params, err := mime.ParseMediaType(string(c.Request().Header.ContentType()))
	var values url.Values
	switch {
	case err == nil && media == fiber.MIMEApplicationForm:
		values, err = readFields(c)
	case err == nil && media == fiber.MIMEMultipartForm && HasUpload(c.Route().Path):
		// The form is read up to its file before the CSRF token is checked.
		var up *httpserver.Upload
		if up, err = httpserver.ReadUpload(c, params["boundary"]); err == nil {
			up.Name = format.ClipLine(up.Name, 80)
			c.Locals(uploadLocal, up)
			values = up.Fields
		}
	default:
		return nil, fault.New(fault.Unsupported, "Nothing was changed: the form must be sent as application/x-www-form-urlencoded.")
	}
	if err != nil {
		return nil, err
	}
	c.Locals(fieldsLocal, values)
	return values, nil
}

// HasUpload reports whether the form of a route may contain a file.
func HasUpload(path string) bool {
	return slices.Contains([]string{ImportBlocksPath, ImportExemptionsPath, ImportKeysPath, TryNewPath, TryPolicyPath}, path)
}

var ErrMalformed = fault.New(fault.Malformed, "Nothing was changed: the form ended early or cannot be read.")

func readFields(c *fiber.Ctx) (url.Values, error) {
	body, err := httpserver.ReadBody(c.Context(), maxForm)
	if errors.Is(err, httpserver.ErrBodyTooLarge) {
		return nil, fault.New(fault.TooLarge, "Nothing was changed: the form has more than %d bytes.", maxForm)
	}
	if err != nil {
		return nil, ErrMalformed
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, ErrMalformed
	}
	return values, nil
}

// Read returns the fields of a page's form. Each is valid UTF-8.
func Read(c *httpserver.Call) (url.Values, error) {
	values, err := Fields(c.Ctx)
	if err != nil {
		return nil, err
	}
	for name, all := range values {
		for _, value := range all {
			if !utf8.ValidString(value) {
				return nil, fault.Field(format.ClipLine(name, 40), "is not valid UTF-8")
			}
		}
	}
	return values, nil
}

// Values returns the fields of a page's form, which the route of the page has read.
func Values(c *httpserver.Call) url.Values {
	values, _ := c.Locals(fieldsLocal).(url.Values)
	return values
}

// Fill sets the fields of the struct that into points to from the fields of a form with their names in
// JSON: texts, without surrounding spaces, changes of texts that the form has, lists of texts, and
// booleans, which are "yes". It leaves fields of other types.
func Fill(values url.Values, into any) {
	v := reflect.ValueOf(into).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		switch to := v.FieldByIndex(f.Index).Addr().Interface().(type) {
		case *string:
			*to = strings.TrimSpace(values.Get(name))
		case *wire.Change[string]:
			if values.Has(name) {
				*to = wire.To(strings.TrimSpace(values.Get(name)))
			}
		case *[]string:
			*to = values[name]
		case *bool:
			*to = values.Get(name) == "yes"
		}
	}
}

// Line returns a one-line field, without surrounding spaces.
func Line(values url.Values, name string, maxBytes int) (string, error) {
	value := strings.TrimSpace(values.Get(name))
	return value, fault.CheckLine(name, value, maxBytes)
}

// Choice is one option of a field.
type Choice struct{ Value, Word string }

// Choices returns options from pairs of a value and its word.
func Choices(pairs ...string) []Choice {
	all := make([]Choice, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		all = append(all, Choice{Value: pairs[i], Word: pairs[i+1]})
	}
	return all
}
