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

	"github.com/stint-dev/stint/internal/blocklist"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

const importPath = "/blocks/import"

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

// importPage imports blocks in two steps: what would come of it, and doing it.
type importPage struct {
	Frame
	importForm
	Mistakes mistakes
	Problem  string // why there is no report, "" where there is one or none was asked for
	Held     *heldFile
	Report   *blocklist.ImportReport // nil before the first step
	Done     bool                    // it was imported
}

// Choices returns the lengths that the form offers.
func (p *importPage) Choices() []choice { return lengthChoices }

// Conflicts returns what may become of patterns that are blocked already.
func (p *importPage) Conflicts() []choice {
	return []choice{{string(blocks.Fail), "Stay as they are"}, {string(blocks.Extend), "Last longer"}, {string(blocks.Replace), "Are replaced"}}
}

// FormatWord names what the file was read as.
func (p *importPage) FormatWord() string {
	return map[blocklist.Format]string{blocklist.CSV: "CSV", blocklist.JSON: "JSON", blocklist.Plain: "a plain list"}[p.Held.format]
}

// Changes is how many blocks the import makes or changes.
func (p *importPage) Changes() int {
	return p.Report.Created + p.Report.Extended + p.Report.Replaced
}

// Share writes how much of the last day's traffic the new blocks would have
// refused, with its error.
func (p *importPage) Share() string { return shareOf(p.Report.Traffic) }

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
func (p *importPage) ImpactText(f blocklist.Finding) string {
	if f.Impact == nil || f.Impact.Traffic == nil {
		return ""
	}
	return shareOf(f.Impact.Traffic) + " points of the last day’s traffic"
}

func (u *UI) importRoutes() []httpserver.Route {
	return []httpserver.Route{
		u.get(importPath, identity.Operate, u.showImport),
		u.post(importPath, identity.Operate, u.tryImport),
		u.post(importPath+"/confirm", identity.Operate, u.confirmImport),
	}
}

func (u *UI) newImport(c *httpserver.Call) *importPage {
	return &importPage{Frame: u.frame(c, "Import blocks", "/blocks"), importForm: importForm{For: "7d", On: blocks.Fail}, Mistakes: mistakes{}}
}

func (u *UI) showImport(c *httpserver.Call) error {
	return u.render(c, http.StatusOK, "import", u.newImport(c))
}

// tryImport says what an import would do, and imports nothing.
func (u *UI) tryImport(c *httpserver.Call) error {
	page := u.newImport(c)
	err := u.readImport(c, page)
	if err == nil && len(page.Mistakes) == 0 {
		err = u.rehearse(c, page)
	}
	if err != nil {
		if err = page.tell(err); err != nil {
			return err
		}
	}
	status := http.StatusOK
	if page.Report == nil {
		status = statusOfForm
	}
	return u.render(c, status, "import", page)
}

// tell shows a mistake of whoever imports on the page; other errors are
// returned.
func (p *importPage) tell(err error) error {
	if err = p.Mistakes.note(err); err == nil {
		return nil
	}
	var mistake *fault.Error
	if !errors.As(err, &mistake) || httpserver.StatusOf(err) >= http.StatusInternalServerError {
		return err
	}
	p.Problem = mistake.Message
	return nil
}

// readImport reads the form and keeps its file.
func (u *UI) readImport(c *httpserver.Call, page *importPage) error {
	values, err := form(c)
	if err != nil {
		return err
	}
	page.For, page.Until, page.SkipBad = values.Get("for"), values.Get("until"), values.Get("skip_bad") == "yes"
	if page.Reason, err = line(values, "reason", maxReason); err != nil {
		if err = page.Mistakes.note(err); err != nil {
			return err
		}
	}
	if _, err = u.endOf(page.For, page.Until, u.Now()); err != nil {
		if err = page.Mistakes.note(err); err != nil {
			return err
		}
	}
	switch page.On = blocks.Conflict(values.Get("on_conflict")); page.On {
	case blocks.Fail, blocks.Extend, blocks.Replace:
	default:
		return fault.New(fault.Invalid, "The choice for those that are blocked already must be fail, extend or replace.")
	}
	if len(page.Mistakes) > 0 {
		c.Ctx.Context().SetConnectionClose() // the file is not read
		return nil
	}
	page.Held, err = u.keepUpload(c, values, page.importForm)
	return err
}

// keepUpload keeps the file of a form, or the list that was pasted.
func (u *UI) keepUpload(c *httpserver.Call, values url.Values, o importForm) (*heldFile, error) {
	var from io.Reader = strings.NewReader(values.Get("list"))
	name := ""
	if up, _ := c.Locals(uploadLocal).(*upload); up != nil && up.file != nil {
		if strings.TrimSpace(values.Get("list")) != "" {
			return nil, fault.Field("file", "Choose a file or paste a list, not both.")
		}
		from, name = up.file, clipLine(up.file.FileName(), 80)
	}
	return u.imports.keep(ownerOf(c), name, from, o, u.Now())
}

// ownerOf names the session that asks.
func ownerOf(c *httpserver.Call) string {
	if l := loginOf(c); l != nil {
		return string(l.session.Hash)
	}
	return ""
}

func (u *UI) rehearse(c *httpserver.Call, page *importPage) (err error) {
	page.Report, err = u.runImport(c, page.Held, blocklist.ImportOptions{On: page.On, SkipBad: true, DryRun: true})
	if err != nil {
		u.imports.forget(page.Held)
	}
	page.Held.tried(page.Report)
	return err
}

func (u *UI) runImport(c *httpserver.Call, h *heldFile, o blocklist.ImportOptions) (*blocklist.ImportReport, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	from, err := h.read()
	if err != nil {
		return nil, errNotHeld // it has gone while this waited for it
	}
	o.Caller = c.Address
	defaults := blocklist.Defaults{Parser: u.Catalog.Parser(), Now: u.Now(), Reason: h.options.Reason}
	if defaults.Expires, err = u.endOf(h.options.For, h.options.Until, u.Now()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), importTime)
	defer cancel()
	importer := &blocklist.Importer{Store: u.Entries, View: u.Catalog, Parser: u.Catalog.Parser, Traffic: u.Traffic, Now: u.Now}
	return importer.Import(ctx, c.Actor(), blocklist.Read(from, h.format, defaults), o)
}

var errNotHeld = fault.New(fault.Conflict, "Nothing was imported: the file that was tried is no longer kept here. Files wait for 15 minutes, and only on the node that tried them. Choose it again.")

// confirmImport imports the file that was tried, by what was chosen then.
func (u *UI) confirmImport(c *httpserver.Call) error {
	values, err := form(c)
	if err != nil {
		return err
	}
	page := u.newImport(c)
	if page.Held = u.imports.find(ownerOf(c), values.Get("file"), u.Now()); page.Held == nil {
		return errNotHeld
	}
	page.importForm = page.Held.options
	o := blocklist.ImportOptions{On: page.On, SkipBad: page.SkipBad || values.Get("skip_bad") == "yes"}
	if page.Report = page.Held.foretold(); page.Report != nil && page.Report.Confirmation != nil {
		if strings.TrimSpace(values.Get("confirm")) != page.ConfirmText() {
			page.Mistakes["confirm"] = "Nothing was imported. To import also what is broad, type " + page.ConfirmText() + "."
			return u.render(c, statusOfForm, "import", page)
		}
		o.Confirm = page.Report.Confirmation.Digest
	}
	if page.Report, err = u.runImport(c, page.Held, o); err != nil {
		return err
	}
	u.imports.forget(page.Held)
	page.Done = true
	return u.render(c, http.StatusOK, "import", page)
}
