package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-dev/stint/internal/offences"
)

// Proposer looks for ranges in which many offend.
type Proposer interface {
	Propose(ctx context.Context) ([]offences.Proposal, error)
}

// Propose returns the job that proposes wider ranges. It calls notify, which may be nil,
// with each new proposal.
func Propose(p Proposer, notify func(context.Context, offences.Proposal)) Job {
	return Job{
		Name: "propose-ranges", Help: "Proposes to block ranges in which many addresses offend.",
		Schedule: "* * * * *",
		Run: func(ctx context.Context, _ time.Time) (string, error) {
			found, err := p.Propose(ctx)
			if notify != nil {
				for _, one := range found {
					notify(ctx, one)
				}
			}
			return fmt.Sprintf("new proposals: %d", len(found)), err
		},
	}
}
