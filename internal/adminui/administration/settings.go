package administration

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/admin/operations"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/buildinfo"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

type settingsPage struct {
	site.Frame
	Query     site.Query
	Build     buildinfo.Info
	Subjects  []subject // with the settings that the search finds
	Found     int       // how many settings these are
	IPv6Bits  int
	Operators []operations.CrawlerOperator
	Crawlers  []wire.Crawler
	GeoFiles  []operations.GeoFile // none if origins are not known
}

// subject is what several settings are about.
type subject struct {
	Name     string
	Settings []Setting
}

// bySubject groups settings that are behind each other and about one subject.
func bySubject(all []Setting) (subjects []subject) {
	for _, s := range all {
		if n := len(subjects); n == 0 || subjects[n-1].Name != s.Subject {
			subjects = append(subjects, subject{Name: s.Subject})
		}
		last := &subjects[len(subjects)-1]
		last.Settings = append(last.Settings, s)
	}
	return subjects
}

// helpPart is a flag in the meaning of a setting, or the text up to the next one.
type helpPart struct {
	Text   string
	IsFlag bool
}

// HelpParts splits the meaning of a setting, so that no line breaks within a flag.
func (settingsPage) HelpParts(help string) []helpPart {
	var parts []helpPart
	end := 0
	for _, at := range flagInHelp.FindAllStringIndex(help, -1) {
		parts = append(parts, helpPart{Text: help[end:at[0]]}, helpPart{help[at[0]:at[1]], true})
		end = at[1]
	}
	return append(parts, helpPart{Text: help[end:]})
}

var flagInHelp = regexp.MustCompile(`--[a-z][a-z0-9-]*`)

// settingsHandler shows the settings.
type settingsHandler struct {
	*site.Site
	settings func() []Setting
	build    buildinfo.Info
	crawlers operations.Crawlers
	origins  operations.Origins
}

func init() {
	add(func(s *site.Site, d Deps) handler {
		return &settingsHandler{Site: s, settings: d.Settings, build: d.Build, crawlers: d.Crawlers, origins: d.Origins}
	})
}

func (h *settingsHandler) routes() []httpserver.Route {
	return []httpserver.Route{h.InMenu(site.Administration, 9, "Settings", h.Get("/settings", identity.Read, h.showSettings))}
}

// found returns the settings that have each word of a search in their subject, name, variable, value or meaning.
func found(all []Setting, search string) []Setting {
	words := strings.Fields(strings.ToLower(search))
	return slices.DeleteFunc(slices.Clone(all), func(s Setting) bool {
		text := strings.ToLower(s.Subject + " --" + s.Name + " " + s.Variable + " " + s.Value + " " + s.Help)
		return slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
	})
}

func (h *settingsHandler) showSettings(c *httpserver.Call) error {
	q, err := site.ReadQuery(c, "q")
	if err != nil {
		return err
	}
	crawlers, err := h.crawlers.List(c.Context(), site.CallerOf(c), wire.None{})
	if err != nil {
		return err
	}
	settings := found(h.settings(), q.Get("q"))
	return h.Render(c, http.StatusOK, "settings", settingsPage{
		Frame:    h.NewFrame(c, "Settings", "/settings"),
		Build:    h.build,
		Query:    q,
		Subjects: bySubject(settings), Found: len(settings), IPv6Bits: h.Catalog.Parser().IPv6Bits,
		Operators: h.crawlers.Operators(), Crawlers: crawlers.Items, GeoFiles: h.origins.Files(),
	})
}
