package api

import (
	"bytes"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/api/openapi"
	"github.com/stint-dev/stint/internal/auditfile"
	"github.com/stint-dev/stint/internal/events"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/identity"
	"github.com/stint-dev/stint/internal/wire"
)

// eventHandler streams live events.
type eventHandler struct {
	common
	events *events.Hub // nil if live events are disabled
	pieces [eventPieces]atomic.Pointer[eventPiece]
}

// eventPieces is the number of the newest events that are kept as they are sent.
const eventPieces = 2 * events.DefaultQueue

// eventPiece is an event as it is sent.
type eventPiece struct {
	id uint64
	*httpserver.Piece
}

// pieceOf returns an event as it is sent. All streams share it, since encoding an event for
// each of hundreds of listeners takes the time that checks need.
func (h *eventHandler) pieceOf(e *events.Event) *httpserver.Piece {
	if e.ID == 0 { // for one listener
		return h.encode(e)
	}
	slot := &h.pieces[e.ID%eventPieces]
	if kept := slot.Load(); kept != nil && kept.id == e.ID {
		return kept.Piece
	}
	made := &eventPiece{e.ID, h.encode(e)}
	slot.Store(made)
	return made.Piece
}

func (h *eventHandler) encode(e *events.Event) *httpserver.Piece {
	data, err := json.Marshal(fromEvent(e))
	if err != nil { // cannot happen: an event holds only values that can be encoded
		return httpserver.NewPiece(nil)
	}
	var text bytes.Buffer
	if e.ID != 0 {
		text.WriteString("id: " + h.events.Token(e) + "\n")
	}
	text.WriteString("event: " + string(e.Kind) + "\ndata: ")
	text.Write(data)
	text.WriteString("\n\n")
	return httpserver.NewPiece(text.Bytes())
}

// Comments of a stream, which clients ignore.
var (
	beginComment     = httpserver.NewPiece([]byte(": stint events\n\n"))
	heartbeatComment = httpserver.NewPiece([]byte(": still here\n\n"))
)

func (h *eventHandler) routes() []route {
	return []route{onAdmin(get, wire.PathEvents, identity.Read, h.streamEvents, opEvents)}
}

var (
	opEvents = &openapi.Operation{
		ID: "streamEvents", Tag: wire.TagEvents, Summary: "Stream decisions, changes and what becomes of holds as server-sent events; send Last-Event-ID to resume after a break.",
		Query: []openapi.Param{
			{Name: "kind", Doc: "Only these kinds: decision, block, change and hold, with commas between."},
			{Name: "decision", Doc: "Only these decisions: allowed, limited, blocked, challenged and unavailable, with commas between."},
			{Name: "policy", Doc: "Only decisions and holds under this policy, and its changes."},
			{Name: "path", Doc: "Only decisions on requests whose path matches this pattern, for example /search*."},
			{Name: "pattern", Doc: "Only decisions on keys that this pattern covers and their holds, and changes of blocks and exemptions that share a key with it."},
		},
		Answers: []openapi.Answer{{Status: http.StatusOK, Doc: "Events whose data is an Event.", Types: []string{eventType}}},
	}
)

// eventType is the media type of server-sent events.
const eventType = "text/event-stream"

// streamEvents sends events as they happen, until the client disconnects.
func (h *eventHandler) streamEvents(c *httpserver.Call) error {
	if h.events == nil {
		return fault.New(fault.NotFound, "Live events are disabled on this node.")
	}
	filter, err := h.eventFilter(c)
	if err != nil {
		return err
	}
	after := c.Get("Last-Event-ID")
	if fault.CheckLine("Last-Event-ID", after, 128) != nil {
		after = "?" // no hub creates this id, so the stream says that events are missing
	}
	c.Status(http.StatusOK)
	c.Set(fiber.HeaderContentType, eventType)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set("X-Accel-Buffering", "no") // proxies must forward each event at once
	if c.Method() == http.MethodHead {
		return nil
	}
	access := c.WatchAccess()
	listener := h.events.Listen(filter, after)
	c.SendPieces(&eventBody{
		handler: h, listener: listener, heartbeat: time.NewTicker(h.events.Heartbeat()), access: access, looks: time.NewTicker(httpserver.AccessInterval),
		pieces: []*httpserver.Piece{beginComment},
	})
	return nil
}

