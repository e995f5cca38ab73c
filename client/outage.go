package client

import (
	"errors"
	"fmt"
	"time"
)

// OnOutage is what happens during an outage: the server is unreachable, does not answer in
// time, answers with a 5xx or something unreadable, or refuses the token. An invalid check
// and an ended context are errors in any case.
type OnOutage int

const (
	// ReturnError returns an *OutageError. It is the default.
	ReturnError OnOutage = iota
	// FailOpen allows the request. Danger: a client that can keep the server
	// from answering has no limit.
	FailOpen
	// FailClosed refuses the request as Unavailable.
	FailClosed
)

// outageRetry is the wait in a refusal under FailClosed.
const outageRetry = time.Second

// OutageError is the error of a check without a decision. The check may have been charged,
// at most once.
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

// insteadOf returns the decision during an outage, or err if it is another error or
// ReturnError was chosen.
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
