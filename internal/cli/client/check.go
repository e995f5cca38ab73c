package client

import (
	"context"
	"mime"
	"net/http"
	"net/url"

	"github.com/stint-dev/stint/internal/wire"
)

// Check asks whether a key may do one more request. A refusal is an answer and
// no error.
func (c *Client) Check(ctx context.Context, check wire.CheckRequest) (*wire.Decision, error) {
	decision := &wire.Decision{}
	return decision, c.decide(ctx, check, decision)
}

// CheckKeys asks whether several keys allow one more request together.
func (c *Client) CheckKeys(ctx context.Context, check wire.KeysRequest) (*wire.KeysDecision, error) {
	decision := &wire.KeysDecision{}
	return decision, c.decide(ctx, check, decision)
}

func (c *Client) decide(ctx context.Context, check, decision any) error {
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	answer, err := c.send(ctx, request{method: http.MethodPost, path: wire.PathCheck, body: check})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if media, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); answer.StatusCode >= 300 && media != "application/json" {
		return readProblem(answer)
	}
	return decode(answer, decision)
}

// Cancel cancels a reservation by its handle.
func (c *Client) Cancel(ctx context.Context, handle string) (*wire.Cancelled, error) {
	given := &wire.Cancelled{}
	return given, c.do(ctx, request{method: http.MethodDelete, path: wire.PathReservations + "/" + url.PathEscape(handle)}, given)
}
