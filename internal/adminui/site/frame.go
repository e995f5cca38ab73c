package site

import (
	"bytes"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

// Frame is the part that all pages have. The struct of a page embeds it; see Site.NewFrame.
type Frame struct {
	Title   string // of the browser's tab, and the page's heading unless it has its own
	Nav     []navGroup
	Carry   []Field // the time range that every link keeps, none for the default
	Theme   string  // "system", "light" or "dark"
	Here    string  // this page's address, to return to it
	CSRF    string  // the session's token, see MaskCSRF; "" without a session
	User    string  // the user who is logged in, "" for nobody
	Role    string
	Address string // the client address
	Node    string // "" on a page without a footer, which shows nothing about the node
	Version string
	Now     time.Time
	// Degraded names the parts that fail, for the bottom of the side bar.
	Degraded []string
	// Outage is the present outage of the database, nil for none. Nothing can be changed during it.
	Outage *Outage
	// NoWrites is since when the database has accepted no writes, although it can be read; zero if
	// it accepts them.
	NoWrites time.Time
	// Silences are the active silences of notifications.
	Silences []operations.Silence
	// Toast describes the last change, nil for none.
	Toast *Toast

	Principal *httpserver.Principal
}

// Toast describes a change and how to undo it.
type Toast struct {
	Text string // "Ended the block of"
	Key  string // the changed object, shown as a key; "" for none
	// Undo is the action that undoes the change, "" for none. Fields are its fields.
	Undo   string
	Fields []Field
}

// DoneToast returns the toast for the parameter done, nil if texts does not contain it. A page
// that answers a form shows its errors instead.
func DoneToast(c *httpserver.Call, texts map[string]string) *Toast {
	text := texts[c.Query("done")]
	if text == "" || !IsRead(c) {
		return nil
	}
	return &Toast{Text: text}
}

// Field is a hidden field of a form.
type Field struct{ Name, Value string }

// May reports whether the caller has an access: "read", "operate" or "admin". Buttons that the
// caller may not use are hidden. During an outage of the database, nobody may more than read.
func (f Frame) May(access string) bool {
	if f.Outage != nil && access != string(identity.Read) {
		return false
	}
	return f.Principal != nil && f.Principal.May(identity.Access(access))
}

// CSRFLocal is the name of the request's local value with the session's CSRF token.
const CSRFLocal localsKey = "csrf"

type localsKey string

// NewFrame returns the frame of a page in the section of the side bar with the given path.
func (s *Site) NewFrame(c *httpserver.Call, title, section string) Frame {
	f := Frame{
		Title: title, Theme: themeOf(c.Ctx), Here: c.OriginalURL(), Address: c.Address.String(),
		Node: s.Node, Version: s.Version, Now: s.Now().UTC(), Principal: c.Principal,
	}
	if c.Path() == identities.OpenIDCallbackPath { // its address contains a code that is valid for one request
		f.Here = "/login"
	}
	if c.Principal == nil {
		return f
	}
	f.User, f.Role = c.Principal.Name, string(c.Principal.Role)
	carried := format.TimeRange{Last: format.DefaultTimeRange}
	if s, err := RangeOf(c, f.Now); err == nil {
		carried = s
	}
	for _, name := range sortedNames(carried.Params()) {
		f.Carry = append(f.Carry, Field{name, carried.Params().Get(name)})
	}
	if !c.Principal.MustSetUpTOTP { // a user who must set it up has no other access, and sees nothing of the node
		f.Outage = s.Outage()
		f.Nav = s.nav(c.Principal, section, carried)
		f.Degraded, f.NoWrites = s.degraded(c, f.Outage)
		if s.Silences != nil {
			f.Silences = s.Silences()
		}
	}
	token, _ := c.Locals(CSRFLocal).(string)
	f.CSRF = MaskCSRF(token)
	return f
}

// MayEndSilence reports whether the user may end an active silence.
func (f Frame) MayEndSilence(s operations.Silence) bool {
	return f.May(string(operations.AccessToEndSilence(s)))
}

// partNames describe failing parts of the node.
var partNames = map[string]string{
	"database": "The database accepts no writes", "log": "The timestamp log is unreachable",
	"policies": "Policies are not loaded yet", "listeners": "This node is shutting down",
	"eviction": "Redis has evicted keys", "memory": "Memory for the counts of keys is short", "geoip": "GeoIP files are missing or unreadable",
}

// degraded describes the failing parts of the node, and returns since when the database has
// accepted no writes. During an outage it can neither be read nor written.
func (s *Site) degraded(c *httpserver.Call, o *Outage) (failing []string, noWrites time.Time) {
	if o != nil {
		failing = append(failing, "The database is unreachable")
	}
	if s.Ready == nil {
		return failing, noWrites
	}
	ctx := c.Context()
	for _, part := range s.Ready(ctx).Parts {
		if part.OK || part.Name == "database" && o != nil {
			continue
		}
		text, known := partNames[part.Name]
		if !known {
			text = part.Name + " fails"
		}
		if failing = append(failing, text); part.Name == "database" {
			noWrites = part.Since.UTC()
		}
	}
	return failing, noWrites
}

// Render sends a page.
func (s *Site) Render(c *httpserver.Call, status int, name string, page any) error {
	return s.write(c.Ctx, status, name, "base", page)
}

// RenderPart sends one template of a page, for htmx.
func (s *Site) RenderPart(c *httpserver.Call, name, template string, page any) error {
	return s.write(c.Ctx, http.StatusOK, name, template, page)
}

// write executes a template into memory first, so that a template error leads to an error page
// instead of half a page. The server compresses it.
func (s *Site) write(c *fiber.Ctx, status int, name, template string, page any) error {
	templates, err := s.pages.named(name)
	if err != nil {
		return err
	}
	var buffer bytes.Buffer
	if err := templates.ExecuteTemplate(&buffer, template, page); err != nil {
		return err
	}
	setHeaders(c)
	c.Set(fiber.HeaderContentType, fiber.MIMETextHTMLCharsetUTF8)
	c.Set(fiber.HeaderVary, "Cookie, HX-Request")
	c.Status(status)
	return c.Send(buffer.Bytes())
}

func themeOf(c *fiber.Ctx) string {
	if theme := c.Cookies(ThemeCookie); slices.Contains(Themes, theme) {
		return theme
	}
	return Themes[0]
}

var Themes = []string{"system", "light", "dark"}

const ThemeCookie = "stint_theme"

var released = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)

// DocsURL returns the address of the documents of the running version, those of the main branch
// if it is no release.
func (f Frame) DocsURL() string {
	ref := "main"
	if released.MatchString(f.Version) {
		ref = f.Version
	}
	return "https://github.com/stint-dev/stint/tree/" + ref + "/docs"
}
