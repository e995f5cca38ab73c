// Package site has what all pages share: routes, frame, navigation, templates, sessions and errors.
package site

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/blocks"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// Site is shared by all pages: routes, templates, the frame around each page and the error
// pages. See New.
type Site struct {
	Options
	pages    *pages
	menu     []navItem // complete once the routes are made
	failures *httpserver.Failures
}

// View is the part of the node's copy of the policies and entries that the pages read.
type View interface {
	Parser() keys.Parser
	Selector() *rules.Selector
	Blocks() *blocks.Set
	// Failing returns why and since when the copy is out of date, nil if it is up to date.
	Failing() (since time.Time, err error)
	// Loaded reports whether there is a copy.
	Loaded() bool
	// Unconfirmed reports whether the copy was read from a file, and from when it is.
	Unconfirmed() (asOf time.Time, unconfirmed bool)
}

// Options configure a Site.
type Options struct {
	Catalog View
	// OpenProposals returns the number of open proposals for the side bar; nil if none are
	// made.
	OpenProposals func(context.Context) (int, error)
	// Silences returns the active silences of notifications; nil for none.
	Silences      func() []operations.Silence
	Ready         func(context.Context) wire.Readiness // nil if nothing is reported
	StoreLiveness httpserver.StoreLiveness             // of the database

	Node, Version string
	Logger        *slog.Logger
	Now           func() time.Time
}

// New returns a site. The error is the first one in a shared template.
func New(o Options) (*Site, error) {
	s := &Site{Options: o, failures: &httpserver.Failures{Logger: o.Logger, Now: o.Now}}
	var err error
	s.pages, err = newPages(s.funcs())
	return s, err
}

// RenderLive sends a page that refreshes itself. To the refresh request it sends only the part
// "live" and what of the frame changes.
func (s *Site) RenderLive(c *httpserver.Call, name string, page any) error {
	if IsHTMX(c.Ctx) && c.Get("HX-Target") == "live" {
		return s.RenderPart(c, name, "refreshed", page)
	}
	return s.Render(c, http.StatusOK, name, page)
}

// PolicyName returns the name of a policy, "" if there is none with that id.
func (s *Site) PolicyName(id int64) string {
	if p, found := s.Catalog.Selector().ByID(id); found {
		return p.Name
	}
	return ""
}

// ReadPattern reads the pattern of a filter; field is its name in the address.
func (s *Site) ReadPattern(field, text string) (keys.Pattern, error) {
	return s.readPattern(admin.FilterReading(s.Catalog), field, text)
}

// ReadEntryPattern reads the pattern of entries in the address of their list, where it may be
// literal.
func (s *Site) ReadEntryPattern(field, text string, literal bool) (keys.Pattern, error) {
	reading := admin.FilterReading(s.Catalog)
	reading.Literal = literal
	return s.readPattern(reading, field, text)
}

func (s *Site) readPattern(reading keys.Reading, field, text string) (keys.Pattern, error) {
	pattern, err := reading.Pattern(text)
	if err != nil {
		return pattern, fault.Field(field, "%s", format.Capital(err.Error()))
	}
	return pattern, nil
}

// ExpiryOf parses the two fields of an expiry: a duration after from, a date, or never.
func ExpiryOf(length, until string, from time.Time) (blocks.Expiry, error) {
	switch length {
	case "good":
		return blocks.Expiry{}, nil
	case "until":
		end, err := time.Parse(format.DateField, strings.Replace(strings.TrimSpace(until), "T", " ", 1))
		if err != nil || end.IsZero() { // zero would be permanent
			return blocks.Expiry{}, fault.Field("expires_at", "Enter a day and a time in UTC as YYYY-MM-DD hh:mm.")
		}
		return blocks.Expiry{Until: end}, nil
	}
	d, err := rules.ParseDuration(length)
	if err != nil {
		return blocks.Expiry{}, fault.Field("expires_at", "Choose a duration.")
	}
	return blocks.Expiry{Until: from.Add(d)}, nil
}

// ExpiryChoice returns the values of the two fields for an expiry.
func ExpiryChoice(expires time.Time) (length, until string) {
	if expires.IsZero() {
		return "good", ""
	}
	return "until", format.DateOf(expires)
}

// ParseExpiry returns an expiry: a duration after from, a date, or zero for never.
func (s *Site) ParseExpiry(length, until string, from time.Time) (time.Time, error) {
	e, err := ExpiryOf(length, until, from)
	if err != nil {
		return time.Time{}, err
	}
	return e.At(s.Now())
}

// Get returns the route of a page. Parameters of the path are names or ids.
func (s *Site) Get(path string, access identity.Access, h httpserver.Handler) httpserver.Route {
	return s.route(http.MethodGet, path, access, h)
}

