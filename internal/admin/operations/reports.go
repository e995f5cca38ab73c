package operations

import (
	"context"
	"io"
	"time"

	"github.com/stint-dev/stint/internal/admin"
	"github.com/stint-dev/stint/internal/audit"
	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/reports"
)

// Reports is the use case of reading and creating the daily and weekly reports.
type Reports struct {
	Builder  *reports.Builder // nil on a node without reports
	Recorder audit.Recorder
	Now      func() time.Time
}

// Report is a daily or weekly report. Its JSON is the file format "json".
type Report = reports.Document

// ReportTotals are the sums of a report's period.
type ReportTotals = reports.Totals

// The formats of a report.
const (
	ReportJSON = "json"
	ReportCSV  = "csv"
	ReportHTML = "html"
)

// IsWeekly reports whether a report is about a week, not a day.
func IsWeekly(r *Report) bool { return r.Kind == reports.Weekly }

// Write writes a report in a format.
func (r *Reports) Write(w io.Writer, d *Report, format string) error {
	switch format {
	case ReportCSV:
		return reports.WriteCSV(w, d)
	case ReportHTML:
		return reports.WriteHTML(w, d)
	case ReportJSON:
		return reports.WriteJSON(w, d)
	}
	return fault.Field("format", "must be json, csv or html")
}

var errNoReports = fault.New(fault.NotFound, "This node keeps no reports.")

// List returns a page of the stored reports of a kind, or of all kinds if it is empty; see
// reports.Store.
func (r *Reports) List(ctx context.Context, kind, cursor string, limit int) (page []*Report, next string, err error) {
	if r.Builder == nil {
		return nil, "", errNoReports
	}
	if kind != "" {
		if _, err := reportKind(kind); err != nil {
			return nil, "", err
		}
	}
	return r.Builder.Store.FindDocuments(ctx, reports.Kind(kind), cursor, limit)
}

// TodaysReport is the id of today's report so far, which is computed when it is read.
const TodaysReport = reports.Today

// Get returns one report.
func (r *Reports) Get(ctx context.Context, id string) (*Report, error) {
	if r.Builder == nil {
		return nil, errNoReports
	}
	if id == TodaysReport {
		return r.Builder.BuildToday(ctx)
	}
	return r.Builder.Store.FindDocumentByID(ctx, id)
}

// Create records and creates the report of the last complete day or week.
func (r *Reports) Create(ctx context.Context, by admin.Caller, kind string) (*Report, error) {
	if r.Builder == nil {
		return nil, errNoReports
	}
	k, err := reportKind(kind)
	if err != nil {
		return nil, err
	}
	now := r.Now()
	from, _ := k.Period(now)
	day := from.Format(time.DateOnly)
	if err := r.Recorder.AddRecord(ctx, audit.Record{
		Actor: by.Actor, Action: "report.write", Object: "report", ObjectID: kind + "/" + day, Summary: "Wrote the " + kind + " report of " + day + ".",
	}); err != nil {
		return nil, err
	}
	return r.Builder.Build(ctx, k, now)
}

func reportKind(text string) (reports.Kind, error) {
	k := reports.Kind(text)
	if k != reports.Daily && k != reports.Weekly {
		return "", fault.Field("kind", "must be daily or weekly")
	}
	return k, nil
}
