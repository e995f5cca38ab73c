package site

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
)

type errorPage struct {
	Frame
	Status    int
	Head      string
	Text      string
	RequestID string // of the log entry with details, "" for none
	Record    string // the path of the audit record whose undo brings back what is missing, "" for none
	// Away is the outage of the database that is the cause, nil for none. ChecksGoOn means that
	// nothing fails that checks need.
	Away       *Outage
	ChecksGoOn bool
	// IsChange means that a change failed, and not showing a page.
	IsChange bool
}

// errorHeads are the headings of error pages: what did not happen.
var errorHeads = map[int]string{
	http.StatusForbidden:             "You do not have access to this",
	http.StatusNotFound:              "Not found",
	http.StatusConflict:              "The change conflicts with another",
	http.StatusPreconditionFailed:    "Changed by someone else",
	http.StatusPreconditionRequired:  "It exists already",
	http.StatusRequestEntityTooLarge: "Too large",
	http.StatusUnprocessableEntity:   "Invalid input",
	http.StatusBadRequest:            "Invalid input",
	http.StatusUnsupportedMediaType:  "Invalid input",
	http.StatusTooManyRequests:       "Too many attempts",
	http.StatusServiceUnavailable:    "A service is unreachable",
}

// savedHeads are the headings for a change that failed but was not undone.
var savedHeads = map[fault.Code]string{
	fault.Saved:      "Saved, and not in effect yet",
	fault.MaybeSaved: "It may have been saved",
}

// failed sends the page for an error. Users who are not logged in are redirected to the login.
func (s *Site) failed(c *httpserver.Call, err error) error {
	if fault.Is(err, fault.Unauthorized) {
		return s.askLogin(c)
	}
	if c.Principal != nil && c.Principal.MustSetUpTOTP && fault.Is(err, fault.Forbidden) && IsRead(c) {
		setHeaders(c.Ctx)
		return s.Redirect(c, "/account?"+url.Values{"next": {c.OriginalURL()}}.Encode())
	}
	page := errorPage{Frame: s.NewFrame(c, "Not saved", ""), Status: httpserver.StatusOf(err)}
	var invalid *fault.Error
	if errors.As(err, &invalid) {
		page.Text, page.Head = textOf(invalid), savedHeads[invalid.Code]
		if id, deleted := invalid.Detail["undo"].(int64); deleted {
			name, _ := invalid.Detail["policy"].(string)
			page.Record = "/audit?" + url.Values{"object": {"policy"}, "object_id": {name}, "open": {strconv.FormatInt(id, 10)}}.Encode()
		}
	} else {
		page.Status = http.StatusInternalServerError
		page.Text = "An internal error occurred. The log of the server says why."
	}
	if page.Status >= http.StatusInternalServerError {
		page.RequestID = c.RequestID
		s.failures.Log(c.Context(), "page failed", page.Status, err, slog.String("request_id", c.RequestID), slog.String("method", c.Method()),
			slog.String("path", format.ClipLine(c.Path(), 200)), slog.String("error", format.ClipLine(err.Error(), 500)))
	}
	if page.Status == http.StatusServiceUnavailable {
		c.Set(fiber.HeaderRetryAfter, "1") // as problems have
		s.explainOutage(c, &page)
	}
	page.Head = cmp.Or(page.Head, errorHeads[page.Status], "Failed")
	page.Title = page.Head
	if IsHTMX(c.Ctx) {
		// The error page replaces the whole page.
		c.Set("HX-Retarget", "body")
		c.Set("HX-Reswap", "innerHTML")
	}
	return s.Render(c, page.Status, "error", page)
}

// textOf returns what an error page says: without the name of the field, which no page shows, where
// the message is a sentence of its own.
func textOf(e *fault.Error) string {
	if format.Capital(e.Message) == e.Message {
		return e.Message
	}
	return e.Error()
}

// explainOutage says on the page for an error what an outage of the database means, if there is
// one. To somebody who is not logged in it says no more than /readyz.
func (s *Site) explainOutage(c *httpserver.Call, page *errorPage) {
	page.IsChange = !IsRead(c)
	page.ChecksGoOn = s.Ready == nil || checksGoOn(s.Ready(c.Context()))
	page.Away, page.Outage = s.Outage(), nil // the page says more than the frame
	if page.Away == nil {
		// The database may accept no writes, and be read.
		page.ChecksGoOn = page.ChecksGoOn && page.Nav != nil && slices.Contains(page.Degraded, partNames["database"])
		return
	}
	if page.Nav == nil {
		page.Away = page.Away.withoutLogin()
	}
	page.Head = page.Away.Head
}

// IsRead reports whether a request changes nothing. HEAD is answered as GET is.
func IsRead(c *httpserver.Call) bool {
	return c.Method() == http.MethodGet || c.Method() == http.MethodHead
}

// Missing answers a browser that requests a path without a page. It needs no login, and
// therefore shows nothing about the node.
func (s *Site) Missing(c *fiber.Ctx) error {
	page := errorPage{
		Frame:  Frame{Title: "Not found", Theme: themeOf(c), Here: "/", Now: s.Now().UTC()},
		Status: http.StatusNotFound, Head: "Not found", Text: "There is no page at this address. Addresses are case sensitive.",
	}
	return s.write(c, http.StatusNotFound, "error", "base", page)
}

// askLogin redirects the browser to the login, and back afterwards.
func (s *Site) askLogin(c *httpserver.Call) error {
	setHeaders(c.Ctx)
	if c.Get("Sec-Fetch-Site") == "cross-site" && c.Get("Sec-Fetch-Mode") == "navigate" && IsRead(c) {
		// Browsers omit the cookie if a link on another site, for example in a chat message,
		// led here. A reload from here includes it.
		return s.Render(c, http.StatusOK, "bounce", s.NewFrame(c, "Stint", ""))
	}
	if IsHTMX(c.Ctx) && c.Get("HX-Boosted") == "" {
		// The request is for a part of a page: keep the page with what was typed, and let it
		// report the error.
		c.Set("HX-Reswap", "none")
		return c.SendStatus(http.StatusUnauthorized)
	}
	if unsent := unsentOf(c); unsent != nil {
		return s.Render(c, http.StatusUnauthorized, "login", LoginPage{
			Frame: s.NewFrame(c, "Log in", ""), Next: unsent.Back, Ended: true, Unsent: unsent,
		})
	}
	target, next := url.Values{}, c.OriginalURL()
	if !IsRead(c) {
		next = refererPath(c)
		if c.Path() != "/logout" {
			target.Set("ended", "yes")
		}
	}
	if next != "/" {
		target.Set("next", next)
	}
	if len(target) == 0 {
		return s.Redirect(c, "/login")
	}
	return s.Redirect(c, "/login?"+target.Encode())
}
