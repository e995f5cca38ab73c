package timestamplog

import (
	"errors"
	"time"
)

// ErrUnreachable is matched, with errors.Is, by every error that a Log returns
// because its storage cannot be reached or did not answer in time.
var ErrUnreachable = errors.New("the timestamp log is unreachable")

// ErrSlotUnavailable is matched in addition to ErrUnreachable if the server answered and only
// the logs of this request are unavailable at the moment: a Redis Cluster is moving their slot,
// or no node serves it. It is not an outage of the server.
var ErrSlotUnavailable = errors.New("the log's slot of the Redis Cluster is unavailable at the moment")

// ErrForeign is matched besides ErrUnreachable if the server responded, but the key of this
// request's log, or of its ids, contains something else, which another program wrote.
var ErrForeign = errors.New("the log's key in Redis holds something that is not a log")

// ErrDenied is matched besides ErrUnreachable if the server responded, but Stint's user lacks the
// right to a command that this request needs.
var ErrDenied = errors.New("redis does not allow the user a command that the request needs")

// ErrCrossSlot is returned by DecideAll for logs that are in different slots of a
// Redis Cluster, which one call cannot reach. Nothing was charged.
var ErrCrossSlot = errors.New("the logs are in different slots of a cluster")

// Outage is one server that holds logs and does not decide.
type Outage struct {
	Server string // its address, or another name for it
	Since  time.Time
	Reason string // the error of the last known failure
	// Requests is how many requests it left unanswered since then. The policy of each request
	// decided whether it was allowed.
	Requests int64
}

// OutageEvent reports that an outage began or ended.
type OutageEvent struct {
	Outage
	Ended time.Time // zero at the beginning
}
