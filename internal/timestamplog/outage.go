package timestamplog

import (
	"errors"
	"time"
)

// ErrUnreachable is matched, with errors.Is, by the Err of a Result and by
// every error that a Log returns because what holds the logs cannot be reached
// or did not answer in time.
var ErrUnreachable = errors.New("the timestamp log is out of reach")

// ErrSlotUnavailable is matched besides ErrUnreachable where the server answered
// and only the logs of this request cannot be asked at the moment: a Redis
// Cluster is moving their slot, or nobody has it. It is no outage of the server.
var ErrSlotUnavailable = errors.New("the log's slot of the Redis Cluster cannot be asked at the moment")

// Outage is one server that holds logs and does not decide.
type Outage struct {
	Server string // its address, or what else names it
	Since  time.Time
	Reason string // the error of the last failure that is known
	// Requests is how many requests it has left unanswered since then; the
	// policy of each said what happened to it.
	Requests int64
}

// OutageEvent tells that an outage began or ended.
type OutageEvent struct {
	Outage
	Ended time.Time // zero at the beginning
}
