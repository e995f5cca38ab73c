package api

import (
	"github.com/stint-dev/stint/internal/reports"
	"github.com/stint-dev/stint/internal/wire"
)

// fromReport shows what a report is about.
func fromReport(d *reports.Document) wire.Report {
	attention := d.Attention
	if attention == nil {
		attention = []string{}
	}
	return wire.Report{
		ID: d.ID, Kind: string(d.Kind), From: wire.At(d.From), To: wire.At(d.To), CreatedAt: wire.At(d.Created),
		Allowed: d.Totals.Allowed, Refused: d.Totals.Refused(), Offenders: d.Totals.Offenders, Attention: attention,
	}
}
