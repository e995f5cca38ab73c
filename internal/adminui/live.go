package adminui

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"

	"github.com/stint-dev/stint/internal/adminui/form"
	"github.com/stint-dev/stint/internal/adminui/format"
	"github.com/stint-dev/stint/internal/adminui/site"
	"github.com/stint-dev/stint/internal/events"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/keys"
	"github.com/stint-dev/stint/internal/wire"
)

// livePage lists live events, the newest first.
type livePage struct {
	site.MonitorPage
	Events []liveEvent
	// Run identifies the run of this node that sent the events. A response of another run
	// replaces all rows of the page, since their ids belong to the earlier run.
	Run string
	// Stream is the URL of the same events as a stream. When the script receives an event, it
	// reloads the page's part.
	Stream string
	// Shown bounds the events on the page: the script requests those after its newest one, and
	// removes the oldest.
	Shown int
	// Others means that other nodes decide too; the page does not show their events.
	Others      bool
	FieldErrors form.FieldErrors
}

// liveEvent is one row of the page.
type liveEvent struct {
	events.Event
	Token string // identifies the event across runs and nodes
	Kind  string // the glyph: allowed, limited, blocked, unavailable, or "" for a change
	More  string // follows the word of the decision
	// Same is equal for decisions that fold into one row: those on a key for one cause. It is "" for
	// changes. Times is how many this row is.
	Same  string
	Times int
}

// maxAsked bounds the request of a row, in bytes.
const maxAsked = 160

// Asked is the request of a decision: its method and path, "" if they are not known. A long path is
// cut.
func (e liveEvent) Asked() string {
	text := strings.TrimSpace(strings.ToUpper(e.Method) + " " + e.Path)
	if cut := format.ClipLine(text, maxAsked); len(text) > maxAsked {
		return cut + "…"
	}
	return text
}

// WholeAsked is what Asked has cut, "" for nothing.
func (e liveEvent) WholeAsked() string {
	if len(e.Asked()) <= maxAsked {
		return ""
	}
	return format.ClipLine(strings.TrimSpace(strings.ToUpper(e.Method)+" "+e.Path), 1024)
}

// KeyText returns the key of a decision, or the pattern of a changed block.
func (e liveEvent) KeyText() string {
	switch {
	case !e.Key.IsZero():
		return e.Key.String()
	case len(e.Patterns) > 0:
		return e.Patterns[len(e.Patterns)-1].String()
	}
	return ""
}

// IsKey reports whether KeyText is a key with a page of its own.
func (e liveEvent) IsKey() bool { return !e.Key.IsZero() }

const (
	liveShown = 100
	// liveRead is how many events are read, which fold into at most liveShown rows.
	liveRead = 1000
	// liveRefresh is how often the page reloads without a stream, in milliseconds.
	liveRefresh = 1000
)

// liveHandler serves the page of live events.
type liveHandler struct {
	*site.Site
	events   *events.Hub // nil if there are no live events
	isShared bool        // other nodes decide too
}

func (h *liveHandler) routes() []httpserver.Route {
	return []httpserver.Route{h.InMenu(site.Monitor, 3, "Live", h.Get("/live", identity.Read, h.showLive))}
}

func (h *liveHandler) showLive(c *httpserver.Call) error {
	w, err := h.NewMonitorPage(c, "Live", "/live", "show", "policy", "path", "pattern", "after")
	if err != nil {
		return err
	}
	w.Refresh = liveRefresh
	if h.events == nil {
		return fault.New(fault.NotFound, "Live events are disabled on this node.")
	}
	after, err := h.eventAfter(&w)
	if err != nil {
		return err
	}
	page := &livePage{MonitorPage: w, Run: h.events.Run(), Shown: liveShown, Others: h.isShared, FieldErrors: form.FieldErrors{}}
	if !site.IsHTMX(c.Ctx) { // a page that is open goes on when its policy is deleted
		if err := checkPolicy(h.Site, page.Query.Get("policy")); page.FieldErrors.Add(err) == nil && err != nil {
			page.Refresh = 0
			return h.Render(c, http.StatusUnprocessableEntity, "live", page)
		}
	}
	f, err := h.liveFilter(page.Query)
	if err != nil {
		return err
	}
	page.Stream = streamOf(page.Query, f.Pattern)
	page.Events = fold(h.events, h.events.Newest(f, liveRead), after)
	return h.RenderLive(c, "live", page)
}

