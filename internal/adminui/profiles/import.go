package profiles

import (
	"context"
	"io"
	"net/http"
	"strings"

	use "github.com/stint-dev/stint/internal/admin/profiles"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/profiles"
)

// importForm are the fields of the form other than the file.
type importForm struct{ SkipBad bool }

// importPage imports keys in two steps: a dry run, and the import.
type importPage struct {
	site.Frame
	form.Import[importForm, use.ImportResult]
}

// FormatWord names the detected format of the file.
func (p *importPage) FormatWord() string {
	if use.DetectFormat(p.Held.Name(), p.Held.Head()) == use.JSON {
		return "JSON"
	}
	return "CSV"
}

// Changes returns how many keys the import creates or replaces.
func (p *importPage) Changes() int { return p.Report.Created + p.Report.Replaced }

// MoreChanges returns how many changes are not listed individually.
func (p *importPage) MoreChanges() int { return p.Changes() - len(p.Report.Changes) }

// UnusedNames lists the first of the plans without a policy.
func (p *importPage) UnusedNames() string {
	const maxNames = 5
	all := p.Report.UnusedPlans()
	var names []string
	for _, one := range all[:min(len(all), maxNames)] {
		names = append(names, "plan:"+one.Plan)
	}
	if more := len(all) - len(names); more > 0 {
		names = append(names, phrase.Count(more, "more plan"))
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return names[0]
}

// Summary describes a profile without its limit, "" if it is empty.
func (p *importPage) Summary(kept *profiles.Profile) string {
	if kept == nil {
		return ""
	}
	var parts []string
	if kept.Plan != "" {
		parts = append(parts, kept.Plan)
	}
	if len(kept.Labels) > 0 {
		parts = append(parts, strings.Join(kept.Labels, " "))
	}
	if kept.Note != "" {
		parts = append(parts, kept.Note)
	}
	return strings.Join(parts, ", ")
}

// importHandler imports keys.
type importHandler struct {
	*site.Site
	profiles *use.Profiles
	imports  form.Imports[importForm, use.ImportResult]
}

func (h *importHandler) routes() []httpserver.Route {
	return []httpserver.Route{
		h.Get(form.ImportKeysPath, identity.Operate, h.showImport),
		h.Post(form.ImportKeysPath, identity.Operate, h.tryImport),
		h.Post(form.ImportKeysPath+"/confirm", identity.Operate, h.confirmImport),
	}
}

func (h *importHandler) newPage(c *httpserver.Call) *importPage {
	page := &importPage{Frame: h.NewFrame(c, "Import keys", Path)}
	page.FieldErrors = form.FieldErrors{}
	return page
}

func (h *importHandler) showImport(c *httpserver.Call) error {
	return h.Render(c, http.StatusOK, "keys-import", h.newPage(c))
}

// tryImport shows the result of a dry run.
func (h *importHandler) tryImport(c *httpserver.Call) error {
	page := h.newPage(c)
	values := form.Values(c)
	page.Options.SkipBad = values.Get("skip_bad") == "yes"
	err := h.imports.Hold(c, values, &page.Import, h.Now())
	if err == nil {
		err = h.imports.Try(&page.Import, h.dryRun(c, page))
	}
	if err := page.AddError(err); err != nil {
		return err
	}
	return h.Render(c, page.Status(), "keys-import", page)
}

// run returns a function that imports the file of a page with the options o.
func (h *importHandler) run(c *httpserver.Call, page *importPage, o use.ImportOptions) form.RunImport[use.ImportResult] {
	return func(ctx context.Context, from io.Reader) (*use.ImportResult, error) {
		o.Format = use.DetectFormat(page.Held.Name(), page.Held.Head())
		return h.profiles.Import(ctx, site.CallerOf(c), from, o)
	}
}

// dryRun returns a function that predicts what run does.
func (h *importHandler) dryRun(c *httpserver.Call, page *importPage) form.RunImport[use.ImportResult] {
	return h.run(c, page, use.ImportOptions{DryRun: true})
}

// confirmImport imports the file of the dry run with the same options.
func (h *importHandler) confirmImport(c *httpserver.Call) error {
	values := form.Values(c)
	page := h.newPage(c)
	if err := h.imports.Find(c, values, &page.Import, h.Now()); err != nil {
		return err
	}
	if page.Done {
		return h.Render(c, http.StatusOK, "keys-import", page)
	}
	o := use.ImportOptions{SkipBad: page.Options.SkipBad || values.Get("skip_bad") == "yes"}
	if err := h.imports.Finish(&page.Import, h.Now(), h.run(c, page, o)); err != nil {
		if err := h.imports.TryAgain(&page.Import, err, h.dryRun(c, page)); err != nil {
			return err
		}
	}
	return h.Render(c, page.Status(), "keys-import", page)
}
