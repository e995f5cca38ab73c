package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/fault"
	"github.com/stint-dev/stint/internal/supervise"
)

// maxDatabaseSkew is the maximum difference between the clock of a node that runs jobs and the
// database's clock.
const maxDatabaseSkew = time.Hour

// checkClock returns by how much the clock of this node is ahead of the database's. It returns an
// error if the difference is too large to decide what is old. A node whose clock is years ahead would
// delete what all others still keep, including the audit log, and write reports about future days.
// Nodes with correct clocks run the job.
func (r *Runner) checkClock(ctx context.Context) (ahead time.Duration, err error) {
	if r.o.DatabaseNow == nil {
		return 0, nil
	}
	theirs, err := r.o.DatabaseNow(ctx)
	if err != nil {
		return 0, err
	}
	ahead = r.wallClock().Sub(theirs)
	direction := "ahead of"
	if ahead < 0 {
		direction = "behind"
	}
	if ahead.Abs() <= maxDatabaseSkew {
		return ahead, nil
	}
	return 0, &fault.Error{Code: fault.Unavailable, Message: fmt.Sprintf(
		"The clock of this node is %s %s that of the database, so that it runs no jobs; set both by NTP.", ahead.Abs().Round(time.Second), direction)}
}

// awaitDatabase waits until it is due by the clock of the database too, at most maxDatabaseSkew. A
// node whose clock is ahead would write the report of a day before the day is over, and no other
// node would write it again.
func (r *Runner) awaitDatabase(ctx context.Context, due time.Time) error {
	for r.o.DatabaseNow != nil {
		ahead, err := r.checkClock(ctx)
		if err != nil {
			return err
		}
		early := due.Sub(r.wallClock().Add(-ahead))
		switch {
		case early <= 0:
			return nil
		case early > maxDatabaseSkew: // the clock of this node was set back since the run was due
			return fault.New(fault.Unavailable, "The run is not due before %s by the clock of the database.", due.Format(time.RFC3339))
		}
		if err := supervise.Sleep(ctx, early); err != nil {
			return err
		}
	}
	return nil
}
