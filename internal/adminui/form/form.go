package form

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
)

const (
	maxForm  = 1 << 20
	maxField = 64 << 10 // one field of an upload's form
	// pieceTime is how long a piece of an upload may take.
	pieceTime = 10 * time.Second
)

// The routes whose forms may contain a file.
const (
	ImportPath    = "/blocks/import"
	TryNewPath    = "/new-policy/try"
	TryPolicyPath = "/policies/:name/try"
)

type requestKey string

const (
	fieldsLocal requestKey = "form fields"
	uploadLocal requestKey = "form upload"
)

// Upload is a form with a file.
type Upload struct {
	// Name is what the file is called, at most 80 bytes of one line.
	Name   string
	file   *multipart.Part // nil for none
	fields url.Values      // before the file
}

// Read reads the file.
func (u *Upload) Read(p []byte) (int, error) { return u.file.Read(p) }

// UploadOf returns the file of a form that was read, nil where it has none.
func UploadOf(c *httpserver.Call) *Upload {
	u, _ := c.Locals(uploadLocal).(*Upload)
	if u == nil || u.file == nil {
		return nil
	}
	return u
}

// Fields returns the fields of a request's form; of a form with a file, the
// fields before the file. The body is read once, by the first call.
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
		var up *Upload
		if up, err = readUpload(c, params["boundary"]); err == nil {
			c.Locals(uploadLocal, up)
			values = up.fields
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
	return path == ImportPath || path == TryNewPath || path == TryPolicyPath
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

// readUpload reads a form up to its file, at most maxForm bytes. The file must
// be the last field. readUpload runs before the CSRF token is checked, so the
// fields get no more time than any request.
func readUpload(c *fiber.Ctx, boundary string) (*Upload, error) {
	body := &uploadReader{limit: maxForm, from: requestBody(c)}
	reader := multipart.NewReader(body, boundary)
	up := &Upload{fields: url.Values{}}
	for {
		part, err := reader.NextPart()
		if errors.Is(err, io.EOF) && !body.isOver() {
			return up, nil
		}
		var value []byte
		if err == nil {
			if part.FileName() != "" {
				up.file, up.Name = part, format.ClipLine(part.FileName(), 80)
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
			return nil, ErrMalformed
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

// Line returns a field of one line, without spaces around it.
func Line(values url.Values, name string, maxBytes int) (string, error) {
	value := strings.TrimSpace(values.Get(name))
	switch {
	case len(value) > maxBytes:
		return value, fault.Field(name, "has %d bytes; at most %d are allowed", len(value), maxBytes)
	case strings.ContainsFunc(value, unicode.IsControl):
		return value, fault.Field(name, "holds a control character, such as a line break; remove it")
	}
	return value, nil
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
