package memlog

import (
	"strings"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// cancelledCharges has the charges of a shard that were cancelled and could be cancelled again, since they
// would still count. The zero value is empty.
type cancelledCharges struct {
	until map[chargeID]int64 // Unix milliseconds
	order []chargeID         // of cancellation
	// since is when a snapshot was loaded, which does not have them: the charges up to then can no
	// longer be cancelled.
	since int64
}

// chargeID names a charge. Its ID may be charged again, but at another time, or for the same time ahead with
// another cost: then it is another charge, of which the handle of the first frees nothing.
type chargeID struct {
	timestamplog.LogID
	id   string
	at   int64
	cost int
}

// cancelledBytes is about what one charge takes, without its key and its ID.
const cancelledBytes = 160

func idOfCharge(r timestamplog.Reservation) chargeID { return chargeID{r.LogID, r.ID, r.At, r.Cost} }

// maxCancelled bounds the charges of a shard that are remembered: some 100 MB in all shards. Beyond it
// nothing can be cancelled, until some no longer count.
const maxCancelled = 2048

// isFull reports whether no other charge can be remembered.
func (c *cancelledCharges) isFull(r timestamplog.Reservation) bool {
	return r.Counts > 0 && len(c.order) >= maxCancelled
}

// allows reports whether a charge up to now may be cancelled.
func (c *cancelledCharges) allows(r timestamplog.Reservation, now int64) bool {
	until, isCancelled := c.until[idOfCharge(r)]
	return now < r.At+r.Counts && r.At > c.since && (!isCancelled || until <= now)
}

// sweep drops those that no longer count, and returns how many bytes they took. One that counts for long keeps
// those that were cancelled after it, for MaxCounts and the longest wait of a reservation at most.
func (c *cancelledCharges) sweep(now int64) (bytes int) {
	for len(c.order) > 0 && c.until[c.order[0]] <= now {
		bytes += c.order[0].bytes()
		delete(c.until, c.order[0])
		c.order = c.order[1:]
	}
	return bytes
}

// add remembers that a charge was cancelled, and returns how many bytes that takes.
func (c *cancelledCharges) add(r timestamplog.Reservation) (bytes int) {
	if r.Counts == 0 {
		return 0
	}
	id := idOfCharge(r)
	id.Key, id.id = strings.Clone(id.Key), strings.Clone(id.id)
	if c.until == nil {
		c.until = map[chargeID]int64{}
	}
	c.until[id] = r.At + r.Counts
	c.order = append(c.order, id)
	return id.bytes()
}

// forget forgets that a charge was cancelled, because it is made again for the same time with the same cost.
func (c *cancelledCharges) forget(again chargeID) {
	if _, isCancelled := c.until[again]; isCancelled {
		c.until[again] = 0 // sweep deletes it
	}
}

func (c *chargeID) bytes() int { return cancelledBytes + len(c.Key) + len(c.id) }
