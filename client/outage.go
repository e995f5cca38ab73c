package client

import (
	"errors"
	"fmt"
	"time"
)

// OnOutage is what happens where Stint cannot be had: it is unreachable, does not
// answer in time, answers with a 5xx or something unreadable, or refuses the
// token. A question that is wrong, and a context that has ended, are errors
// whatever was chosen.
type OnOutage int

const (
	// ReturnError returns an *OutageError. It is the default.
	ReturnError OnOutage = iota
	// FailOpen allows the request. Danger: whoever can keep Stint from
	// answering has no limit.
	FailOpen
	// FailClosed refuses the request as Unavailable.
	FailClosed
)

// outageRetry is what a refusal under FailClosed tells its caller to wait.
const outageRetry = time.Second

// OutageError says that no decision could be had. The check may have been
// charged, once at most.
type OutageError struct {
	Attempts int   // how often it was sent
	Err      error // of the last attempt: a *Problem, or what the network says
}

// Error says what the last attempt ran into.
func (e *OutageError) Error() string {
	if e.Attempts == 1 {
		return fmt.Sprintf("no decision of stint: %v", e.Err)
	}
	return fmt.Sprintf("no decision of stint after %d attempts: %v", e.Attempts, e.Err)
}

// Unwrap returns the error of the last attempt.
func (e *OutageError) Unwrap() error { return e.Err }

// insteadOf returns the answer that stands in for an outage, or the error where
// there is none or none was chosen.
func (c *Client) insteadOf(err error) (Answer, error) {
	var outage *OutageError
	if c.outage == ReturnError || !errors.As(err, &outage) {
		return Answer{}, err
	}
	a := Answer{Outcome: Allowed, Allowed: true, Degraded: true, DegradedReason: outageReason, Outage: err}
	if c.outage == FailClosed {
		a.Outcome, a.Allowed = Unavailable, false
		a.RetryAfter, a.RetryAt = outageRetry, time.Now().Add(outageRetry)
	}
	return a, nil
}

// outageReason is the DegradedReason of a decision that this client made.
const outageReason = "Stint could not be asked"
