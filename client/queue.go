package client

import (
	"context"
	"sync"
	"time"
)

const (
	// maxQueued bounds the reports that wait, each of at most some 11 KB.
	maxQueued = 4096
	// queueDelay is how long reports are collected before a batch of them is sent.
	queueDelay = 200 * time.Millisecond
)

// queue has reports that wait to be sent. The zero value has none.
type queue struct {
	mu        sync.Mutex
	waiting   []Report
	isSending bool
	dropped   int64
}

// ReportSoon reports the outcome of a request without waiting for it: reports are sent together, some 200 ms
// later, and Close waits until they are. A report that cannot be sent is dropped, as is one that finds 4,096
// others waiting; DroppedReports counts both.
func (c *Client) ReportSoon(r Report) {
	r.Request = r.Request.cut()
	q := &c.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= maxQueued {
		q.dropped++
		return
	}
	q.waiting = append(q.waiting, r)
	if !q.isSending {
		q.isSending = true
		c.background.Go(c.sendQueued)
	}
}

// DroppedReports returns how many reports of ReportSoon were not sent.
func (c *Client) DroppedReports() int64 {
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	return c.queue.dropped
}

// sendQueued sends what waits until nothing does.
func (c *Client) sendQueued() {
	q := &c.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) > 0 {
		if len(q.waiting) < MaxBatch {
			q.mu.Unlock()
			_ = sleep(context.Background(), queueDelay)
			q.mu.Lock()
		}
		n := min(len(q.waiting), MaxBatch)
		send := q.waiting[:n:n]
		q.waiting = q.waiting[n:]
		q.mu.Unlock()
		lost := c.sendReports(send)
		q.mu.Lock()
		q.dropped += lost
	}
	q.waiting, q.isSending = nil, false
}

// sendReports returns how many of a batch could not be sent.
func (c *Client) sendReports(batch []Report) int64 {
	items, err := c.ReportBatch(context.Background(), batch)
	if err != nil {
		return int64(len(batch))
	}
	lost := int64(0)
	for i := range items {
		if items[i].Err != nil {
			lost++
		}
	}
	return lost
}
