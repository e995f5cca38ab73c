package adminui

import (
	"context"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/catalog"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
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
		return pattern, fault.Field("pattern", "%s", capital(err.Error()))
	}
	return pattern, nil
}

// endOf returns when something ends: a length after from, at a date, or never.
func (s *site) endOf(length, until string, from time.Time) (time.Time, error) {
	switch length {
	case "good":
		return time.Time{}, nil
	case "until":
		end, err := time.Parse(dateField, strings.Replace(strings.TrimSpace(until), "T", " ", 1))
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
