package adminui

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

// importTime bounds a dry run and an import, without their upload.
const importTime = 5 * time.Minute

// importForm is what the form says beside the file.
type importForm struct {
	Reason  string
	For     string
	Until   string
	On      blocks.Conflict
	SkipBad bool
}

// options are what the form says as an import needs it.
func (f *importForm) options(now time.Time) (admin.ImportOptions, error) {
	expiry, err := site.ExpiryOf(f.For, f.Until, now)
	return admin.ImportOptions{Reason: f.Reason, Expiry: expiry, OnConflict: f.On}, err
}

// heldImport is what is remembered with a file that waits for its import.
type heldImport struct {
	importForm
	report *admin.ImportResult // of the dry run, nil before it
}

// importPage imports blocks in two steps: a dry run, and the import.
type importPage struct {
	site.Frame
	importForm
	FieldErrors form.FieldErrors
	Problem     string // why there is no report, "" where there is one or none was asked for
	Held        *form.HeldFile[heldImport]
	Report      *admin.ImportResult // nil before the first step
	Done        bool                // it was imported
}

// Choices returns the lengths that the form offers.
func (p *importPage) Choices() []form.Choice { return lengthChoices }

// Conflicts returns what may become of patterns that are blocked already.
func (p *importPage) Conflicts() []form.Choice {
	return conflictChoices
}

// FormatWord names what the file was read as.
func (p *importPage) FormatWord() string {
	return map[admin.BlockFormat]string{admin.BlocksCSV: "CSV", admin.BlocksJSON: "JSON", admin.BlocksPlain: "a plain list"}[admin.DetectFormat(p.Held.Name(), p.Held.Head())]
}

// Changes is how many blocks the import makes or changes.
func (p *importPage) Changes() int {
	return p.Report.Created + p.Report.Extended + p.Report.Replaced
}

// Ratio writes how much of the last day's traffic the new blocks would have
// refused, with its error.
func (p *importPage) Ratio() string { return ratioWithError(p.Report.Traffic) }

// MoreBad is how many bad rows are not shown one by one.
func (p *importPage) MoreBad() int { return p.Report.Invalid - len(p.Report.Bad) }

// MoreBroad is how many reasons for a confirmation are not shown one by one.
func (p *importPage) MoreBroad() int {
	return p.Report.Confirmation.Count - len(p.Report.Confirmation.Findings)
}

// ConfirmText is what is to be typed to import what is broad: its pattern where
// there is only one.
func (p *importPage) ConfirmText() string {
	c := p.Report.Confirmation
	if c.Count == 1 && !c.Findings[0].Pattern.IsZero() {
		return c.Findings[0].Pattern.String()
	}
	return "confirm " + strconv.Itoa(c.Count)
}

// ImpactText says how much of the last day's traffic a block of what was found
// would have refused, "" where that is not known.
func (p *importPage) ImpactText(f admin.Finding) string {
	if f.Impact == nil || f.Impact.Traffic == nil {
		return ""
	}
	return "about " + ratioWithError(f.Impact.Traffic) + " of the last day’s traffic"
}

// importHandler imports blocks.
type importHandler struct {
	*site.Site
	entries *admin.Entries
	held    form.HeldFiles[heldImport]
}

func (h *importHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.Get(form.ImportPath, identity.Operate, h.showImport),
		h.Post(form.ImportPath, identity.Operate, h.tryImport),
		h.Post(form.ImportPath+"/confirm", identity.Operate, h.confirmImport),
	}
}

func (h *importHandler) newPage(c *httpserver.Call) *importPage {
	return &importPage{Frame: h.NewFrame(c, "Import blocks", "/blocks"), importForm: importForm{For: "7d", On: blocks.Keep}, FieldErrors: form.FieldErrors{}}
}

func (h *importHandler) showImport(c *httpserver.Call) error {
	return h.Render(c, http.StatusOK, "import", h.newPage(c))
}

// tryImport says what an import would do, and imports nothing.
func (h *importHandler) tryImport(c *httpserver.Call) error {
	page := h.newPage(c)
	err := h.readImport(c, page)
	if err == nil && len(page.FieldErrors) == 0 {
		err = h.dryRun(c, page)
	}
	if err != nil {
		if err = page.addError(err); err != nil {
			return err
		}
	}
	status := http.StatusOK
	if page.Report == nil {
		status = site.StatusInvalidForm
	}
	return h.Render(c, status, "import", page)
}

