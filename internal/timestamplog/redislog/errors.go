package redislog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/stint-dev/stint/internal/redisconn"
	"github.com/stint-dev/stint/internal/timestamplog"
)

// unreachable wraps err, which is why a primary did not decide, so that it matches
// timestamplog.ErrUnreachable.
func unreachable(err error) error {
	return fmt.Errorf("%w: %w", timestamplog.ErrUnreachable, err)
}

// requestError is why one request was not decided although the primary answered. It never
// counts towards an outage of that primary. It matches timestamplog.ErrUnreachable.
type requestError struct{ error }

// Unwrap returns the wrapped error.
func (e requestError) Unwrap() error { return e.error }

// unanswerable makes err a requestError.
func unanswerable(err error) error { return requestError{unreachable(err)} }

// blamesPrimary reports whether err, of a request, is a failure of the primary, and not only of
// the request. A primary that lost the library again while it was loaded has answered.
func blamesPrimary(err error) bool {
	return !errors.As(err, new(requestError)) && !isMissing(err)
}

// requestObserver is Options.OnRequestError.
type requestObserver func(error)

// observe calls o with the error of a request if the primary answered it.
func (o requestObserver) observe(err error) {
	if err != nil && o != nil && errors.As(err, new(requestError)) {
		o(err)
	}
}

// reasonOf returns the reason of a failure for display.
func reasonOf(err error) string {
	if isTimeout(err) {
		return "no answer in time"
	}
	return strings.TrimPrefix(err.Error(), timestamplog.ErrUnreachable.Error()+": ")
}

// isTimeout reports whether err is a timeout, either of the context or of the connection, which
// has the same deadline.
func isTimeout(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}

// slotUnavailable makes err match timestamplog.ErrSlotUnavailable.
func slotUnavailable(err error) error {
	return fmt.Errorf("%w: %w", timestamplog.ErrSlotUnavailable, err)
}

// errTorn is the error of a request that was not decided because its log and its known IDs were
// on two nodes.
var errTorn = errors.New("a log and its IDs lie on two nodes")

// errElsewhere is the error of a request whose log another primary of the Cluster has.
var errElsewhere = errors.New("another primary has the log")

// isSplit reports whether err says that the keys of a slot are on two nodes at the moment.
// Redis has done nothing then.
func isSplit(err error) bool { return redis.IsTryAgainError(err) }

// isSlotError reports whether err says that a healthy server cannot answer for one slot: its
// keys are on two nodes, or no node serves it. Redis has done nothing then.
func isSlotError(err error) bool {
	return isSplit(err) || redisconn.Refuses(err, "CLUSTERDOWN Hash slot not served")
}

// wasNotDone reports whether err says that this server has done nothing and that another
// server, or the same one a little later, will: a slot has moved or is about to move, the
// server is no longer a primary, it lacks the library, or its connections were closed because
// it left the Cluster. A network error is none of these.
func wasNotDone(err error) bool {
	if isMissing(err) || errors.Is(err, redis.ErrClosed) {
		return true
	}
	_, moved := redis.IsMovedError(err)
	_, asks := redis.IsAskError(err)
	return moved || asks || isSplit(err) || redis.IsReadOnlyError(err)
}

// Cause returns what the reason of an outage means, as the rest of a sentence that begins with
// the server's name. It repeats nothing of the reason.
func Cause(reason string) string {
	for _, known := range []struct{ part, means string }{
		{"OOM ", "is out of memory (OOM)"},
		{"READONLY", "is a replica and takes no writes (READONLY)"},
		{"LOADING", "is loading its data (LOADING)"},
		{"BUSY ", "is busy running a script (BUSY)"},
		{"MISCONF", "takes no writes since it cannot save (MISCONF)"},
		{"MASTERDOWN", "is a replica that has lost its primary (MASTERDOWN)"},
		{"NOREPLICAS", "takes no writes since it has too few replicas (NOREPLICAS)"},
		{"CLUSTERDOWN", "is part of a Cluster that is down (CLUSTERDOWN)"},
		{"NOAUTH", "requires a password (NOAUTH)"},
		{"WRONGPASS", "refuses the user or the password (WRONGPASS)"},
		{"NOPERM", "refuses the user a command (NOPERM)"},
		{"max number of clients", "has too many clients"},
	} {
		if strings.Contains(reason, known.part) {
			return known.means
		}
	}
	return "is unreachable"
}
