package sqlstore

import (
	"context"
	"time"

	"github.com/stint-dev/stint/internal/jobs"
)

const (
	insertRun = `
INSERT INTO job_runs (job, node, due_at, started_at, asked) VALUES ($1, $2, $3, $4, $5) RETURNING id`
	finishRun  = `UPDATE job_runs SET finished_at = $2, did = $3, problem = $4 WHERE id = $1`
	runColumns = `SELECT id, job, node, due_at, started_at, finished_at, did, problem, asked FROM job_runs `
	selectLast = runColumns + `WHERE job = $1 ORDER BY due_at DESC, id DESC LIMIT 1`
	selectRuns = runColumns + `WHERE $1 = '' OR job = $1 ORDER BY started_at DESC, id DESC LIMIT $2`
	deleteRuns = `DELETE FROM job_runs WHERE started_at < $1`
)

var _ jobs.Store = (*Store)(nil)

// BeginRun records that a run has started and returns its id.
func (s *operationStore) BeginRun(ctx context.Context, r jobs.Run) (id int64, err error) {
	err = s.write(ctx, func(t *tx) error {
		asked := 0
		if r.Asked {
			asked = 1
		}
		_, err := t.one(insertRun, []any{r.Job, r.Node, toMS(r.Due), toMS(r.Started), asked}, &id)
		return err
	})
	return id, err
}

// EndRun records how a run ended; problem is "" when it worked.
func (s *operationStore) EndRun(ctx context.Context, id int64, finished time.Time, did, problem string) error {
	return s.write(ctx, func(t *tx) error {
		_, err := t.exec(finishRun, id, toMS(finished), did, problem)
		return err
	})
}

// LastRun returns the newest run of a job by its due time, nil if none.
func (s *operationStore) LastRun(ctx context.Context, job string) (*jobs.Run, error) {
	all, err := s.runs(ctx, selectLast, job)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

// Runs returns the newest runs of a job, of all jobs where it is "".
func (s *operationStore) Runs(ctx context.Context, job string, limit int) ([]*jobs.Run, error) {
	return s.runs(ctx, selectRuns, job, limit)
}

func (s *operationStore) runs(ctx context.Context, query string, args ...any) (all []*jobs.Run, err error) {
	err = s.view(ctx, func(t *tx) error {
		all, err = each(t, scanRun, query, args...)
		return err
	})
	return all, err
}

func scanRun(r row) (*jobs.Run, error) {
	var (
		run                    jobs.Run
		due, started, finished int64
		asked                  int
	)
	err := r.Scan(&run.ID, &run.Job, &run.Node, &due, &started, &finished, &run.Did, &run.Err, &asked)
	run.Due, run.Started, run.Finished, run.Asked = fromMS(due), fromMS(started), fromMS(finished), asked != 0
	return &run, err
}

// DeleteRuns forgets the runs that started before an instant.
func (s *operationStore) DeleteRuns(ctx context.Context, before time.Time) (int, error) {
	return s.deleteBefore(ctx, deleteRuns, before)
}

func (s *backend) deleteBefore(ctx context.Context, statement string, before time.Time) (deleted int, err error) {
	err = s.write(ctx, func(t *tx) error {
		n, err := t.exec(statement, toMS(before))
		deleted = int(n)
		return err
	})
	return deleted, err
}

const (
	acquireLease = `
INSERT INTO leases (name, holder, expires_at) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
WHERE leases.holder = excluded.holder OR leases.expires_at <= $4
RETURNING holder`
	releaseLease = `DELETE FROM leases WHERE name = $1 AND holder = $2`
)

// AcquireLease gives the lease of name to holder until an instant, or renews
// it, and reports false while another holder has it at now.
func (s *operationStore) AcquireLease(ctx context.Context, name, holder string, now, until time.Time) (held bool, err error) {
	err = s.write(ctx, func(t *tx) error {
		var who string
		held, err = t.one(acquireLease, []any{name, holder, toMS(until), toMS(now)}, &who)
		return err
	})
	return held, err
}

// ReleaseLease gives a lease back before its time. One that holder has lost is
// left alone.
func (s *operationStore) ReleaseLease(ctx context.Context, name, holder string) error {
	return s.write(ctx, func(t *tx) error {
		_, err := t.exec(releaseLease, name, holder)
		return err
	})
}
