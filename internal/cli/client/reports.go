package client

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/stint-dev/stint/internal/wire"
)

// Reports returns the kept reports of a kind, all for "", the newest first.
func (c *Client) Reports(ctx context.Context, kind string) ([]wire.Report, error) {
	query := url.Values{}
	if kind != "" {
		query.Set("kind", kind)
	}
	var page wire.Page[wire.Report]
	err := c.do(ctx, request{method: http.MethodGet, path: wire.PathReports, query: query}, &page)
	return page.Items, err
}

// WriteReport makes the report of the last whole day or week now.
func (c *Client) WriteReport(ctx context.Context, kind string) (*wire.Report, error) {
	written := &wire.Report{}
	err := c.do(ctx, request{method: http.MethodPost, path: wire.PathReports, body: wire.ReportRequest{Kind: kind}}, written)
	return written, err
}

// Report opens a report as json, csv or html. The caller closes it.
func (c *Client) Report(ctx context.Context, id, format string) (io.ReadCloser, error) {
	answer, err := c.open(ctx, request{
		method: http.MethodGet, path: wire.PathReports + "/" + url.PathEscape(id), query: url.Values{"format": {format}},
	})
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}
