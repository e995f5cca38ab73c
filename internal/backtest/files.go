package backtest

import (
	"context"
	"errors"

	"github.com/stint-dev/stint/internal/accesslog"
)

// Stage is what a backtest of files is busy with.
type Stage string

// The stages, in their order.
const (
	Reading   Stage = "reading"   // counted in bytes of the files
	Replaying Stage = "replaying" // counted in requests
)

// FileOptions configure how log files are read. The zero value is valid.
type FileOptions struct {
	Read accesslog.Options
	Sort accesslog.SortOptions // its Keys are taken from Read
	// Progress, if not nil, is called from time to time with the progress of a stage.
	// total is 0 while it is unknown.
	Progress func(stage Stage, done, total int64)
}

// RunFiles reads the logs at paths, sorts their requests by time and replays
// them as Run does. The report's Input counts what was read. Files with only
// bad lines make a report without requests, not an error.
func RunFiles(ctx context.Context, paths []string, f FileOptions, o Options) (report *Report, err error) {
	files, err := accesslog.OpenFiles(paths, f.Read)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	f.Sort.Keys = f.Read.Keys
	sorted, err := accesslog.Sort(ctx, &progressSource{files: files, progress: f.Progress}, f.Sort)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sorted.Close()) }()
	if f.Progress != nil {
		o.Progress = func(records int64) { f.Progress(Replaying, records, sorted.Len()) }
	}
	if report, err = Run(ctx, sorted, o); err != nil {
		return nil, err
	}
	report.Input = &Input{Counts: files.Counts(), OutOfOrder: sorted.OutOfOrder()}
	return report, nil
}

// progressSource reads records and reports the progress.
type progressSource struct {
	files    *accesslog.Files
	progress func(Stage, int64, int64)
	records  int64
}

func (w *progressSource) Next() (accesslog.Record, error) {
	record, err := w.files.Next()
	if w.records++; w.progress != nil && (w.records%reportEvery == 0 || err != nil) {
		done, total := w.files.Progress()
		w.progress(Reading, done, total)
	}
	return record, err
}
