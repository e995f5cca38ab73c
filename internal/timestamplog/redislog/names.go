package redislog

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/timestamplog"
)

// DefaultPrefix begins the name of every key if no other prefix is set.
const DefaultPrefix = "stint"

var prefixForm = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

// CheckPrefix returns an error unless key names may begin with prefix. A brace in it would
// start another hash tag.
func CheckPrefix(prefix string) error {
	if !prefixForm.MatchString(prefix) {
		return fmt.Errorf("the prefix %q of the Redis keys must be 1 to 64 letters, digits, dots, colons, underscores or dashes", prefix)
	}
	return nil
}

// Shards is the number of hash tags over which the logs are spread, and so the largest number
// of primaries of a Redis Cluster that can share them. The shard is part of every log's name:
// changing Shards forgets all logs.
const Shards = 256

// logName returns the name of a log: prefix:{shard}:policy.generation:key.
func logName(prefix string, shard int, id timestamplog.LogID) string {
	var text [48]byte
	middle := strconv.AppendInt(append(text[:0], ":{"...), int64(shard), 10)
	middle = strconv.AppendInt(append(middle, "}:"...), id.Policy, 10)
	middle = strconv.AppendInt(append(middle, '.'), id.Generation, 10)
	var name strings.Builder // its string is not copied
	name.Grow(len(prefix) + len(middle) + 1 + len(id.Key))
	name.WriteString(prefix)
	name.Write(middle)
	name.WriteByte(':')
	name.WriteString(id.Key)
	return name.String()
}

// idsName returns the name of the key that holds the known IDs of a log:
// prefix:{shard}:ipolicy.generation:key. No log has such a name, since a log's name has a digit
// in place of the i.
func idsName(log string) string { return strings.Replace(log, "}:", "}:i", 1) }

// settledName returns the name of the key that holds the answer about a hold that was settled:
// prefix:{shard}:hpolicy.generation:key:tag.
func settledName(log string, tag uint64) string {
	return fmt.Sprintf("%s:%016x", strings.Replace(log, "}:", "}:h", 1), tag)
}

// cancelledName returns the name of the key that exists while it is known that a charge was cancelled:
// prefix:{shard}:ctime.cost.length.id:policy.generation:key, with the length of the ID, which may contain
// anything. With another cost it is another charge, of which the handle of the first frees nothing.
func cancelledName(log string, r timestamplog.Reservation) string {
	return strings.Replace(log, "}:", fmt.Sprintf("}:c%d.%d.%d.%s:", r.At, r.Cost, len(r.ID), r.ID), 1)
}

// The names of the function library and its functions end in the hash of its text, so that two
// versions that run at the same time each call their own.
const (
	libraryName          = "stint_"
	decideFunction       = "stint_decide_"
	acrossFunction       = "stint_across_"
	reservationsFunction = "stint_reserve_"
	cancelFunction       = "stint_cancel_"
	timesFunction        = "stint_times_"
	numbersFunction      = "stint_numbers_"
	holdsFunction        = "stint_holds_"
	resetFunction        = "stint_reset_"
	settleFunction       = "stint_settle_"
	tryFunction          = "stint_try_"
)
