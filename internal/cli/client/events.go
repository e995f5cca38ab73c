package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/stint-dev/stint/internal/wire"
)

// maxSilence is how long the stream may be silent until it counts as broken: the server
// writes a line four times as often.
const maxSilence = time.Minute

// maxEvent is the maximum size of one line of the stream, in bytes.
const maxEvent = 1 << 20

// Events ranges over the server-sent events that filter selects, until the connection or
// ctx ends; the last error says why. The stream resumes after the event with the id
// after, if that is not empty. opened is called when the stream is open: no event after
// that is missed.
func (c *Client) Events(ctx context.Context, filter url.Values, after string, opened func()) iter.Seq2[*SentEvent, error] {
	return func(yield func(*SentEvent, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		silence := time.AfterFunc(maxSilence, func() { cancel(errSilent) })
		defer silence.Stop()
		header := map[string]string{"Accept": "text/event-stream"}
		if after != "" {
			header["Last-Event-ID"] = after
		}
		answer, err := c.conn.open(ctx, request{method: http.MethodGet, path: wire.PathEvents, query: filter, header: header})
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
			silence.Reset(maxSilence)
			whole, err := event.parseLine(lines.Text())
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
		yield(nil, &Unreachable{URL: c.conn.base.Scheme + "://" + c.conn.base.Host, Err: streamEnd(ctx, lines.Err())})
	}
}

var errSilent = errors.New("its stream was silent for too long")

// streamEnd says why a stream ended.
func streamEnd(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	default:
		return errors.New("it ended the stream")
	}
}

// SentEvent is an event with the id that resumes the stream after it.
type SentEvent struct {
	ID string
	wire.Event
	hasData bool
}

// parseLine reads one line and reports whether it ended an event.
func (e *SentEvent) parseLine(line string) (whole bool, err error) {
	if line == "" {
		return e.hasData, nil
	}
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch name {
	case "id":
		e.ID = value
	case "data":
		e.hasData = true
		if err := json.Unmarshal([]byte(value), &e.Event); err != nil {
			return false, fmt.Errorf("the stream of events cannot be read: %w", err)
		}
	}
	return false, nil
}
