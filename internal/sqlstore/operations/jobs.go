package operations

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/jobs"
	"github.com/stint-dev/stint/internal/paging"
	"github.com/stint-dev/stint/internal/sqlstore/db"
	"github.com/stint-dev/stint/internal/wire"
)

const (
	insertRun = `
INSERT INTO job_runs (job, node, due_at, started_at, triggered_by) VALUES ($1, $2, $3, $4, $5) RETURNING id`
	finishRun  = `UPDATE job_runs SET finished_at = $2, result = $3, problem = $4 WHERE id = $1`
	runColumns = `SELECT id, job, node, due_at, started_at, finished_at, result, problem, triggered_by FROM job_runs `
	selectLast = runColumns + `WHERE job = $1 AND due_at <= $2 ORDER BY due_at DESC, problem <> '' DESC, id DESC LIMIT 1`
	selectRuns = runColumns + `WHERE `
)

var _ jobs.Store = (*Jobs)(nil)

// Jobs implements jobs.Store.
type Jobs struct{ leases }

// NewJobs returns the store of job runs and leases in a database.
func NewJobs(d *db.DB) *Jobs { return &Jobs{leases{d}} }

// BeginRun records that a run has started and returns its id.
func (s *Jobs) BeginRun(ctx context.Context, r wire.JobRun) (id int64, err error) {
	err = s.db.Write(ctx, func(t *db.Tx) error {
		by := cmp.Or(r.TriggeredBy, jobs.BySchedule)
		_, err := t.One(insertRun, []any{r.Job, r.Node, db.ToMS(r.DueAt.Time), db.ToMS(r.StartedAt.Time), by}, &id)
		return err
	})
	return id, err
}

// EndRun records how a run ended; problem is "" if it succeeded.
func (s *Jobs) EndRun(ctx context.Context, id int64, finished time.Time, result, problem string) error {
	return s.db.Run(ctx, finishRun, id, db.ToMS(finished), db.CleanText(result), db.CleanText(problem))
}

// LastRun implements jobs.Store.
func (s *Jobs) LastRun(ctx context.Context, job string, notAfter time.Time) (*wire.JobRun, error) {
	all, err := s.runs(ctx, selectLast, job, db.ToMS(notAfter))
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// Runs implements jobs.Store.
func (s *Jobs) Runs(ctx context.Context, f wire.RunList) (page wire.Page[wire.JobRun], err error) {
	limit, err := paging.Limit(f.Limit)
	if err != nil {
		return page, err
	}
	if err := db.CheckText("job", f.Job); err != nil {
		return page, err
	}
	q := &db.Selection{}
	if f.Job != "" {
		q.And("job = ?", f.Job)
	}
	if f.Cursor != "" {
		last, err := paging.ParseCursor(f.Cursor, 2)
		if err != nil {
			return page, err
		}
		started, wrongStart := strconv.ParseInt(last[0], 36, 64)
		id, wrongID := strconv.ParseInt(last[1], 36, 64)
		if wrongStart != nil || wrongID != nil {
			return page, fault.Field("cursor", paging.BadCursor)
		}
		q.And("(started_at < ? OR started_at = ? AND id < ?)", started, started, id)
	}
	all, err := s.runs(ctx, selectRuns+q.String()+" ORDER BY started_at DESC, id DESC LIMIT "+strconv.Itoa(limit+1), q.Args...)
	all, next := db.CutPage(all, limit, func(r wire.JobRun) string {
		return paging.Cursor(strconv.FormatInt(db.ToMS(r.StartedAt.Time), 36), strconv.FormatInt(r.ID, 36))
	})
	return wire.Page[wire.JobRun]{Items: all, NextCursor: wire.NullString(next)}, err
}

func (s *Jobs) runs(ctx context.Context, query string, args ...any) ([]wire.JobRun, error) {
	return db.List(ctx, s.db, scanRun, query, args...)
}

func scanRun(r db.Row) (run wire.JobRun, err error) {
	err = r.Scan(&run.ID, &run.Job, &run.Node, db.MS(&run.DueAt.Time), db.MS(&run.StartedAt.Time), db.MS(&run.FinishedAt.Time), &run.Result, (*string)(&run.Error), &run.TriggeredBy)
	return run, err
}
