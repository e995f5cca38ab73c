package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/fault"
)

// maxDatabaseSkew is how far the clock of a node that runs jobs may be from the database's.
const maxDatabaseSkew = time.Hour

// checkClock returns an error unless the clock of this node may say what is old: a node with a
// clock that is years ahead would delete what all others still keep, the audit too, and write
// reports of days to come. Nodes whose clocks are right run the job.
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
