package jobs

import (
	"context"
	"crypto/rand"
	"errors"
	"time"
)

// newLease returns the lease of one run of a job. The lease is not taken yet.
func (r *Runner) newLease(j Job) *lease {
	l := &lease{runner: r, name: "job:" + j.Name, holder: r.o.Node + "/" + rand.Text()}
	if j.PerNode {
		l.name += "@" + r.o.Node
	}
	return l
}

// lease is the right to run a job once. Its holder is that run, not the node, so that a node
// cannot begin a second run by renewing the lease of the first.
type lease struct {
	runner *Runner
	name   string
	holder string
	until  time.Time // end of the lease unless it is renewed
}

// renew takes or extends the lease. It reports false while another run has it.
func (l *lease) renew(ctx context.Context) (bool, error) {
	now := l.runner.o.Now()
	held, err := l.runner.o.Store.AcquireLease(ctx, l.name, l.holder, now, now.Add(l.runner.o.LeaseTime))
	if held && err == nil {
		l.until = now.Add(l.runner.o.LeaseTime)
	}
	return held, err
}

// The causes for which keep stops a job.
var (
	errLeaseLost    = errors.New("stopped, since another run of this job has its lease")
	errLeaseExpired = errors.New("stopped, since the database was unreachable until the lease of this run ended, and another node may run this job now")
)

// keep renews the lease while the job runs. It stops the job when another run has the lease, or
// may have it because the database was unreachable for too long.
func (l *lease) keep(ctx context.Context, stop context.CancelCauseFunc) {
	tick := time.NewTicker(l.runner.o.LeaseTime / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		attempt, cancel := context.WithTimeout(ctx, l.runner.o.LeaseTime/4)
		held, err := l.renew(attempt)
		cancel()
		switch {
		case err == nil && !held:
			stop(errLeaseLost)
			return
		case err != nil && !l.runner.o.Now().Before(l.until):
			stop(errLeaseExpired)
			return
		}
	}
}

// release ends the lease.
func (l *lease) release() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := l.runner.o.Store.ReleaseLease(ctx, l.name, l.holder); err != nil {
		l.runner.o.Log.Warn("lease not released; it expires by itself", "lease", l.name, "error", err)
	}
}
