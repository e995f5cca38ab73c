package client

import (
	"context"
	"fmt"
)

// MaxBatch is how many checks one Batch may hold.
const MaxBatch = 1000

// BatchItem answers one check of a batch: exactly one of the two is not nil.
type BatchItem struct {
	Decision *Decision
	// Err is a *Problem if this check is invalid.
	Err error
}

// Batch makes 1 to MaxBatch checks in one call. They are independent: some may be allowed
// and others refused. The items are in the order of checks. The default of Detail is
// DetailNone. Checks of keys that this client remembers as refused are not sent.
// The error is about the whole batch; with FailOpen or FailClosed, an outage is
// answered for each check instead.
func (c *Client) Batch(ctx context.Context, checks []Check) ([]BatchItem, error) {
	if len(checks) == 0 || len(checks) > MaxBatch {
		return nil, fmt.Errorf("client: a batch of %d checks; send 1 to %d", len(checks), MaxBatch)
	}
	items := make([]BatchItem, len(checks))
	var send struct {
		Checks []*wireCheck `json:"checks"`
	}
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
		send.Checks, asked = append(send.Checks, c.wire(&checks[i])), append(asked, i)
	}
	if len(asked) == 0 {
		return items, nil
	}
	answers := wireBatch{asked: len(asked)}
	sent, err := c.ask(ctx, call{path: pathBatch, question: &send, isBatch: true}, &answers)
	if err != nil {
		return c.batchInsteadOf(err, checks, items, asked)
	}
	for n, i := range asked {
		item := &items[i]
		if item.Decision, item.Err = readItem(answers.Decisions[n]); item.Err == nil {
			c.memory.remember(&checks[i], item.Decision, sent, seen)
		}
	}
	return items, nil
}

func (c *Client) batchInsteadOf(err error, checks []Check, items []BatchItem, asked []int) ([]BatchItem, error) {
	a, err := c.insteadOf(err)
	if err != nil {
		return nil, err
	}
	for _, i := range asked {
		items[i].Decision = &Decision{Answer: a, Key: checks[i].Key, Policy: checks[i].Policy}
	}
	return items, nil
}
