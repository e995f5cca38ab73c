package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/fault"
)

// maxDatabaseSkew is the maximum difference between the clock of a node that runs jobs and the
// database's clock.
const maxDatabaseSkew = time.Hour

// checkClock returns an error if the clock of this node is too wrong to decide what is old. A
// node whose clock is years ahead would delete what all others still keep, including the audit
// log, and write reports about future days. Nodes with correct clocks run the job.
func (r *Runner) checkClock(ctx context.Context) error {
	if r.o.DatabaseNow == nil {
		return nil
	}
	theirs, err := r.o.DatabaseNow(ctx)
	if err != nil {
		return err
	}
	apart, direction := r.wallClock().Sub(theirs), "ahead of"
	if apart < 0 {
		apart, direction = -apart, "behind"
	}
	if apart <= maxDatabaseSkew {
		return nil
	}
	return &fault.Error{Code: fault.Unavailable, Message: fmt.Sprintf(
		"The clock of this node is %s %s that of the database, so that it runs no jobs; set both by NTP.", apart.Round(time.Second), direction)}
}