func (h *eventHandler) eventFilter(c *httpserver.Call) (events.Filter, error) {
	var f events.Filter
	q := c.ParseQuery("kind", "decision", "policy", "path", "pattern")
	for _, kind := range q.List("kind", string(events.Decision), string(events.Block), string(events.Change), string(events.Hold)) {
		f.Kinds = append(f.Kinds, events.Kind(kind))
	}
	for _, outcome := range q.List("decision", wire.Allowed, wire.Limited, wire.Blocked, wire.Challenged, wire.Unavailable) {
		f.Outcomes = append(f.Outcomes, gate.Outcome(outcome))
	}
	f.Policy = q.Line("policy")
	if path := q.Raw("path"); path != "" {
		if err := f.SelectPath(path); err != nil {
			return f, fault.Field("path", "%s", err)
		}
	}
	if q.Err() != nil || !q.Given("pattern") {
		return f, q.Err()
	}
	var err error
	f.Pattern, err = h.pattern("pattern", q.Raw("pattern"))
	return f, err
}

// eventBody is the body of a stream.
type eventBody struct {
	handler   *eventHandler
	listener  *events.Listener
	heartbeat *time.Ticker
	access    *httpserver.AccessWatch
	looks     *time.Ticker
	caughtUp  bool // the missed events were sent
	isWoken   bool // the listener may have events
	pieces    []*httpserver.Piece
	ended     bool
}

// Next implements httpserver.Pieces. It waits for the next events.
func (b *eventBody) Next() ([]*httpserver.Piece, error) {
	for len(b.pieces) == 0 && !b.ended {
		if b.access.Ended() {
			// Queued events are only for callers who still have access.
			b.ended = true
			b.add(&events.Event{Kind: events.Notice, At: time.Now(), Text: "This stream was ended: the access of its token or login has ended."})
			break
		}
		switch {
		case !b.caughtUp:
			missed := b.listener.Missed()
			for i := range missed {
				b.add(&missed[i])
			}
			b.caughtUp = len(missed) == 0
		case b.isWoken:
			b.take()
		default:
			b.wait()
		}
	}
	if len(b.pieces) == 0 {
		return nil, io.EOF
	}
	next := b.pieces
	b.pieces = nil
	return next, nil
}

// take adds what the listener has.
func (b *eventBody) take() {
	taken, open := b.listener.Take()
	for _, e := range taken {
		b.add(e)
	}
	b.isWoken = len(taken) == events.MaxTaken
	if !open {
		b.ended = true
		if notice, said := b.listener.Farewell(); said {
			b.add(&notice)
		}
	}
}

// wait waits until there may be something to send or to look at.
func (b *eventBody) wait() {
	select {
	case <-b.looks.C:
	case <-b.listener.Woken():
		b.isWoken = true
	case <-b.heartbeat.C:
		b.pieces = append(b.pieces, heartbeatComment)
	}
}

func (b *eventBody) add(e *events.Event) { b.pieces = append(b.pieces, b.handler.pieceOf(e)) }

// Close ends the listener after the client disconnected.
func (b *eventBody) Close() error {
	b.heartbeat.Stop()
	b.looks.Stop()
	b.listener.Stop()
	return nil
}

// fromEvent returns an event as the API sends it.
func fromEvent(e *events.Event) wire.Event {
	out := wire.Event{
		Kind: string(e.Kind), At: wire.At(e.At), Key: e.Key.String(), Decision: string(e.Outcome), Policy: wire.NullString(e.Policy),
		Rule: e.Rule, Block: e.BlockID, Refusal: e.Refusal, RetryAt: wire.At(e.RetryAt), Source: e.Source, Method: e.Method, Path: e.Path, Degraded: e.Degraded, Reported: e.Reported,
		Shadow: string(e.Shadow), ShadowPolicy: e.ShadowPolicy, Notice: e.Text, Skipped: e.Skipped,
	}
	if e.Entry != nil {
		entry := auditfile.Entry(e.Entry)
		out.Change = &entry
	}
	if e.Kind == events.Hold {
		out.Hold = &wire.HoldChange{State: e.Hold.State, Held: e.Hold.Held, Cost: e.Hold.Used, Over: e.Hold.Over, ExpiresAt: wire.At(e.Hold.Expires)}
	}
	return out
}