// fold returns the rows of events, the newest first, up to the event with the id after. Equal decisions
// are one row, where the newest is.
func fold(hub *events.Hub, newest []events.Event, after uint64) []liveEvent {
	var rows []liveEvent
	at := map[string]int{}
	for _, e := range newest {
		if e.ID <= after {
			break
		}
		v := viewEvent(e)
		if i, isKnown := at[v.Same]; isKnown && v.Same != "" {
			rows[i].Times++
			continue
		}
		if len(rows) == liveShown {
			break
		}
		v.Token, v.Times = hub.Token(&e), 1
		at[v.Same] = len(rows)
		rows = append(rows, v)
	}
	return rows
}

// eventAfter returns the id of the newest event that the page already has, and removes it from
// the page's address. It returns 0 if there is none, or if the id is from another run or node.
func (h *liveHandler) eventAfter(w *site.MonitorPage) (uint64, error) {
	text := w.Query.Get("after")
	if text == "" {
		return 0, nil
	}
	after, err := h.events.IDOf(text)
	if err != nil {
		return 0, fault.Field("after", "must be the id of an event")
	}
	delete(w.Query, "after")
	w.Here = w.With()
	return after, nil
}

// streamOf returns the URL of the stream with the events of a page with these parameters.
func streamOf(q site.Query, pattern keys.Pattern) string {
	values := url.Values{}
	switch q.Get("show") {
	case "refused":
		values.Set("kind", string(events.Decision))
		values.Set("decision", wire.Limited+","+wire.Blocked+","+wire.Challenged+","+wire.Unavailable)
	case "allowed":
		values.Set("kind", string(events.Decision))
		values.Set("decision", wire.Allowed)
	case "changes":
		values.Set("kind", string(events.Block)+","+string(events.Change))
	case "holds":
		values.Set("kind", string(events.Hold))
	}
	if policy := q.Get("policy"); policy != "" {
		values.Set("policy", policy)
	}
	if path := q.Get("path"); path != "" {
		values.Set("path", path)
	}
	if !pattern.IsZero() { // people may type it without its kind
		values.Set("pattern", pattern.String())
	}
	if len(values) == 0 {
		return wire.PathEvents
	}
	return wire.PathEvents + "?" + values.Encode()
}

func (h *liveHandler) liveFilter(q site.Query) (events.Filter, error) {
	f := events.Filter{Policy: q.Get("policy")}
	switch q.Get("show") {
	case "":
	case "refused":
		f.Kinds = []events.Kind{events.Decision}
		f.Outcomes = []gate.Outcome{gate.Limited, gate.Blocked, gate.Challenged, gate.Unavailable}
	case "allowed":
		f.Kinds, f.Outcomes = []events.Kind{events.Decision}, []gate.Outcome{gate.Allowed}
	case "changes":
		f.Kinds = []events.Kind{events.Block, events.Change}
	case "holds":
		f.Kinds = []events.Kind{events.Hold}
	default:
		return f, fault.Field("show", "must be refused, allowed, changes or holds")
	}
	if path := q.Get("path"); path != "" {
		if err := f.SelectPath(path); err != nil {
			return f, fault.Field("path", "%s", err)
		}
	}
	if text := q.Get("pattern"); text != "" {
		var err error
		if f.Pattern, err = h.ReadPattern("pattern", text); err != nil {
			return f, err
		}
	}
	return f, nil
}

func viewEvent(e events.Event) liveEvent {
	v := liveEvent{Event: e}
	if e.Kind != events.Decision {
		return v
	}
	v.Kind = string(e.Outcome)
	v.Same = strings.Join([]string{e.Key.String(), v.Kind, e.Policy, e.Rule, e.BlockID, e.Reported, string(e.Shadow), e.ShadowPolicy, e.Degraded, e.Method, e.Path}, "\n")
	sum := sha256.Sum256([]byte(v.Same)) // a path may be long
	v.Same = hex.EncodeToString(sum[:12])
	switch e.Outcome {
	case gate.Limited:
		v.More = "by " + format.RuleText(e.Rule)
	case gate.Allowed:
		if e.Shadow != "" && e.Shadow != gate.Allowed {
			v.More = "; " + e.ShadowPolicy + " would refuse"
		}
	}
	return v
}
