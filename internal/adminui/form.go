package adminui

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
)

const (
	maxForm  = 1 << 20
	maxField = 64 << 10 // one field of an upload's form
	// pieceTime is how long a piece of an upload may take.
	pieceTime = 10 * time.Second
)

// uploadPaths are the routes whose forms may bring a file.
var uploadPaths = []string{importPath, tryNewPath, tryPolicyPath}

// upload is a form that brings a file: the fields before the file, and the file
// as it arrives.
type upload struct {
	fields url.Values
	file   *multipart.Part // nil for none
}

// readForm returns the fields of a request's form, those before the file where
// it brings one. It reads the body once, however often it is called.
func readForm(c *fiber.Ctx) (url.Values, error) {
	if form, read := c.Locals(formLocal).(url.Values); read {
		return form, nil
	}
	media, params, err := mime.ParseMediaType(string(c.Request().Header.ContentType()))
	var form url.Values
	switch {
	case err == nil && media == fiber.MIMEApplicationForm:
		form, err = readFields(c)
	case err == nil && media == fiber.MIMEMultipartForm && slices.Contains(uploadPaths, c.Route().Path):
		var up *upload
		if up, err = readUpload(c, params["boundary"]); err == nil {
			c.Locals(uploadLocal, up)
			form = up.fields
		}
	default:
		return nil, fault.New(fault.Unsupported, "Nothing was changed: a page sends its form as application/x-www-form-urlencoded.")
	}
	if err != nil {
		return nil, err
	}
	c.Locals(formLocal, form)
	return form, nil
}

var errMalformed = fault.New(fault.Malformed, "Nothing was changed: the form ended early or cannot be read.")

func readFields(c *fiber.Ctx) (url.Values, error) {
	body, err := httpserver.ReadBody(c.Context(), maxForm)
	if errors.Is(err, httpserver.ErrBodyTooLarge) {
		return nil, fault.New(fault.TooLarge, "Nothing was changed: the form has more than %d bytes.", maxForm)
	}
	if err != nil {
		return nil, errMalformed
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, errMalformed
	}
	return form, nil
}

// readUpload reads a form up to its file, at most maxForm bytes. The file must
// stand last. It is called before it is known whether the form comes from a
// page, so the fields have no more time than any request.
func readUpload(c *fiber.Ctx, boundary string) (*upload, error) {
	body := &uploadReader{limit: maxForm, from: requestBody(c)}
	reader := multipart.NewReader(body, boundary)
	up := &upload{fields: url.Values{}}
	for {
		part, err := reader.NextPart()
		if errors.Is(err, io.EOF) && !body.isOver() {
			return up, nil
		}
		var value []byte
		if err == nil {
			if part.FileName() != "" {
				up.file = part
				body.limit = -1
				if c.Request().IsBodyStream() {
					body.from = httpserver.BodyReader(c.Context(), pieceTime)
				}
				return up, nil
			}
			value, err = io.ReadAll(io.LimitReader(part, maxField+1))
		}
		switch {
		case body.isOver() || len(value) > maxField:
			return nil, fault.New(fault.TooLarge, "Nothing was changed: a field of the form is too long.")
		case err != nil:
			return nil, errMalformed
		}
		up.fields.Add(part.FormName(), string(value))
	}
}

func requestBody(c *fiber.Ctx) io.Reader {
	if request := c.Request(); request.IsBodyStream() {
		return request.BodyStream()
	}
	return strings.NewReader(string(c.Request().Body()))
}

// uploadReader reads an upload, at most limit bytes of it unless that is
// negative.
type uploadReader struct {
	from  io.Reader
	limit int
}

// Read reads a piece.
func (r *uploadReader) Read(p []byte) (int, error) {
	if r.limit < 0 {
		return r.from.Read(p)
	}
	if r.limit == 0 {
		return 0, io.EOF
	}
	n, err := r.from.Read(p[:min(len(p), r.limit)])
	r.limit -= n
	return n, err
}

// isOver reports whether the limit was reached.
func (r *uploadReader) isOver() bool { return r.limit == 0 }

// form returns the fields of a page's form. Each is valid UTF-8.
func form(c *httpserver.Call) (url.Values, error) {
	values, err := readForm(c.Ctx)
	if err != nil {
		return nil, err
	}
	for name, all := range values {
		for _, value := range all {
			if !utf8.ValidString(value) {
				return nil, fault.Field(clipLine(name, 40), "is not valid UTF-8")
			}
		}
	}
	return values, nil
}

// line returns a field of one line, without spaces around it.
func line(values url.Values, name string, most int) (string, error) {
	value := strings.TrimSpace(values.Get(name))
	switch {
	case len(value) > most:
		return value, fault.Field(name, "has %d bytes; at most %d are allowed", len(value), most)
	case strings.ContainsFunc(value, unicode.IsControl):
		return value, fault.Field(name, "holds a control character, such as a line break; remove it")
	}
	return value, nil
}

// clipLine makes a line of at most so many bytes out of anything.
func clipLine(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}
