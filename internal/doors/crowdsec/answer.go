package crowdsec

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/gofiber/fiber/v2"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/bouncers"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/httpserver"
	"github.com/stint-dev/stint/internal/supervise"
)

// decision is a ban in CrowdSec's JSON, with CrowdSec's names and order.
type decision struct {
	Duration string `json:"duration"` // 1h2m3s
	ID       int64  `json:"id"`
	Origin   string `json:"origin"`
	Scenario string `json:"scenario"`
	Scope    string `json:"scope"`
	Type     string `json:"type"`
	UUID     string `json:"uuid"`
	Value    string `json:"value"`
}

func decisionOf(b bouncers.Ban, duration time.Duration) decision {
	return decision{
		Duration: duration.String(), ID: b.Number(), Origin: bouncers.Origin, Scenario: b.Reason,
		Scope: b.Scope, Type: string(b.Type), UUID: b.UUID(), Value: b.Value,
	}
}

// over is the duration in a deleted decision.
const over = -time.Second

// writer writes JSON and counts the decisions. It keeps the first error.
type writer struct {
	out  *bufio.Writer
	sent int64
	err  error
}

func (w *writer) text(text string) {
	if w.err == nil {
		_, w.err = w.out.WriteString(text)
	}
}

// list writes a list. none is the text of an empty list; duration returns the duration of each
// ban.
func (w *writer) list(all iter.Seq[bouncers.Ban], none string, duration func(bouncers.Ban) time.Duration) {
	separator := "["
	for b := range all {
		w.text(separator)
		if w.err != nil {
			return
		}
		separator = ","
		w.err = json.MarshalWrite(w.out, decisionOf(b, duration(b)))
		w.sent++
	}
	if separator == "[" {
		w.text(none)
		return
	}
	w.text("]")
}

// none is the text of an empty list of decisions: some bouncers compare the text.
const none = "null"

// answerFound sends the bans that a query found.
func (d *Door) answerFound(c *httpserver.Call, found []bouncers.Ban) error {
	var body bytes.Buffer
	w := &writer{out: bufio.NewWriter(&body)}
	w.live(slices.Values(found))
	if w.err == nil {
		w.err = w.out.Flush()
	}
	if w.err != nil {
		return w.err
	}
	d.note(c, w.sent)
	return answerText(c, body.String())
}

// answerAll sends all bans as a stream.
func (d *Door) answerAll(c *httpserver.Call, all iter.Seq[bouncers.Ban]) error {
	d.note(c, 0)
	return send(c, func(w *writer) { w.live(all) }, func(int64) error { return nil })
}

// live writes the response in live mode.
func (w *writer) live(all iter.Seq[bouncers.Ban]) {
	now := time.Now()
	w.list(all, none, func(b bouncers.Ban) time.Duration { return b.Duration(now) })
}

// note records that a bouncer got a response. The response does not wait for the database.
func (d *Door) note(c *httpserver.Call, sent int64) {
	write := d.cases.NoteLive(caller(c), sent)
	if write == nil {
		return
	}
	go supervise.Do("bouncer note", func() {
		ctx, cancel := context.WithTimeout(context.Background(), noteTimeout)
		defer cancel()
		_ = write(ctx) // only a displayed count is lost
	})
}

// noteTimeout bounds how long the end of a response waits for the database.
const noteTimeout = 5 * time.Second

// answerStream sends the new and the deleted bans. The cursor advances after everything was
// sent. If that fails, the connection is cut before the end of the response.
func answerStream(c *httpserver.Call, a *admin.StreamAnswer) error {
	return send(c, func(w *writer) {
		w.text(`{"new":`)
		w.list(a.New, "[]", func(b bouncers.Ban) time.Duration { return b.Duration(a.Now) })
		w.text(`,"deleted":`)
		w.list(slices.Values(a.Deleted), "[]", func(bouncers.Ban) time.Duration { return over })
		w.text("}")
	}, func(sent int64) error {
		ctx, cancel := context.WithTimeout(context.Background(), noteTimeout)
		defer cancel()
		return a.Confirm(ctx, sent)
	})
}

// send streams what write writes, and calls confirm after everything except the end of the
// response was sent.
func send(c *httpserver.Call, write func(w *writer), confirm func(sent int64) error) error {
	var sent int64
	return httpserver.StreamConfirmed(c, fiber.MIMEApplicationJSONCharsetUTF8, func(_ context.Context, out io.Writer) error {
		w := &writer{out: bufio.NewWriterSize(out, 32<<10)}
		write(w)
		if w.err == nil {
			w.err = w.out.Flush()
		}
		sent = w.sent
		return w.err
	}, func() error { return confirm(sent) })
}

// answerError sends an error in CrowdSec's form: every error about the token is 403.
func answerError(c *httpserver.Call, err error) error {
	status, message := httpserver.StatusOf(err), err.Error()
	switch {
	case fault.Is(err, fault.Unauthorized):
		status, message = http.StatusForbidden, "access forbidden"
	case fault.Is(err, fault.Invalid):
		status = http.StatusBadRequest
	case status == http.StatusInternalServerError:
		return err // it is logged, and its cause is not revealed
	}
	if wait, is := errors.AsType[*httpserver.RetryError](err); is {
		c.Set(fiber.HeaderRetryAfter, strconv.FormatInt(httpserver.CeilSeconds(wait.Wait.Milliseconds()), 10))
	}
	body, err := json.Marshal(struct {
		Message string `json:"message"`
	}{message})
	if err != nil {
		return err
	}
	c.Status(status)
	return answerText(c, string(body))
}
