package client

import (
	"context"
	"time"
)

// MaxWait is the largest Check.MaxWait.
const MaxWait = time.Hour

// Detail is how much an answer contains.
type Detail string

// The details.
const (
	DetailRules Detail = "rules" // what each rule has left; the default of one check
	DetailNone  Detail = "none"  // only the decision, which is cheaper; the default in a batch
)

// Charge is which checks are charged.
type Charge string

// ChargeAlways charges usage that is reported after the fact: if a rule refuses the
// check, as much of its cost as fits is charged. It cannot be combined with MaxWait.
const ChargeAlways Charge = "always"

// Check asks about one key. Everything but Key may be left at its zero value.
type Check struct {
	// Key is who is counted: 1 to 512 bytes of UTF-8 without control
	// characters, by convention kind:value as in "ip:203.0.113.7".
	Key string
	// Policy names the policy to check; "" selects the best match for the key.
	Policy string
	// Cost is 1 to 1000, up to 100,000 with ChargeAlways, and up to 10^15 under a policy that counts amounts;
	// 0 means what the policy says, which is 1 unless it says so.
	Cost int
	// Hold holds the cost for this long, 1 s to 24 h, until it is settled with what was used; the Decision
	// then has Held. 0 means what the policy says; most charge at once. See Use.
	Hold time.Duration
	// Charge is ChargeAlways, or "" to charge the check only if it is allowed.
	Charge Charge
	// Peek asks for the decision without charging anything.
	Peek   bool
	Detail Detail
	// Source says who asks, shown with an offence; "" means WithSource's.
	Source string
	// Meta is shown with an offence and never trusted: up to 8 texts. Values
	// are cut to 256 bytes, and control characters in them replaced.
	Meta map[string]string
	// Request describes the request that is checked, for policies with conditions. Its
	// values are cleaned like those of Meta; each has a maximum length of its own.
	Request Request
	// Values are further values of the request by name, such as "account", which distinct
	// rules count. With more than 8 the check fails with a *Problem. Names have the form of
	// outcomes (see Report); values are cut to 2048 bytes.
	Values map[string]string
	// MaxWait allows a reservation at most this far ahead if the request is not allowed at
	// once; the Decision then has Delay and Reservation. The largest is the constant
	// MaxWait; 0 reserves nothing. Fractions of a millisecond are dropped.
	MaxWait time.Duration
	// Cancellable gives the Decision a Reservation, for now unless the check waits, whose handle cancels what
	// was charged for as long as it counts, at most ten minutes; see Cancel. It needs a policy that keeps what each
	// check was charged, as the default algorithm does, and cannot be combined with Charge.
	Cancellable bool
	// Pass is the value of PassCookie in the client's request, "" for none: what challenges lets
	// the check through, and the pass is counted too. One that does not hold is ignored. JoinPasses
	// joins several.
	Pass string
	// IdempotencyKey makes the server charge only once for all checks that have it. It is 1
	// to 64 printable ASCII characters. If it is "" and retries are enabled, each call
	// generates one; set it if a whole task may be repeated.
	IdempotencyKey string
	// Fresh asks Stint even if this client remembers that the key is refused. Each refusal
	// then counts as an offence.
	Fresh bool
}

// Check asks whether a key may make one more request. The decision is nil if and only if
// there is an error: a *Problem if the check is invalid, an *OutageError with
// ReturnError, or the error of ctx. A check may have been charged even if ctx ended
// before its answer.
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
	decided.Held.setLength(q.Hold)
	c.memory.remember(&q, decided, sent, seen)
	return decided, nil
}
