package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/recorder"
)

// staleCounts is how long counts may fail to be written before the job fails.
const staleCounts = 5 * time.Minute

// CheckCounters returns the job that fails, and so notifies people, when this node's
// counts do not reach the database or were dropped.
func CheckCounters(stats func() recorder.Stats, now func() time.Time) Job {
	var last recorder.Stats // of the last run
	return Job{
		Name: "check-counters", Help: "Fails when the offences that a node counted do not reach the database. Each node runs it.",
		Schedule: "*/5 * * * *", PerNode: true,
		Run: func(context.Context, time.Time) (string, error) {
			s := stats()
			dropped := s.Aggregated - last.Aggregated + s.Lost - last.Lost + s.Poison - last.Poison
			last = s
			switch {
			case s.Failing != nil && now().Sub(s.Since) > staleCounts:
				return "", fmt.Errorf("counts have not reached the database since %s: %w", s.Since.UTC().Format(time.RFC3339), s.Failing)
			case dropped > 0:
				return "", fmt.Errorf("%d counts lost their key or were left out because too much waited", dropped)
			}
			return fmt.Sprintf("%d rows written so far, %d waiting", s.Flushed, s.Waiting), nil
		},
	}
}
