package client

import (
	"context"
	"maps"
	"net/url"
	"strconv"

	"github.com/stint-dev/stint/internal/wire"
)

// Offenders reads who was refused.
type Offenders struct{ conn *conn }

// List returns the report that filter selects: at most limit rows, all for 0. filter
// holds the API's query parameters.
func (o Offenders) List(ctx context.Context, filter url.Values, limit int) (*wire.OffenderReport, error) {
	query := url.Values{}
	maps.Copy(query, filter)
	var report *wire.OffenderReport
	var rows []wire.Offender
	for {
		size := pageSize
		if limit > 0 {
			size = min(size, limit-len(rows))
		}
		query.Set("limit", strconv.Itoa(size))
		var err error
		if report, err = call[wire.OffenderReport](ctx, o.conn, get(wire.PathOffenders).with(query)); err != nil {
			return nil, err
		}
		rows = append(rows, report.Items...)
		if report.NextCursor == "" || limit > 0 && len(rows) >= limit {
			report.Items = rows
			return report, nil
		}
		query.Set("cursor", string(report.NextCursor))
	}
}

// Origins returns the offences by the origin of the addresses. filter holds the API's query
// parameters.
func (o Offenders) Origins(ctx context.Context, filter url.Values) (*wire.OriginReport, error) {
	return call[wire.OriginReport](ctx, o.conn, get(wire.PathOffenders+"/origins").with(filter))
}

// Offence returns the offences with a refusal's id.
func (o Offenders) Offence(ctx context.Context, id string) (*wire.OffenceRecord, error) {
	return call[wire.OffenceRecord](ctx, o.conn, get(wire.PathOffences+"/"+url.PathEscape(id)))
}
