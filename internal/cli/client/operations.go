package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/stint-dev/stint/internal/wire"
)

// PreviewBlock says whom a block of a pattern would hit.
func (c *Client) PreviewBlock(ctx context.Context, pattern string) (*wire.Impact, error) {
	p := &wire.Impact{}
	err := c.do(ctx, request{method: http.MethodPost, path: wire.PathBlockPreview, body: wire.PreviewRequest{Pattern: pattern}}, p)
	return p, err
}

// ImportBlocks sends a file of blocks of a media type; options are the API's
// query parameters.
func (c *Client) ImportBlocks(ctx context.Context, file io.Reader, media string, options url.Values) (*wire.ImportAnswer, error) {
	answer, err := c.open(ctx, request{method: http.MethodPost, path: wire.PathBlockImport, query: options, stream: file, media: media})
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	did := &wire.ImportAnswer{}
	return did, decode(answer, did)
}

// ExportBlocks opens the blocks that filter selects as a file. The caller
// closes it; a read that ends in an error means that it is not whole.
func (c *Client) ExportBlocks(ctx context.Context, filter url.Values) (io.ReadCloser, error) {
	answer, err := c.open(ctx, request{method: http.MethodGet, path: wire.PathBlockExport, query: filter})
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// Jobs returns the periodic jobs.
func (c *Client) Jobs(ctx context.Context) ([]wire.Job, error) {
	return whole[wire.Job](ctx, c, wire.PathJobs)
}

// Nodes returns the nodes that were heard of lately.
func (c *Client) Nodes(ctx context.Context) ([]wire.Node, error) {
	return whole[wire.Node](ctx, c, wire.PathNodes)
}

// JobRuns returns the newest runs of a job, of all for "".
func (c *Client) JobRuns(ctx context.Context, job string, limit int) ([]wire.JobRun, error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if job != "" {
		query.Set("job", job)
	}
	var page wire.Page[wire.JobRun]
	err := c.do(ctx, request{method: http.MethodGet, path: wire.PathJobs + "/runs", query: query}, &page)
	return page.Items, err
}

// RunJob runs a job now and returns once it has ended.
func (c *Client) RunJob(ctx context.Context, job string) (*wire.JobRun, error) {
	answer, err := c.open(ctx, request{method: http.MethodPost, path: wire.PathJobs + "/" + url.PathEscape(job) + "/run"})
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	run := &wire.JobRun{}
	return run, decode(answer, run)
}

// Notifications returns the channels and the newest deliveries.
func (c *Client) Notifications(ctx context.Context, limit int) (*wire.Notifications, error) {
	n := &wire.Notifications{}
	err := c.do(ctx, request{method: http.MethodGet, path: wire.PathNotifications, query: url.Values{"limit": {strconv.Itoa(limit)}}}, n)
	return n, err
}

// TestNotification sends a message over one channel.
func (c *Client) TestNotification(ctx context.Context, channel string) (*wire.TestAnswer, error) {
	t := &wire.TestAnswer{}
	err := c.do(ctx, request{method: http.MethodPost, path: wire.PathNotifications + "/test", body: wire.TestRequest{Channel: channel}}, t)
	return t, err
}
