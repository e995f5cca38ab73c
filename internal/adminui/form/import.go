package form

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
)

// importTime bounds a dry run and an import, without their upload.
const importTime = 5 * time.Minute

// Import is the state of an import page: in the first step the dry run of a file, in the second
// the import of the same file. O are the fields of the form other than the file, R is the
// report of the use case.
type Import[O, R any] struct {
	Options     O
	FieldErrors FieldErrors
	// Problem is why there is no report, or why the file was not imported; "" if there is a report
	// of the first step, or none was requested.
	Problem string
	Held    *HeldFile[Tried[O, R]]
	Report  *R   // nil before the first step
	Done    bool // it was imported
	// Repeated is when an earlier request imported the file and produced Report; zero if this
	// request did.
	Repeated time.Time
}

// Tried is what is stored with a file that waits for its import.
type Tried[O, R any] struct {
	options  O
	report   *R // of the dry run, nil before it
	imported *imported[R]
}

// imported is the result of importing a file. A repeated request, for example after a double
// click or when a browser reloads the page, gets the same result.
type imported[R any] struct {
	at     time.Time
	report *R
	err    error // of the code fault.Saved, nil for none
}

// Imports holds the files between the two steps of an import. The zero value is ready for use.
// It is safe for concurrent use.
type Imports[O, R any] struct{ held HeldFiles[Tried[O, R]] }

// RunImport reads a file to its end.
type RunImport[R any] func(ctx context.Context, from io.Reader) (*R, error)

// Hold stores the file of a form, or the pasted list, with the options of p.
func (i *Imports[O, R]) Hold(c *httpserver.Call, values url.Values, p *Import[O, R], now time.Time) (err error) {
	var from io.Reader = strings.NewReader(values.Get("list"))
	name := ""
	if up := UploadOf(c); up != nil {
		if strings.TrimSpace(values.Get("list")) != "" {
			return fault.Field("file", "Choose a file or paste a list, not both.")
		}
		from, name = up, up.Name
	}
	p.Held, err = i.held.Hold(ownerOf(c), name, from, Tried[O, R]{options: p.Options}, now)
	return err
}

// Try sets on p the report of run, a dry run, about the held file.
func (i *Imports[O, R]) Try(p *Import[O, R], run RunImport[R]) (err error) {
	if p.Report, err = p.read(run); err != nil {
		i.held.Drop(p.Held)
		return err
	}
	p.Held.SetNote(Tried[O, R]{options: p.Options, report: p.Report})
	return nil
}

// Find sets on p the file that the form of the second step names, with the options and the
// report of its dry run or, if it was already imported, the result of the import. The error is
// ErrNotHeld, or that of the import.
func (i *Imports[O, R]) Find(c *httpserver.Call, values url.Values, p *Import[O, R], now time.Time) error {
	if p.Held = i.held.Find(ownerOf(c), values.Get("file"), now); p.Held == nil {
		return ErrNotHeld
	}
	tried := p.Held.Note()
	p.Options, p.Report = tried.options, tried.report
	if tried.imported != nil {
		return p.repeat(tried.imported)
	}
	return nil
}

// repeat sets the result of an earlier request.
func (p *Import[O, R]) repeat(was *imported[R]) error {
	p.Report, p.Done, p.Repeated = was.report, true, was.at
	return was.err
}

// Finish sets on p the report of run, an import, about the held file at now. Of concurrent
// requests, the first imports the file and the others show its result.
func (i *Imports[O, R]) Finish(p *Import[O, R], now time.Time, run RunImport[R]) error {
	var before *imported[R]
	report, err := p.read(func(ctx context.Context, from io.Reader) (*R, error) {
		tried := p.Held.Note()
		if before = tried.imported; before != nil {
			return nil, nil
		}
		report, err := run(ctx, from)
		if err == nil || fault.Is(err, fault.Saved) {
			tried.imported = &imported[R]{now, report, err}
			p.Held.SetNote(tried)
			p.Held.empty()
		}
		return report, err
	})
	if before != nil {
		return p.repeat(before)
	}
	if err != nil {
		return err
	}
	p.Report, p.Done = report, true
	return nil
}

func (p *Import[O, R]) read(run RunImport[R]) (report *R, err error) {
	err = p.Held.Read(func(from io.Reader) error {
		ctx, cancel := context.WithTimeout(context.Background(), importTime)
		defer cancel()
		report, err = run(ctx, from)
		return err
	})
	return report, err
}

// TryAgain sets on p the report of run, a dry run, about a file that Finish did not import with the
// error failed because of what became of the file since its preview, and says so in p.Problem. It
// returns any other error.
func (i *Imports[O, R]) TryAgain(p *Import[O, R], failed error, run RunImport[R]) error {
	var invalid *fault.Error
	if !errors.As(failed, &invalid) || invalid.Code != fault.NeedConfirm && invalid.Code != fault.Invalid {
		return failed
	}
	bad, _ := invalid.Detail["invalid"].(int)
	if bad == 0 && invalid.Field == "" {
		return failed
	}
	_, err := p.read(func(ctx context.Context, from io.Reader) (*R, error) {
		tried := p.Held.Note()
		if tried.imported != nil { // by a concurrent request
			return nil, p.repeat(tried.imported)
		}
		report, err := run(ctx, from)
		if err == nil {
			tried.report = report
			p.Held.SetNote(tried)
		}
		p.Report = report
		return report, err
	})
	switch {
	case p.Done:
		return err
	case err != nil:
		p.Problem = "Correct the form and choose the list again."
		return p.FieldErrors.Add(err)
	case bad > 0:
		verb := "are"
		if bad == 1 {
			verb = "is"
		}
		p.Problem = fmt.Sprintf("%d of the %d rows %s invalid.", bad, invalid.Detail["rows"], verb)
	default:
		p.Problem = "What it would do has changed since its preview. This is a new preview."
	}
	return nil
}

// Status returns the HTTP status of a step.
func (p *Import[O, R]) Status() int {
	if p.Report == nil || p.Problem != "" {
		return http.StatusUnprocessableEntity
	}
	return http.StatusOK
}

// AddError shows an error on the page if the caller can fix it, and returns any other error.
func (p *Import[O, R]) AddError(err error) error {
	if err == nil {
		return nil
	}
	if err = p.FieldErrors.Add(err); err == nil {
		return nil
	}
	var invalid *fault.Error
	if !errors.As(err, &invalid) || httpserver.StatusOf(err) >= http.StatusInternalServerError {
		return err
	}
	p.Problem = invalid.Message
	return nil
}

// ownerOf identifies the session of a request, "" for none.
func ownerOf(c *httpserver.Call) string {
	if c.Principal == nil {
		return ""
	}
	return string(c.Principal.Proof[:])
}
