package client

import (
	"context"

	"github.com/stint-dev/stint/internal/wire"
)

// Offenders returns the report of the offenders that filter selects: at most limit rows, all for 0.
func Offenders(ctx context.Context, c *Client, filter wire.OffenderFilter, limit int) (*wire.OffenderReport, error) {
	in := wire.OffenderList{OffenderFilter: filter}
	var rows []wire.Offender
	for {
		in.Limit = pageSize
		if limit > 0 {
			in.Limit = min(pageSize, limit-len(rows))
		}
		report, err := Call(ctx, c, wire.ListOffenders, in)
		if err != nil {
			return nil, err
		}
		rows = append(rows, report.Items...)
		if report.NextCursor == "" || limit > 0 && len(rows) >= limit {
			report.Items = rows
			return &report, nil
		}
		in.Cursor = string(report.NextCursor)
	}
}
