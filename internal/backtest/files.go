package backtest

import (
	"context"
	"errors"

	"github.com/stint-dev/stint/internal/accesslog"
)

// FileOptions configure how log files are read. The zero value is valid.
type FileOptions struct {
	Read accesslog.Options
	Sort accesslog.SortOptions
	// Opened, if not nil, is called with each log and how its lines are read.
	Opened func(path string, parser *accesslog.LineParser)
	// Progress, if not nil, is called from time to time with how many bytes of the files were
	// read. total is 0 if it is unknown.
	Progress func(done, total int64)
}

// RunFiles reads the logs at paths in the order of time and replays their requests as Run
// does. The report's Input counts what was read. Files with only
// bad lines make a report without requests, not an error.
func RunFiles(ctx context.Context, paths []string, f FileOptions, o Options) (report *Report, err error) {
	files, err := accesslog.OpenFiles(paths, f.Read)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	files.Opened = f.Opened
	sorted := accesslog.Sort(ctx, files, f.Sort)
	if f.Progress != nil {
		o.Progress = func(int64) { f.Progress(files.Progress()) }
	}
	if report, err = Run(ctx, sorted, o); err != nil {
		return nil, err
	}
	report.Input = &Input{Counts: files.Counts(), OutOfOrder: sorted.OutOfOrder(), LeftOut: sorted.LeftOut()}
	report.Input.Warnings = append(report.Input.Warnings, sorted.Warnings()...)
	report.Input.Warnings = append(report.Input.Warnings, report.shared...)
	return report, nil
}
