package api

import (
	"bytes"
	"net"
	"net/http"
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
}

func (h *eventHandler) routes() []route {
	return []route{onAdmin(get, wire.PathEvents, identity.Read, h.streamEvents, opEvents)}
}

var (
	opEvents = &openapi.Operation{
		ID: "streamEvents", Tag: "events", Summary: "Stream decisions and changes as server-sent events; send Last-Event-ID to resume after a break.",
		Query: []openapi.Param{
			{Name: "kind", Doc: "Only these kinds: decision, block and change, with commas between."},
			{Name: "decision", Doc: "Only these decisions: allowed, limited, blocked and unavailable, with commas between."},
			{Name: "policy", Doc: "Only decisions by this policy, and its changes."},
			{Name: "pattern", Doc: "Only decisions on keys that this pattern covers, and changes of blocks and exemptions that share a key with it."},
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
	body := &eventBody{hub: h.events, listener: listener, conn: c.Ctx.Context().Conn(), heartbeat: time.NewTicker(h.events.Heartbeat()), access: access, looks: time.NewTicker(httpserver.AccessInterval)}
	body.comment("stint events")
	c.SendBody(httpserver.GuardedBody{Body: body})
	return nil
}

func (h *eventHandler) eventFilter(c *httpserver.Call) (events.Filter, error) {
	var f events.Filter
	q := c.ParseQuery("kind", "decision", "policy", "pattern")
	for _, kind := range q.List("kind", string(events.Decision), string(events.Block), string(events.Change)) {
		f.Kinds = append(f.Kinds, events.Kind(kind))
	}
	for _, outcome := range q.List("decision", wire.Allowed, wire.Limited, wire.Blocked, wire.Unavailable) {
		f.Outcomes = append(f.Outcomes, gate.Outcome(outcome))
	}
	f.Policy = q.Line("policy")
	if q.Err() != nil || !q.Given("pattern") {
		return f, q.Err()
	}
	var err error
	f.Pattern, err = h.pattern("pattern", q.Raw("pattern"))
	return f, err
}

// eventBody is the body that the server reads while it sends. Its Read waits for the next
// event.
type eventBody struct {
	hub       *events.Hub
	listener  *events.Listener
	conn      net.Conn
	heartbeat *time.Ticker
	access    *httpserver.AccessWatch
	looks     *time.Ticker
	caughtUp  bool // the missed events were sent
	buffer    bytes.Buffer
	ended     bool
}

// Read renews the write deadline of the connection for every piece: a quiet stream is not a
// slow one.
func (b *eventBody) Read(p []byte) (int, error) {
	for b.buffer.Len() == 0 && !b.ended {
		if b.access.Ended() {
			// Queued events are only for callers who still have access.
			b.ended = true
			b.write(&events.Event{Kind: events.Notice, At: time.Now(), Text: "This stream was ended: the access of its token or login has ended."})
			break
		}
		if !b.caughtUp {
			missed := b.listener.Missed()
			for i := range missed {
				b.write(&missed[i])
			}
			b.caughtUp = len(missed) == 0
			continue
		}
		select {
		case <-b.looks.C:
		case e, open := <-b.listener.Events():
			if open {
				b.write(e)
				break
			}
			b.ended = true
			if notice, said := b.listener.Farewell(); said {
				b.write(&notice)
			}
		case <-b.heartbeat.C:
			b.comment("still here")
		}
	}
	if err := b.conn.SetWriteDeadline(time.Now().Add(httpserver.WriteTimeout)); err != nil {
		return 0, err
	}
	return b.buffer.Read(p) // io.EOF if the buffer is empty, which ends the stream
}

// comment writes a line that clients ignore.
func (b *eventBody) comment(text string) { b.buffer.WriteString(": " + text + "\n\n") }

func (b *eventBody) write(e *events.Event) {
	data, err := json.Marshal(fromEvent(e))
	if err != nil { // cannot happen: an event holds only values that can be encoded
		return
	}
	if e.ID != 0 {
		b.buffer.WriteString("id: " + b.hub.Token(e) + "\n")
	}
	b.buffer.WriteString("event: " + string(e.Kind) + "\ndata: ")
	b.buffer.Write(data)
	b.buffer.WriteString("\n\n")
}

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
		Rule: e.Rule, Block: e.BlockID, Refusal: e.Refusal, RetryAt: wire.At(e.RetryAt), Source: e.Source, Degraded: e.Degraded, Reported: e.Reported,
		Shadow: string(e.Shadow), ShadowPolicy: e.ShadowPolicy, Notice: e.Text, Skipped: e.Skipped,
	}
	if e.Entry != nil {
		entry := auditfile.Entry(e.Entry)
		out.Change = &entry
	}
	return out
}
