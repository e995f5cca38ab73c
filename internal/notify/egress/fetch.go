package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// FetchTimeout bounds the whole download of a file, so that a server that sends a byte now and then
// does not keep it going.
const FetchTimeout = 5 * time.Minute

// Fetch is a file to download.
type Fetch struct {
	URL string
	// Header is one more header, such as "Key: abc", "" for none.
	Header string
	// ETag and Modified are those of the answer before, "" for none.
	ETag, Modified string
}

// Fetched is the answer. Its body must be closed.
type Fetched struct {
	Body io.ReadCloser
	// IsSame says that the file has not changed since ETag and Modified; Body is empty then.
	IsSame         bool
	ETag, Modified string
}

// Fetch downloads a file. Its error is about the status, or as that of Do. The body fails once
// FetchTimeout has passed.
func (c *Client) Fetch(ctx context.Context, f Fetch) (*Fetched, error) {
	ctx, cancel := context.WithTimeout(ctx, FetchTimeout)
	answer, err := c.fetch(ctx, f)
	if err != nil {
		cancel()
		return nil, err
	}
	answer.Body = &fetchedBody{answer.Body, cancel}
	return answer, nil
}

func (c *Client) fetch(ctx context.Context, f Fetch) (*Fetched, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.URL, http.NoBody)
	if err != nil {
		return nil, errors.New("the URL is not one that can be called")
	}
	request.Header.Set("User-Agent", "Stint")
	if f.ETag != "" {
		request.Header.Set("If-None-Match", f.ETag)
	}
	if f.Modified != "" {
		request.Header.Set("If-Modified-Since", f.Modified)
	}
	if name, value, found := strings.Cut(f.Header, ":"); found {
		request.Header.Set(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	response, err := c.Do(request)
	if err != nil {
		return nil, err
	}
	isSame := response.StatusCode == http.StatusNotModified && (f.ETag != "" || f.Modified != "")
	if err := CheckStatus(response.StatusCode); err != nil && !isSame {
		response.Body.Close()
		return nil, err
	}
	if response.StatusCode != http.StatusOK && !isSame {
		response.Body.Close()
		return nil, fmt.Errorf("the receiver answered %d, and 200 is needed", response.StatusCode)
	}
	return &Fetched{response.Body, isSame, header(response, "ETag"), header(response, "Last-Modified")}, nil
}

// maxValidator bounds what is kept of a header.
const maxValidator = 1000

func header(r *http.Response, name string) string {
	if text := r.Header.Get(name); len(text) <= maxValidator && utf8.ValidString(text) {
		return text
	}
	return ""
}

type fetchedBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *fetchedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
