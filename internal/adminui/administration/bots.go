package administration

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/breakdown"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/phrase"
	"github.com/stint-dev/stint/internal/wire"
)

type botsPage struct {
	site.Frame
	wire.Bots
	Last       string
	Categories []botCategory
}

// botCategory is what came of the bots of a category.
type botCategory struct {
	Name              string
	Requests, Refused int64
	Bots              []wire.Bot
}

// botSpans are how far back the page looks, by the value in its address.
var botSpans = []struct {
	Name, Label string
	span        time.Duration
}{{"1h", "Hour", time.Hour}, {"", "Day", 24 * time.Hour}, {"7d", "Week", 7 * 24 * time.Hour}}

// botsHandler shows the bots that came.
type botsHandler struct {
	*site.Site
	bots *operations.Bots
}

func init() {
	add(func(s *site.Site, d Deps) handler { return &botsHandler{Site: s, bots: d.Bots} })
}

func (h *botsHandler) routes() []httpserver.Route {
	return []httpserver.Route{h.InMenu(site.Monitor, 5, "Bots", h.Get("/bots", identity.Read, h.showBots))}
}

func (h *botsHandler) showBots(c *httpserver.Call) error {
	q, err := site.ReadQuery(c, "last")
	if err != nil {
		return err
	}
	last, span := q.Get("last"), time.Duration(0)
	for _, s := range botSpans {
		if s.Name == last {
			span = s.span
		}
	}
	if span == 0 {
		return fault.Field("last", "must be 1h or 7d, or left out for a day")
	}
	found, err := h.bots.Seen(c.Context(), site.CallerOf(c), wire.BotsSeen{Last: wire.Duration(span)})
	if err != nil {
		return err
	}
	page := botsPage{Frame: h.NewFrame(c, "Bots", "/bots"), Bots: found, Last: last}
	at := map[string]int{}
	for _, b := range found.Items {
		i, is := at[b.Category]
		if !is {
			i = len(page.Categories)
			at[b.Category] = i
			page.Categories = append(page.Categories, botCategory{Name: b.Category})
		}
		into := &page.Categories[i]
		into.Requests, into.Refused, into.Bots = into.Requests+b.Requests, into.Refused+b.Refused, append(into.Bots, b)
	}
	return h.Render(c, http.StatusOK, "bots", page)
}

// Spans returns how far back the page can look.
func (p botsPage) Spans() any { return botSpans }

// Share returns which part of all requests n is.
func (p botsPage) Share(n int64) string { return phrase.Ratio(n, p.Requests) }

// Asked returns the address of what a bot asked for in the same time.
func (p botsPage) Asked(b wire.Bot) string {
	bot, _ := breakdown.Find("bot")
	is, _ := breakdown.Filters{{Dimension: bot, Value: b.Bot}}.Texts()
	return "/traffic?" + url.Values{"is": {is}, "last": {cmp.Or(p.Last, "24h")}}.Encode()
}

// IgnoresRobots reports whether a bot came that the robots.txt of the page asks to stay away.
func (p botsPage) IgnoresRobots(bot string) bool {
	_, token, _ := strings.Cut(bot, "/")
	return strings.Contains(p.Robots, "User-agent: "+token+"\n")
}

// Add returns the address of the form that decides about a pattern.
func (p botsPage) Add(what, pattern string) string {
	v := url.Values{"pattern": {pattern}}
	switch what {
	case "allow":
		return "/exemptions/new?" + v.Encode()
	case "challenge":
		v.Set("action", "challenge")
	case "slow":
		return "/new-policy?" + url.Values{"match": {pattern}}.Encode()
	}
	return "/blocks/new?" + v.Encode()
}
