package api

import (
	"bytes"
	"net"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/events"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/gate"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/wire"
)

// eventType is the media type of server-sent events.
const eventType = "text/event-stream"

// tellEvents answers with events as they happen, until the client goes.
func (s *API) tellEvents(c *httpserver.Call) error {
	if s.Events == nil {
		return fault.New(fault.NotFound, "This node tells no events.")
	}
	filter, err := s.eventFilter(c)
	if err != nil {
		return err
	}
	after := c.Get("Last-Event-ID")
	if httpserver.CheckLine("Last-Event-ID", after, 128) != nil {
		after = "?" // what no hub has written says that something is missing
	}
	c.Status(http.StatusOK)
	c.Set(fiber.HeaderContentType, eventType)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set("X-Accel-Buffering", "no") // proxies must pass each event on at once
	if c.Method() == http.MethodHead {
		return nil
	}
	access := c.WatchAccess()
	listener, missed := s.Events.Listen(filter, after)
	body := &eventBody{hub: s.Events, listener: listener, conn: c.Ctx.Context().Conn(), heartbeat: time.NewTicker(s.Events.Heartbeat()), access: access, looks: time.NewTicker(httpserver.AccessInterval)}
	body.comment("stint events")
	for i := range missed {
		body.write(&missed[i])
	}
	c.Ctx.Context().SetBodyStream(httpserver.GuardedBody{Body: body}, -1)
	return nil
}

func (s *API) eventFilter(c *httpserver.Call) (events.Filter, error) {
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
	f.Pattern, err = s.pattern("pattern", q.Raw("pattern"))
	return f, err
}

// eventBody is read by the server while it sends. Its Read waits for the next
// event.
type eventBody struct {
	hub       *events.Hub
	listener  *events.Listener
	conn      net.Conn
	heartbeat *time.Ticker
	access    *httpserver.AccessWatch
	looks     *time.Ticker
	buffer    bytes.Buffer
	ended     bool
}

// Read gives the connection its time to write anew with every piece: a quiet
// stream is no slow one.
func (b *eventBody) Read(p []byte) (int, error) {
	for b.buffer.Len() == 0 && !b.ended {
		if b.access.Ended() {
			// What was queued is for those who may still read it.
			b.ended = true
			b.write(&events.Event{Kind: events.Notice, At: time.Now(), Text: "This stream was ended: the access of its token or login has ended."})
			break
		}
		select {
		case <-b.looks.C:
		case e, open := <-b.listener.Events():
			if open {
				b.write(&e)
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
	return b.buffer.Read(p) // io.EOF once it is empty, which is the end
}

// comment writes a line that clients ignore.
func (b *eventBody) comment(text string) { b.buffer.WriteString(": " + text + "\n\n") }

func (b *eventBody) write(e *events.Event) {
	data, err := json.Marshal(fromEvent(e))
	if err != nil { // an event holds nothing that cannot be written
		return
	}
	if e.ID != 0 {
		b.buffer.WriteString("id: " + b.hub.Token(e) + "\n")
	}
	b.buffer.WriteString("event: " + string(e.Kind) + "\ndata: ")
	b.buffer.Write(data)
	b.buffer.WriteString("\n\n")
}

// Close ends the listener when the client has gone.
func (b *eventBody) Close() error {
	b.heartbeat.Stop()
	b.looks.Stop()
	b.listener.Stop()
	return nil
}
