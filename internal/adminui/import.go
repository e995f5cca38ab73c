package adminui

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

// importForm are the fields of the form other than the file.
type importForm struct {
	Reason  string
	For     string
	Until   string
	On      blocks.Conflict
	SkipBad bool
	Literal bool
	Column  string
}

// options converts the form to the options of an import.
func (f *importForm) options(now time.Time) (admin.ImportOptions, error) {
	expiry, err := site.ExpiryOf(f.For, f.Until, now)
	return admin.ImportOptions{Reason: f.Reason, Expiry: expiry, OnConflict: f.On, Literal: f.Literal, Column: f.Column}, err
}

// importPage imports blocks or exemptions in two steps: a dry run, and the import.
type importPage struct {
	site.Frame
	*kindTexts
	form.Import[importForm, admin.ImportResult]
}

// Choices returns the lengths that the form offers.
func (p *importPage) Choices() []form.Choice { return lengthChoices }

// Conflicts returns the choices for patterns that have an active entry.
func (p *importPage) Conflicts() []form.Choice {
	return conflictChoices
}

func (p *importPage) format() admin.FileFormat {
	return admin.DetectFormat(p.Held.Name(), p.Held.Head())
}

// FormatWord names the detected format of the file.
func (p *importPage) FormatWord() string {
	return map[admin.FileFormat]string{admin.BlocksCSV: "CSV", admin.BlocksJSON: "JSON", admin.BlocksPlain: "a plain list", admin.BlocksAuto: "a packed file"}[p.format()]
}

// Columns names the columns and members that rows may have.
func (p *importPage) Columns() string { return blocklist.UsualColumns }

// Changes returns how many entries the import creates or changes.
func (p *importPage) Changes() int {
	return p.Report.Created + p.Report.Extended + p.Report.Replaced
}

// Final returns how many active entries the import extends or replaces. Their former state is not
// kept, so the audit cannot undo an import of any.
func (p *importPage) Final() int { return p.Report.Extended + p.Report.Replaced }

// Ratio formats how much of the last day's traffic the new blocks would have refused, with its
// error.
func (p *importPage) Ratio() string { return ratioWithError(p.Report.Traffic) }

// MoreBroad returns how many reasons for a confirmation are not listed individually.
func (p *importPage) MoreBroad() int {
	return p.Report.Confirmation.Count - len(p.Report.Confirmation.Findings)
}

// ConfirmText returns the text to type to confirm a broad import: the pattern if there is only
// one.
func (p *importPage) ConfirmText() string {
	c := p.Report.Confirmation
	if c.Count == 1 && !c.Findings[0].Pattern.IsZero() {
		return c.Findings[0].Pattern.String()
	}
	return "confirm " + strconv.Itoa(c.Count)
}

// ImpactText describes how much of the last day's traffic a finding matches, "" if that is
// unknown.
func (p *importPage) ImpactText(f admin.Finding) string {
	if f.Impact == nil || f.Impact.Traffic == nil {
		return ""
	}
	return "it matches about " + ratioWithError(f.Impact.Traffic) + " of the last day’s traffic, blocked and exempt keys included"
}

// importHandler imports the entries of one kind.
type importHandler struct {
	*site.Site
	texts   *kindTexts
	path    string // of the form package
	entries *admin.Entries
	imports form.Imports[importForm, admin.ImportResult]
}

func (h *importHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.Get(h.path, identity.Operate, h.showImport),
		h.Post(h.path, identity.Operate, h.tryImport),
		h.Post(h.path+"/confirm", identity.Operate, h.confirmImport),
	}
}

func (h *importHandler) newPage(c *httpserver.Call) *importPage {
	page := &importPage{Frame: h.NewFrame(c, "Import "+h.texts.Noun+"s", h.texts.Path), kindTexts: h.texts}
	page.Options, page.FieldErrors = importForm{On: blocks.Keep}, form.FieldErrors{}
	return page
}

func (h *importHandler) showImport(c *httpserver.Call) error {
	return h.Render(c, http.StatusOK, "import", h.newPage(c))
}

// tryImport shows the result of a dry run.
func (h *importHandler) tryImport(c *httpserver.Call) error {
	page := h.newPage(c)
	err := h.readImport(c, page)
	if err == nil && page.Held != nil {
		err = h.imports.Try(&page.Import, h.dryRun(c, page))
	}
	if err := page.AddError(err); err != nil {
		return err
	}
	return h.Render(c, page.Status(), "import", page)
}

// readImport reads the form and stores its file.
func (h *importHandler) readImport(c *httpserver.Call, page *importPage) error {
	values := form.Values(c)
	page.Options = importForm{
		Reason: strings.TrimSpace(values.Get("reason")), For: values.Get("for"), Until: values.Get("until"),
		On: blocks.Conflict(values.Get("on_conflict")), SkipBad: values.Get("skip_bad") == "yes", Literal: values.Get("literal") == "yes", Column: strings.TrimSpace(values.Get("column")),
	}
	options, err := page.Options.options(h.Now())
	if err == nil {
		err = options.Check(h.Now())
	}
	if err != nil {
		c.Ctx.Context().SetConnectionClose() // the file will not be read
		return err
	}
	return h.imports.Hold(c, values, &page.Import, h.Now())
}

// run returns a function that imports the file of a page with the options of its form and o.
func (h *importHandler) run(c *httpserver.Call, page *importPage, o admin.ImportOptions) form.RunImport[admin.ImportResult] {
	return func(ctx context.Context, from io.Reader) (*admin.ImportResult, error) {
		chosen, err := page.Options.options(h.Now())
		if err != nil {
			return nil, err
		}
		o.Kind, o.Format, o.Reason, o.Expiry, o.OnConflict, o.Literal, o.Column = h.texts.Kind, page.format(), chosen.Reason, chosen.Expiry, chosen.OnConflict, chosen.Literal, chosen.Column
		return h.entries.Import(ctx, site.CallerOf(c), from, o)
	}
}

// dryRun returns a function that predicts what run does.
func (h *importHandler) dryRun(c *httpserver.Call, page *importPage) form.RunImport[admin.ImportResult] {
	return h.run(c, page, admin.ImportOptions{SkipBad: true, DryRun: true})
}

// confirmImport imports the file of the dry run with the same options.
func (h *importHandler) confirmImport(c *httpserver.Call) error {
	values := form.Values(c)
	page := h.newPage(c)
	if err := h.imports.Find(c, values, &page.Import, h.Now()); err != nil {
		return err
	}
	o := admin.ImportOptions{SkipBad: page.Options.SkipBad || values.Get("skip_bad") == "yes"}
	if page.Done {
		return h.Render(c, http.StatusOK, "import", page)
	}
	if page.Report != nil && page.Report.Confirmation != nil {
		if strings.TrimSpace(values.Get("confirm")) != page.ConfirmText() {
			page.FieldErrors["confirm"] = "Nothing was imported. To import also what is broad, type " + page.ConfirmText() + "."
			return h.Render(c, site.StatusInvalidForm, "import", page)
		}
		o.Confirm = page.Report.Confirmation.Digest
	}
	if err := h.imports.Finish(&page.Import, h.Now(), h.run(c, page, o)); err != nil {
		if err := h.imports.TryAgain(&page.Import, err, h.dryRun(c, page)); err != nil {
			return err
		}
	}
	return h.Render(c, page.Status(), "import", page)
}
