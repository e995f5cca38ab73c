package adminui

import (
	"context"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/offences"
	"github.com/stint-dev/stint/internal/rules"
	"github.com/stint-dev/stint/internal/wire"
)

// site is what every handler shares: routes, templates, the frame around each
// page and the pages of errors.
type site struct {
	catalog *catalog.Catalog
	// proposals are counted in the side bar; nil where none are made.
	proposals interface {
		FindProposals(ctx context.Context, openOnly bool, limit int) ([]*offences.Proposal, error)
	}
	hasJobs bool
	ready   func(context.Context) wire.Readiness // nil where nothing is reported

	node, version string
	logger        *slog.Logger
	now           func() time.Time
	pages         map[string]*template.Template
}

// show answers with a page that refreshes itself: whole, or only its part
// "live" where the page's own refresh asks for it.
func (s *site) show(c *httpserver.Call, name string, page any) error {
	if isHTMX(c.Ctx) && c.Get("HX-Target") == "live" {
		return s.part(c, name, "live", page)
	}
	return s.render(c, http.StatusOK, name, page)
}

// policyName returns the name of a policy, "" where there is none of that id.
func (s *site) policyName(id int64) string {
	if p, found := s.catalog.Selector().ByID(id); found {
		return p.Name
	}
	return ""
}

// patternOf reads a pattern as people type one: an address or network may
// stand without its kind.
func (s *site) patternOf(text string) (keys.Pattern, error) {
	if _, err := netip.ParseAddr(text); err == nil {
		text = "ip:" + text
	} else if _, err := netip.ParsePrefix(text); err == nil {
		text = "ip:" + text
	}
	pattern, err := s.catalog.Parser().Pattern(text)
	if err != nil {
		return pattern, fault.Field("pattern", "%s", format.Capital(err.Error()))
	}
	return pattern, nil
}

// endOf returns when something ends: a length after from, at a date, or never.
func (s *site) endOf(length, until string, from time.Time) (time.Time, error) {
	switch length {
	case "good":
		return time.Time{}, nil
	case "until":
		end, err := time.Parse(format.DateField, strings.Replace(strings.TrimSpace(until), "T", " ", 1))
		if err != nil {
			return end, fault.Field("until", "Give a day and a time, UTC, such as 2026-12-31 23:59.")
		}
		if !end.After(s.now()) {
			return end, fault.Field("until", "That is over already. Now it is %s UTC.", s.now().UTC().Format("2 Jan 2006, 15:04"))
		}
		return end, nil
	}
	d, err := rules.ParseDuration(length)
	if err != nil {
		return time.Time{}, fault.Field("until", "Choose how long.")
	}
	return from.Add(d), nil
}

// get returns the route of a page.
func (s *site) get(path string, access identity.Access, h httpserver.Handler) httpserver.Route {
	return s.route(http.MethodGet, path, access, h)
}

// post returns the route of an action.
func (s *site) post(path string, access identity.Access, h httpserver.Handler) httpserver.Route {
	return s.route(http.MethodPost, path, access, h)
}

func (s *site) route(method, path string, access identity.Access, h httpserver.Handler) httpserver.Route {
	return httpserver.Route{
		Listener: httpserver.Admin, Method: method, Path: path, Access: access, Failed: s.failed,
		Streams: method == http.MethodPost && form.HasUpload(path),
		Handler: func(c *httpserver.Call) error {
			setHeaders(c.Ctx)
			return h(c)
		},
	}
}

// contentPolicy lets a page run and load nothing but the files of Stint.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func setHeaders(c *fiber.Ctx) {
	c.Set(fiber.HeaderContentSecurityPolicy, contentPolicy)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderXFrameOptions, "DENY")
	// Addresses of pages hold keys; no other site is to learn them.
	c.Set(fiber.HeaderReferrerPolicy, "same-origin")
	c.Set("Cross-Origin-Opener-Policy", "same-origin")
	c.Set("Cross-Origin-Resource-Policy", "same-origin")
	c.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
}

// seeOther sends the browser on to a page after a change.
func (s *site) seeOther(c *httpserver.Call, target string) error {
	if isHTMX(c.Ctx) {
		c.Set("HX-Redirect", target)
		return c.SendStatus(http.StatusNoContent)
	}
	return c.Redirect(target, http.StatusSeeOther)
}

// isHTMX reports whether htmx asks, and wants a part of a page.
func isHTMX(c *fiber.Ctx) bool { return c.Get("HX-Request") == "true" }

// param returns a part of the path. What cannot be anything's name or id is
// nothing there, and no database is asked for it.
func param(c *httpserver.Call, name string) (string, error) {
	value := c.Params(name)
	if value == "" || len(value) > 128 || !format.IsPlain(value) {
		return "", fault.New(fault.NotFound, "There is nothing with that name.")
	}
	return value, nil
}
