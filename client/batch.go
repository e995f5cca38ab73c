package client

import (
	"context"
	"fmt"
)

// MaxBatch is how many checks one Batch may hold.
const MaxBatch = 1000

// maxBatchBody is the largest body of a batch that Stint reads, in bytes.
const maxBatchBody = 4 << 20

// BatchItem answers one check of a batch: exactly one of the two is not nil.
type BatchItem struct {
	Decision *Decision
	// Err is a *Problem if this check is invalid. If Batch needed several calls, and not the
	// first but a later one failed, it is the error of that one for each check without an answer.
	Err error
}

// Batch makes 1 to MaxBatch checks in one call, or in several, one after the other, if they
// have more than 4 MiB together. They are independent: some may be allowed and others refused.
// The items are in the order of checks. The default of Detail is DetailNone. Checks of keys
// that this client remembers as refused are not sent. The error is about the whole batch; with
// FailOpen or FailClosed, an outage is answered for each check instead.
func (c *Client) Batch(ctx context.Context, checks []Check) ([]BatchItem, error) {
	if len(checks) == 0 || len(checks) > MaxBatch {
		return nil, fmt.Errorf("client: a batch of %d checks; send 1 to %d", len(checks), MaxBatch)
	}
	items := make([]BatchItem, len(checks))
	var send []*wireCheck
	var asked []int
	var seen uint64
	for i := range checks {
		if items[i].Err = checkKey(checks[i].Key, "key"); items[i].Err != nil {
			continue
		}
		var known *Decision
		if seen, known = c.memory.lookUp(&checks[i]); known != nil {
			items[i].Decision = known
			continue
		}
		send, asked = append(send, c.wire(&checks[i])), append(asked, i)
	}
	answered, err := inParts("checks", send, func(from, to int, body []byte) error {
		answers := wireBatch{asked: to - from}
		sent, err := c.ask(ctx, call{path: pathBatch, body: body, isBatch: true}, &answers)
		if err != nil {
			return err
		}
		for n, i := range asked[from:to] {
			item := &items[i]
			if item.Decision, item.Err = readItem(answers.Decisions[n]); item.Err == nil {
				c.memory.remember(&checks[i], item.Decision, sent, seen)
			}
		}
		return nil
	})
	if err == nil {
		return items, nil
	}
	a, err := c.insteadOf(err)
	if err != nil && answered == 0 {
		return nil, err
	}
	for _, i := range asked[answered:] {
		if items[i].Err = err; err == nil {
			items[i].Decision = &Decision{Answer: a, Key: checks[i].Key, Policy: checks[i].Policy}
		}
	}
	return items, nil
}

// inParts encodes a batch and sends it, in as many parts as are small enough: clients choose
// much of what a question contains, and must not be able to have the whole batch refused. It
// returns how many members were sent before the first error.
func inParts[T any](name string, all []T, send func(from, to int, body []byte) error) (sent int, err error) {
	if len(all) == 0 {
		return 0, nil
	}
	var part func(from, to int) error
	part = func(from, to int) error {
		body, err := encode(map[string][]T{name: all[from:to]})
		if err != nil {
			return err
		}
		if len(body) <= maxBatchBody || to-from == 1 {
			if err = send(from, to, body); err == nil {
				sent = to
			}
			return err
		}
		middle := (from + to) / 2
		if err := part(from, middle); err != nil {
			return err
		}
		return part(middle, to)
	}
	err = part(0, len(all))
	return sent, err
}
