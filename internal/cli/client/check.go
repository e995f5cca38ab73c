package client

import (
	"context"
	"mime"
	"net/http"

	v1 "github.com/stint-dev/stint/internal/api/v1"
)

// Check asks whether a key may do one more request. A refusal is an answer and
// no error.
func (c *Client) Check(ctx context.Context, check v1.CheckRequest) (*v1.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	answer, err := c.send(ctx, request{method: http.MethodPost, path: v1.PathCheck, body: check})
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if media, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); answer.StatusCode >= 300 && media != "application/json" {
		return nil, readProblem(answer)
	}
	decision := &v1.Decision{}
	return decision, decode(answer, decision)
}