// addError shows an error that the caller can fix on the page; other errors are
// returned.
func (p *importPage) addError(err error) error {
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

// readImport reads the form and keeps its file.
func (h *importHandler) readImport(c *httpserver.Call, page *importPage) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	page.For, page.Until, page.SkipBad = values.Get("for"), values.Get("until"), values.Get("skip_bad") == "yes"
	page.Reason, page.On = strings.TrimSpace(values.Get("reason")), blocks.Conflict(values.Get("on_conflict"))
	options, err := page.options(h.Now())
	if err == nil {
		err = options.Check(h.Now())
	}
	if err != nil {
		if err = page.FieldErrors.Add(err); err != nil {
			return err
		}
	}
	if len(page.FieldErrors) > 0 {
		c.Ctx.Context().SetConnectionClose() // the file is not read
		return nil
	}
	page.Held, err = h.holdUpload(c, values, page.importForm)
	return err
}

// holdUpload holds the file of a form, or the pasted list.
func (h *importHandler) holdUpload(c *httpserver.Call, values url.Values, options importForm) (*form.HeldFile[heldImport], error) {
	var from io.Reader = strings.NewReader(values.Get("list"))
	name := ""
	if up := form.UploadOf(c); up != nil {
		if strings.TrimSpace(values.Get("list")) != "" {
			return nil, fault.Field("file", "Choose a file or paste a list, not both.")
		}
		from, name = up, up.Name
	}
	return h.held.Hold(ownerOf(c), name, from, heldImport{importForm: options}, h.Now())
}

// ownerOf identifies the session of a request, "" for none.
func ownerOf(c *httpserver.Call) string {
	if l := loginOf(c); l != nil {
		return string(l.Session.Hash)
	}
	return ""
}

// dryRun reports what the import would do.
func (h *importHandler) dryRun(c *httpserver.Call, page *importPage) (err error) {
	page.Report, err = h.run(c, page.Held, admin.ImportOptions{OnConflict: page.On, SkipBad: true, DryRun: true})
	if err != nil {
		h.held.Drop(page.Held)
	}
	page.Held.SetNote(heldImport{page.importForm, page.Report})
	return err
}

func (h *importHandler) run(c *httpserver.Call, file *form.HeldFile[heldImport], o admin.ImportOptions) (result *admin.ImportResult, err error) {
	note := file.Note()
	chosen, err := note.options(h.Now())
	if err != nil {
		return nil, err
	}
	o.Format, o.Reason, o.Expiry = admin.DetectFormat(file.Name(), file.Head()), chosen.Reason, chosen.Expiry
	err = file.Read(func(from io.Reader) error {
		ctx, cancel := context.WithTimeout(context.Background(), importTime)
		defer cancel()
		result, err = h.entries.Import(ctx, site.CallerOf(c), from, o)
		return err
	})
	return result, err
}

// confirmImport imports the file of the dry run with the options of the dry run.
func (h *importHandler) confirmImport(c *httpserver.Call) error {
	values, err := form.Read(c)
	if err != nil {
		return err
	}
	page := h.newPage(c)
	if page.Held = h.held.Find(ownerOf(c), values.Get("file"), h.Now()); page.Held == nil {
		return form.ErrNotHeld
	}
	tried := page.Held.Note()
	page.importForm, page.Report = tried.importForm, tried.report
	o := admin.ImportOptions{OnConflict: page.On, SkipBad: page.SkipBad || values.Get("skip_bad") == "yes"}
	if page.Report != nil && page.Report.Confirmation != nil {
		if strings.TrimSpace(values.Get("confirm")) != page.ConfirmText() {
			page.FieldErrors["confirm"] = "Nothing was imported. To import also what is broad, type " + page.ConfirmText() + "."
			return h.Render(c, site.StatusInvalidForm, "import", page)
		}
		o.Confirm = page.Report.Confirmation.Digest
	}
	if page.Report, err = h.run(c, page.Held, o); err != nil {
		return err
	}
	h.held.Drop(page.Held)
	page.Done = true
	return h.Render(c, http.StatusOK, "import", page)
}
