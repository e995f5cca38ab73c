package site

import (
	"bytes"
	"net/http"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/admin/identities"
	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
)

// Frame is what every page has around it. A page's struct embeds it; get one
// from Site.NewFrame.
type Frame struct {
	Title   string // of the browser's tab, and the page's head where it has no other
	Nav     []navGroup
	Carry   []Field // the span that every link keeps, none for the usual one
	Theme   string  // "system", "light" or "dark"
	Here    string  // this page's address, for coming back to it
	CSRF    string  // the session's token, see MaskCSRF; "" without a session
	User    string  // who is logged in, "" for nobody
	Role    string
	Address string // where the request comes from
	Node    string // "" on a page that shows nothing of the node, which has no footer
	Version string
	Now     time.Time
	// Degraded names the parts that fail, for the side bar's foot.
	Degraded []string
	// Silences are those of notifications that apply now.
	Silences []operations.Silence
	// Toast says what was just changed, nil for nothing.
	Toast *Toast

	Principal *httpserver.Principal
}

// Toast says what was just changed and how to undo it.
type Toast struct {
	Text string // "Ended the block of"
	Key  string // what it was done to, shown as a key; "" for nothing
	// Undo is the action that undoes it, "" for none, with its fields.
	Undo   string
	Fields []Field
}

// DoneToast returns the toast of the change that the parameter done names, nil if it names
// none of texts. A page that answers a form shows its errors instead.
func DoneToast(c *httpserver.Call, texts map[string]string) *Toast {
	text := texts[c.Query("done")]
	if text == "" || c.Method() != http.MethodGet {
		return nil
	}
	return &Toast{Text: text}
}

// Field is a hidden field of a form.
type Field struct{ Name, Value string }

// May reports whether the caller has an access: "read",
// "operate" or "admin". Buttons that they may not press are not shown.
func (f Frame) May(access string) bool {
	return f.Principal != nil && f.Principal.May(identity.Access(access))
}

// CSRFLocal names the local of a request that holds its session's CSRF token.
const CSRFLocal localsKey = "csrf"

type localsKey string

// NewFrame returns the frame of a page in the section of the side bar
// with this path.
func (s *Site) NewFrame(c *httpserver.Call, title, section string) Frame {
	f := Frame{
		Title: title, Theme: themeOf(c.Ctx), Here: c.OriginalURL(), Address: c.Address.String(),
		Node: s.Node, Version: s.Version, Now: s.Now().UTC(), Principal: c.Principal,
	}
	if c.Path() == identities.OpenIDCallbackPath { // its address holds a code, and is good for one request
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
	if !c.Principal.MustSetUpTOTP { // who must has access to nothing else, and sees nothing of the node
		f.Nav = s.nav(c.Principal, section, carried)
		f.Degraded = s.degraded(c)
		if s.Silences != nil {
			f.Silences = s.Silences()
		}
	}
	token, _ := c.Locals(CSRFLocal).(string)
	f.CSRF = MaskCSRF(token)
	return f
}

// MayEndSilence reports whether the user may end a silence that applies.
func (f Frame) MayEndSilence(s operations.Silence) bool {
	return f.Principal != nil && f.Principal.May(operations.AccessToEndSilence(s))
}

// partNames are the node's parts in the words of the pages.
var partNames = map[string]string{
	"database": "The database is unreachable", "log": "The timestamp log is unreachable",
	"policies": "Policies are not loaded yet", "listeners": "This node is shutting down",
	"eviction": "Redis has evicted keys",
}

func (s *Site) degraded(c *httpserver.Call) []string {
	if s.Ready == nil {
		return nil
	}
	ctx := c.Context()
	var failing []string
	for _, part := range s.Ready(ctx).Parts {
		if part.OK {
			continue
		}
		text, known := partNames[part.Name]
		if !known {
			text = part.Name + " fails"
		}
		failing = append(failing, text)
	}
	return failing
}

// Render answers with a page.
func (s *Site) Render(c *httpserver.Call, status int, name string, page any) error {
	return s.write(c.Ctx, status, name, "base", page)
}

// RenderPart answers with one template of a page alone, for htmx.
func (s *Site) RenderPart(c *httpserver.Call, name, template string, page any) error {
	return s.write(c.Ctx, http.StatusOK, name, template, page)
}

// write executes a template into memory first, so that a failing template is an error
// page and not half a page. The server compresses it.
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
