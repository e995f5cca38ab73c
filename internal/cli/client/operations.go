package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	v1 "github.com/stint-dev/stint/internal/api/v1"
)

// PreviewBlock says whom a block of a pattern would hit.
func (c *Client) PreviewBlock(ctx context.Context, pattern string) (*v1.BlockPreview, error) {
	p := &v1.BlockPreview{}
	err := c.do(ctx, request{method: http.MethodPost, path: v1.PathBlockPreview, body: v1.PreviewRequest{Pattern: pattern}}, p)
	return p, err
}

// ImportBlocks sends a file of blocks of a media type; options are the API's
// query parameters.
func (c *Client) ImportBlocks(ctx context.Context, file io.Reader, media string, options url.Values) (*v1.ImportAnswer, error) {
	answer, err := c.open(ctx, request{method: http.MethodPost, path: v1.PathBlockImport, query: options, stream: file, media: media})
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	did := &v1.ImportAnswer{}
	return did, decode(answer, did)
}

// ExportBlocks opens the blocks that filter selects as a file. The caller
// closes it; a read that ends in an error means that it is not whole.
func (c *Client) ExportBlocks(ctx context.Context, filter url.Values) (io.ReadCloser, error) {
	answer, err := c.open(ctx, request{method: http.MethodGet, path: v1.PathBlockExport, query: filter})
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// Jobs returns the periodic jobs.
func (c *Client) Jobs(ctx context.Context) ([]v1.Job, error) {
	return whole[v1.Job](ctx, c, v1.PathJobs)
}

// Nodes returns the nodes that were heard of lately.
func (c *Client) Nodes(ctx context.Context) ([]v1.Node, error) {
	return whole[v1.Node](ctx, c, v1.PathNodes)
}

// JobRuns returns the newest runs of a job, of all for "".
func (c *Client) JobRuns(ctx context.Context, job string, limit int) ([]v1.JobRun, error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if job != "" {
		query.Set("job", job)
	}
	var page v1.Page[v1.JobRun]
	err := c.do(ctx, request{method: http.MethodGet, path: v1.PathJobs + "/runs", query: query}, &page)
	return page.Items, err
}

// RunJob runs a job now and returns once it has ended.
func (c *Client) RunJob(ctx context.Context, job string) (*v1.JobRun, error) {
	answer, err := c.open(ctx, request{method: http.MethodPost, path: v1.PathJobs + "/" + url.PathEscape(job) + "/run"})
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	run := &v1.JobRun{}
	return run, decode(answer, run)
}

// Notifications returns the channels and the newest deliveries.
func (c *Client) Notifications(ctx context.Context, limit int) (*v1.Notifications, error) {
	n := &v1.Notifications{}
	err := c.do(ctx, request{method: http.MethodGet, path: v1.PathNotifications, query: url.Values{"limit": {strconv.Itoa(limit)}}}, n)
	return n, err
}

// TestNotification sends a message over one channel.
func (c *Client) TestNotification(ctx context.Context, channel string) (*v1.TestAnswer, error) {
	t := &v1.TestAnswer{}
	err := c.do(ctx, request{method: http.MethodPost, path: v1.PathNotifications + "/test", body: v1.TestRequest{Channel: channel}}, t)
	return t, err
}
