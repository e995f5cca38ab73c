package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/reports"
)

// ReportBuilder creates the document of the last complete period before an instant.
type ReportBuilder interface {
	Build(ctx context.Context, kind reports.Kind, now time.Time) (*reports.Document, error)
}

// WriteReport returns the job that writes the daily or weekly report. It calls notify,
// which may be nil, with the report.
func WriteReport(kind reports.Kind, schedule string, b ReportBuilder, notify func(context.Context, *reports.Document)) Job {
	return Job{
		Name: string(kind) + "-report", Help: "Writes the " + string(kind) + " report.",
		Schedule: schedule, MakeUp: true,
		Run: func(ctx context.Context, due time.Time) (string, error) {
			d, err := b.Build(ctx, kind, due)
			if err != nil {
				return "", err
			}
			if notify != nil {
				notify(ctx, d)
			}
			return fmt.Sprintf("wrote the report of %s", d.From.Format(time.DateOnly)), nil
		},
	}
}
