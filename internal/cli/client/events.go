package client

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/wire"
)

// maxEvent bounds one line of the stream of events, in bytes.
const maxEvent = 1 << 20

// Events ranges over what happens, as server-sent events, until the connection
// or ctx ends; the last error says why. after is the id of the last event that
// was seen, "" for none; each event comes with its own. opened is called once
// the stream is there: nothing that happens afterwards is missed.
func (c *Client) Events(ctx context.Context, filter url.Values, after string, opened func()) iter.Seq2[*SentEvent, error] {
	return func(yield func(*SentEvent, error) bool) {
		header := map[string]string{"Accept": "text/event-stream"}
		if after != "" {
			header["Last-Event-ID"] = after
		}
		answer, err := c.open(ctx, request{method: http.MethodGet, path: wire.PathEvents, query: filter, header: header})
		if err != nil {
			yield(nil, err)
			return
		}
		defer answer.Body.Close()
		opened()
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, maxEvent)
		event := &SentEvent{}
		for lines.Scan() {
			whole, err := event.take(lines.Text())
			if err != nil {
				yield(nil, err)
				return
			}
			if whole {
				if !yield(event, nil) {
					return
				}
				event = &SentEvent{}
			}
		}
		yield(nil, &Unreachable{URL: c.base.Scheme + "://" + c.base.Host, Err: streamEnd(ctx, lines.Err())})
	}
}

// streamEnd says why a stream ended.
func streamEnd(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	default:
		return fmt.Errorf("it ended the stream")
	}
}

// SentEvent is an event with the id by which a stream is resumed.
type SentEvent struct {
	ID string
	wire.Event
	given bool
}

// take reads one line and reports whether it ended an event.
func (e *SentEvent) take(line string) (whole bool, err error) {
	if line == "" {
		return e.given, nil
	}
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch name {
	case "id":
		e.ID = value
	case "data":
		e.given = true
		if err := json.Unmarshal([]byte(value), &e.Event); err != nil {
			return false, fmt.Errorf("the stream of events cannot be read: %w", err)
		}
	}
	return false, nil
}
