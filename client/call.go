package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	// firstPause is the longest pause before the first retry; it doubles with
	// each up to lastPause, and is anything up to it, so that many clients do
	// not come back at once.
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
	// retryWithin is how long after the first attempt the last may begin: the
	// server knows an idempotency key for a minute.
	retryWithin = 30 * time.Second
	// maxAnswer bounds what is read of an answer, and maxBatchAnswer of one to a batch: that
	// about 16 keys or of 1,000 checks with all details is smaller. They limit how much memory
	// the answers of a server that is not Stint can take.
	maxAnswer      = 1 << 20
	maxBatchAnswer = 32 << 20
)

var errUnreadable = errors.New("an answer that cannot be read")

// call is one question to the server. If it charges and may be sent again, it has an
// idempotency key and is charged only once.
type call struct {
	method   string // POST where it is ""
	path     string
	question any    // nil for a call without a body
	body     []byte // the encoded question, in place of it
	isBatch  bool
}

// answerTo is an answer that knows which status it may come with.
type answerTo interface{ fits(status int) error }

// ask sends a call until there is an answer, and reads it into into. It returns
// when the last attempt was sent. The error is a *Problem about the question,
// an *OutageError, or the context's.
func (c *Client) ask(ctx context.Context, q call, into answerTo) (time.Time, error) {
	body := q.body
	if q.question != nil {
		var err error
		if body, err = encode(q.question); err != nil {
			return time.Time{}, err
		}
	}
	first := time.Now()
	for attempt := 0; ; attempt++ {
		sent := time.Now()
		err := c.attempt(ctx, q, body, into)
		if err == nil {
			return sent, nil
		}
		if ended := ctx.Err(); ended != nil {
			return sent, fmt.Errorf("asking stint: %w", ended)
		}
		var final *finalError
		if !errors.As(err, &final) && attempt < c.retries && time.Since(first) < retryWithin {
			if err := sleep(ctx, pauseBefore(attempt)); err != nil {
				return sent, fmt.Errorf("asking stint: %w", err)
			}
			continue
		}
		var problem *Problem
		if errors.As(err, &problem) && problem.aboutTheQuestion() {
			return sent, problem
		}
		return sent, &OutageError{Attempts: attempt + 1, Err: err}
	}
}

func encode(question any) ([]byte, error) {
	body, err := json.Marshal(question)
	if err != nil {
		return nil, fmt.Errorf("client: the question cannot be encoded: %w", err)
	}
	return body, nil
}

func pauseBefore(retry int) time.Duration {
	longest := min(firstPause<<min(retry, 10), lastPause)
	return rand.N(longest)
}

// finalError is an error that a retry would not fix.
type finalError struct{ error }

// Unwrap returns the error.
func (e *finalError) Unwrap() error { return e.error }

// attempt sends a call once. Its error is a *finalError if a retry would get the same
// answer.
func (c *Client) attempt(ctx context.Context, q call, body []byte, into answerTo) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	request, err := c.request(ctx, q, body)
	if err != nil {
		return &finalError{err}
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	longest := int64(maxAnswer)
	if q.isBatch {
		longest = maxBatchAnswer
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, longest))
	if err != nil {
		return fmt.Errorf("the answer broke off: %w", err)
	}
	return read(response, text, into)
}

func (c *Client) request(ctx context.Context, q call, body []byte) (*http.Request, error) {
	method := q.method
	if method == "" {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+q.path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header.Set("Accept", "application/json, application/problem+json")
	request.Header.Set("User-Agent", "stint-client")
	if c.traceparent != nil {
		// One that no header can carry would keep the call from being made.
		if parent := c.traceparent(ctx); parent != "" && !strings.ContainsFunc(parent, func(r rune) bool { return r < ' ' || r > '~' }) {
			request.Header.Set("Traceparent", parent)
		}
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	return request, nil
}

// read reads an answer into into. An answer with a decision counts whatever its status;
// a 502, 503 or 504 without one is worth a retry.
func read(response *http.Response, text []byte, into answerTo) error {
	status := response.StatusCode
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	err := errUnreadable
	switch kind {
	case "application/json":
		if err = json.Unmarshal(text, into); err == nil {
			if err = into.fits(status); err == nil {
				return nil
			}
		}
	case "application/problem+json":
		p := new(Problem)
		if json.Unmarshal(text, p) == nil && p.Status == status {
			err = p
		}
	default:
		err = fmt.Errorf("an answer with status %d and the media type %q, which Stint does not send", status, plain(kind))
	}
	switch status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return err
	}
	return &finalError{err}
}

// sleep waits for d, or until ctx ends, and then returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
