package httpserver

import (
	"errors"
	"io"
	"mime/multipart"
	"net/url"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/fault"
)

const (
	maxUploadFields = 1 << 20  // of all fields together, in bytes
	maxUploadField  = 64 << 10 // of one field, in bytes
	// uploadPieceTime bounds the read of each piece of a file.
	uploadPieceTime = 10 * time.Second
)

// Upload is a multipart form whose last part may be a file.
type Upload struct {
	// Name is the file name given by the sender. It may contain anything.
	Name   string
	Fields url.Values      // the fields before the file
	file   *multipart.Part // nil for none
}

// HasFile reports whether the form has a file.
func (u *Upload) HasFile() bool { return u.file != nil }

// Read reads the file, which must exist.
func (u *Upload) Read(p []byte) (int, error) { return u.file.Read(p) }

// ReadUpload reads a multipart form up to its file; the content of the file is read later, as
// it arrives. The fields must arrive within the time of any request, and their size is bounded.
// The file has uploadPieceTime for each piece, and its size is not bounded. The errors are
// *fault.Error.
func ReadUpload(c *fiber.Ctx, boundary string) (*Upload, error) {
	body := &uploadReader{limit: maxUploadFields, from: BodyReader(c.Context(), 0)}
	reader := multipart.NewReader(body, boundary)
	up := &Upload{Fields: url.Values{}}
	for {
		part, err := reader.NextPart()
		if errors.Is(err, io.EOF) && !body.isOver() {
			return up, nil
		}
		var value []byte
		if err == nil {
			if part.FileName() != "" {
				up.file, up.Name = part, part.FileName()
				body.limit = -1
				if c.Request().IsBodyStream() {
					body.from = BodyReader(c.Context(), uploadPieceTime)
				}
				return up, nil
			}
			value, err = io.ReadAll(io.LimitReader(part, maxUploadField+1))
		}
		switch {
		case body.isOver() || len(value) > maxUploadField:
			return nil, fault.New(fault.TooLarge, "Nothing was changed: a field of the form is too long.")
		case err != nil:
			return nil, fault.New(fault.Malformed, "Nothing was changed: the form ended early or cannot be read.")
		}
		up.Fields.Add(part.FormName(), string(value))
	}
}

// uploadReader reads an upload, at most limit bytes of it. A negative limit means no limit.
type uploadReader struct {
	from  io.Reader
	limit int
}

// Read reads the next bytes.
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
