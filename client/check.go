package client

import (
	"context"
	"time"
)

// MaxWait is the longest wait that one check may offer.
const MaxWait = time.Hour

// Detail is how much an answer contains.
type Detail string

// The details.
const (
	DetailRules Detail = "rules" // what each rule has left; the default of one check
	DetailNone  Detail = "none"  // the verdict only, which is cheaper; the default in a batch
)

// Charge is which checks are charged.
type Charge string

// ChargeAlways charges usage that is reported after the fact: where a rule refuses the
// check, as much of its cost as fits is charged. Such a check cannot wait.
const ChargeAlways Charge = "always"

// Check is one question about one key. Everything but Key may be left at its
// zero value.
type Check struct {
	// Key is who is counted: 1 to 512 bytes of UTF-8 without control
	// characters, by convention kind:value as in "ip:203.0.113.7".
	Key string
	// Policy is asked by its name; the best match where it is "".
	Policy string
	// Cost is 1 to 1000, up to 100,000 with ChargeAlways; 0 means 1.
	Cost int
	// Charge is ChargeAlways, or "" to charge the check only if it is allowed.
	Charge Charge
	// Peek answers and charges nothing.
	Peek   bool
	Detail Detail
	// Source says who asks, shown with an offence; "" means WithSource's.
	Source string
	// Meta is shown with an offence and never trusted: up to 8 texts. Values
	// are cut to 256 bytes, and control characters in them replaced.
	Meta map[string]string
	// Request is what is said of the request that is checked, for policies with
	// conditions. Values are cut and cleaned as those of Meta are, at their own lengths.
	Request Request
	// Values are further values of the request by their names, as "account", which
	// distinct rules count: at most 8, or the server refuses the check with a *Problem.
	// Their names are those of outcomes; a value is cut to 2048 bytes.
	Values map[string]string
	// MaxWait makes a reservation within so long, up to MaxWait, where the request
	// is not allowed at once; the Decision has Wait and Reservation then. 0 reserves
	// nothing. Parts of a millisecond do not count.
	MaxWait time.Duration
	// IdempotencyKey has the server charge once for all checks that carry it, 1 to 64
	// printable ASCII characters. A call makes one of its own where it is ""
	// and retries are on; give one where a whole task may be repeated.
	IdempotencyKey string
	// Fresh asks Stint even where this client remembers that the key is
	// refused, so that each refusal counts as an offence.
	Fresh bool
}

// Check asks whether a key may do one more request. The decision is nil only
// where there is an error: a *Problem where the question is wrong, an
// *OutageError under ReturnError, or the context's where it has ended. A check
// whose context has ended may have been charged.
func (c *Client) Check(ctx context.Context, q Check) (*Decision, error) {
	if err := checkKey(q.Key, "key"); err != nil {
		return nil, err
	}
	seen, known := c.memory.lookUp(&q)
	if known != nil {
		return known, nil
	}
	var d wireDecision
	sent, err := c.ask(ctx, call{path: pathCheck, question: c.wire(&q)}, &d)
	if err != nil {
		a, err := c.insteadOf(err)
		if err != nil {
			return nil, err
		}
		return &Decision{Answer: a, Key: q.Key, Policy: q.Policy}, nil
	}
	decided := d.decision()
	c.memory.remember(&q, decided, sent, seen)
	return decided, nil
}