// Post returns the route of an action. Its form is read before h, for form.Values, unless everybody may send it:
// then h reads it, and bounds it.
func (s *Site) Post(path string, access identity.Access, h httpserver.Handler) httpserver.Route {
	return s.route(http.MethodPost, path, access, h)
}

func (s *Site) route(method, path string, access identity.Access, h httpserver.Handler) httpserver.Route {
	params := params.FindAllStringSubmatch(path, -1)
	return httpserver.Route{
		Listener: httpserver.Admin, Method: method, Path: path, Access: access, Failed: s.failed,
		Streams: method == http.MethodPost && form.HasUpload(path),
		Handler: func(c *httpserver.Call) error {
			setHeaders(c.Ctx)
			for _, param := range params {
				// What cannot be a name or an id is not found, without querying a database.
				if value := c.Params(param[1]); value == "" || len(value) > 128 || !format.IsPlain(value) {
					return fault.New(fault.NotFound, "There is nothing with that name.")
				}
			}
			if method == http.MethodPost && access != identity.Public {
				if _, err := form.Read(c); err != nil {
					return err
				}
			}
			return h(c)
		},
	}
}

// params matches the parameters in a route's path.
var params = regexp.MustCompile(`:(\w+)`)

// contentPolicy allows pages to run and load only Stint's own files.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func setHeaders(c *fiber.Ctx) {
	c.Set(fiber.HeaderContentSecurityPolicy, contentPolicy)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderXFrameOptions, "DENY")
	// Addresses of pages contain keys, which other sites must not learn.
	c.Set(fiber.HeaderReferrerPolicy, "same-origin")
	c.Set("Cross-Origin-Opener-Policy", "same-origin")
	c.Set("Cross-Origin-Resource-Policy", "same-origin")
	c.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
}

// Redirect sends the browser to a page after a change.
func (s *Site) Redirect(c *httpserver.Call, target string) error {
	if IsHTMX(c.Ctx) {
		c.Set("HX-Redirect", target)
		return c.SendStatus(http.StatusNoContent)
	}
	return c.Redirect(target, http.StatusSeeOther)
}

// IsHTMX reports whether htmx sent the request and expects a part of a page.
func IsHTMX(c *fiber.Ctx) bool { return c.Get("HX-Request") == "true" }

// OwnPath returns path if it is an address of these pages, and the first page otherwise: no
// form or link may lead to another site. The path becomes a header, in which control characters
// are read in different ways.
func OwnPath(path string) string {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsRune(path, '\\') || strings.ContainsFunc(path, unicode.IsControl) {
		return "/"
	}
	return path
}

// KeyPath is the path of the page that explains a key (?key=) or a refusal (?refusal=).
const KeyPath = "/key"

// ActiveKeysPath is the path of the page that lists the keys that were checked.
const ActiveKeysPath = "/keys/active"

// ReturnTo redirects to one of these pages, which shows the toast done for the entries with the
// given ids.
func (s *Site) ReturnTo(c *httpserver.Call, path, done string, ids []string) error {
	target, err := url.Parse(OwnPath(path))
	if err != nil {
		return fault.Field("back", "is not an address")
	}
	q := target.Query()
	q.Del("ask")
	q.Set("done", done)
	q.Del("ids")
	// Too many ids do not fit into an address. The toast then has no undo.
	if len(ids) > 0 && len(ids) <= RowsPerPage {
		q.Set("ids", strings.Join(ids, ","))
	}
	target.RawQuery = q.Encode()
	target.Fragment = ""
	return s.Redirect(c, target.String())
}

// HiddenFields returns hidden fields from pairs of a name and its value.
func HiddenFields(pairs ...string) []Field {
	var all []Field
	for i := 0; i+1 < len(pairs); i += 2 {
		all = append(all, Field{Name: pairs[i], Value: pairs[i+1]})
	}
	return all
}

func HiddenIDs(ids []string) []Field {
	var all []Field
	for _, id := range ids {
		all = append(all, Field{Name: "id", Value: id})
	}
	return all
}

// StatusInvalidForm is the status of a form that is shown again with its errors.
const StatusInvalidForm = http.StatusUnprocessableEntity

const RowsPerPage = 50

// PatternText returns the pattern that selects exactly one counted key.
func PatternText(key string) string {
	k, err := offences.ParseKey(key)
	if err != nil {
		return ""
	}
	return keys.PatternOf(k).String()
}

// LinkOfPattern returns the address of the page of the one key that a pattern selects, "" if it
// may select several.
func (s *Site) LinkOfPattern(p keys.Pattern) string {
	text := p.String()
	if p.Kind() == keys.Exact {
		text = p.Literal()
	}
	k, err := s.Catalog.Parser().Key(text)
	if err != nil || keys.PatternOf(k).String() != p.String() {
		return ""
	}
	return KeyPath + "?" + url.Values{"key": {k.String()}}.Encode()
}
